//! Limits of a query: memory, duration, sizes.

/// Bounds of one query. Where one is met, the query ends with
/// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) and a sentence that names it; the two bounds of
/// what is buffered only make it wait.
///
/// ```
/// use sidereal::query::QueryLimits;
///
/// // A GROUP BY that is expected to have few groups.
/// let limits = QueryLimits { max_merged_rows: 10_000, ..QueryLimits::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimits {
    /// Pages that are requested ahead of the reader, over all partition ranges. Every range that the next row
    /// may come from has one page beside these.
    pub max_buffered_pages: usize,
    /// Bytes of such pages; no further page is requested while they are reached.
    pub max_buffered_bytes: usize,
    /// Rows that are held until the result is known: groups of a `GROUP BY`, rows of a `DISTINCT`, rows of an
    /// order that no partition range can stream.
    pub max_merged_rows: usize,
    /// Empty pages of one partition range in a row. The service gives them while it scans, so it takes many
    /// before they mean that something is wrong.
    pub max_empty_pages: usize,
    /// Pages of one partition range.
    pub max_pages_per_range: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self {
            max_buffered_pages: 64,
            max_buffered_bytes: 64 * 1024 * 1024,
            // At some hundred bytes a row a few hundred megabytes.
            max_merged_rows: 1_000_000,
            // A page may take five seconds on the service: hours of scanning.
            max_empty_pages: 10_000,
            max_pages_per_range: 1_000_000,
        }
    }
}

/// How many ranges are asked at once, unless the query says otherwise: enough for a container of a hundred
/// partitions in a handful of round trips, few enough for a connection or two.
pub(super) const DEFAULT_PARALLELISM: usize = 32;

/// Pages of one range that are requested ahead: one to go on with, one on its way.
pub(super) const PREFETCH_PER_RANGE: usize = 2;

/// Rows of a merged page where the query names no size: as many as the service puts into one.
pub(super) const DEFAULT_PAGE_ROWS: usize = 100;

/// The longest continuation that is sent back: servers refuse longer headers, the service's own has at most 16 KB.
pub(super) const MAX_CONTINUATION_BYTES: usize = 32 * 1024;

/// How often in a row a range may be reported gone, where reading the ranges again brings nothing new.
pub(super) const MAX_GONE_IN_A_ROW: u32 = 10;

/// Diagnostics that a page keeps of the requests behind it.
pub(super) const MAX_DIAGNOSTICS: usize = 32;
