//! Request charges (RU): one table and a few sums.
//!
//! The figures of reads and writes by size are the service's published ones, with linear interpolation
//! between them. A write pays for its size and for each indexed term it adds or removes.

/// Document size in KiB, units to read it, units to write it.
const BY_SIZE: &[(f64, f64, f64)] = &[
    (1.0, 1.00, 4.95),
    (2.0, 1.04, 6.29),
    (4.0, 1.14, 6.67),
    (8.0, 1.33, 7.04),
    (16.0, 1.67, 9.52),
    (32.0, 2.19, 11.23),
    (64.0, 4.76, 22.67),
    (128.0, 9.95, 48.19),
    (256.0, 20.28, 98.29),
    (512.0, 40.95, 184.57),
    (1024.0, 145.90, 625.00),
    (2048.0, 291.80, 1250.00),
];

/// Per indexed term added or removed: fitted to the published examples, as the rates below are.
const TERM: f64 = 0.2;
/// Per operation of a patch, on top of the replacement it amounts to.
const PATCH_OPERATION: f64 = 0.4;
/// To start a query; the pages after the first do not pay it again. With one lookup and one item of 1 KiB it makes
/// the 2.9 units that the service charges for a query by id.
const QUERY: f64 = 2.8;
/// Per range that a query looks up in an index.
const QUERY_LOOKUP: f64 = 0.02;
/// Per document a query loads: an index leaves few, a scan all.
const QUERY_LOAD: f64 = 0.02;
/// Per step of evaluation: what a join or a function costs beyond loading documents. The service charges by
/// processor time; a page of its 5 s comes to some thousand units.
const QUERY_STEP: f64 = 0.0001;
/// Per KiB a query gives back.
const QUERY_KIBIBYTE: f64 = 0.05;

/// A response without data: a refused or conditional operation, a metadata read, an empty feed page.
pub(crate) const MINIMUM: f64 = 1.0;
/// A page of a query that did nothing: every page is charged, and those of a query cost together what one page would.
pub(crate) const LEAST_OF_PAGE: f64 = 0.01;
/// Creating, replacing or deleting a database or container.
pub(crate) const METADATA_WRITE: f64 = 4.95;

/// Reading a document of `bytes`.
pub(crate) fn read(bytes: usize) -> f64 {
    by_size(bytes, |row| row.1)
}

/// Creating or deleting a document of `bytes` with `terms` indexed terms.
pub(crate) fn write(bytes: usize, terms: u32) -> f64 {
    by_size(bytes, |row| row.2) + TERM * f64::from(terms)
}

/// Replacing a document.
pub(crate) fn replace(bytes: usize, removed_terms: u32, added_terms: u32) -> f64 {
    // The old version is removed and the new one written.
    2.0 * by_size(bytes, |row| row.2) + TERM * f64::from(removed_terms + added_terms)
}

/// Patching a document: the replacement it amounts to, and its operations.
pub(crate) fn patch(bytes: usize, removed: u32, added: u32, operations: usize) -> f64 {
    replace(bytes, removed, added) + PATCH_OPERATION * operations as f64
}

/// The work that a page of a query took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueryWork {
    /// Ranges looked up in indexes.
    pub(crate) lookups: usize,
    /// Documents loaded.
    pub(crate) loaded: usize,
    /// Steps of evaluation.
    pub(crate) steps: u64,
    /// Bytes given back.
    pub(crate) bytes: usize,
}

/// A page of a query, by what the index and the evaluation did.
pub(crate) fn query(first_page: bool, work: QueryWork) -> f64 {
    let start = if first_page { QUERY } else { 0.0 };
    start
        + QUERY_LOOKUP * work.lookups as f64
        + QUERY_LOAD * work.loaded as f64
        + QUERY_STEP * work.steps as f64
        + QUERY_KIBIBYTE * work.bytes as f64 / 1024.0
}

/// The charge as it is told: with two decimals, as the service rounds it.
pub(crate) fn rounded(units: f64) -> f64 {
    (units * 100.0).round() / 100.0
}

fn by_size(bytes: usize, column: impl Fn(&(f64, f64, f64)) -> f64) -> f64 {
    let kib = bytes as f64 / 1024.0;
    let above = BY_SIZE.iter().position(|row| row.0 >= kib);
    match above {
        Some(0) => column(&BY_SIZE[0]),
        Some(index) => between(&BY_SIZE[index - 1], &BY_SIZE[index], kib, column),
        // Larger than any document can be; a batch of them is charged document by document.
        None => column(&BY_SIZE[BY_SIZE.len() - 1]) * kib / BY_SIZE[BY_SIZE.len() - 1].0,
    }
}

fn between(
    low: &(f64, f64, f64),
    high: &(f64, f64, f64),
    kib: f64,
    column: impl Fn(&(f64, f64, f64)) -> f64,
) -> f64 {
    let share = (kib - low.0) / (high.0 - low.0);
    column(low) + share * (column(high) - column(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published sums count a write of 1 KiB as 5 units, the published table as 4.95.
    fn close(actual: f64, published: f64) -> bool {
        (actual - published).abs() <= 0.1 + f64::EPSILON * 16.0
    }

    #[test]
    fn published_figures_are_met() {
        assert_eq!(read(1024), 1.0);
        assert_eq!(read(64 * 1024), 4.76);
        assert_eq!(read(100), 1.0);
        assert!(close(write(1024, 10), 7.0));
        assert!(close(replace(1024, 2, 2), 10.8));
        assert!(close(patch(1024, 2, 2, 2), 11.6));
    }

    #[test]
    fn a_query_costs_what_it_did() {
        let by_id = QueryWork { lookups: 1, loaded: 1, steps: 20, bytes: 1024 };
        assert!((query(true, by_id) - 2.9).abs() < 0.05);
        let scan = QueryWork { lookups: 0, loaded: 100_000, steps: 1_000_000, bytes: 1024 };
        assert!(query(true, scan) > 2000.0);
        let join = QueryWork { lookups: 0, loaded: 1, steps: 20_000_000, bytes: 0 };
        assert!(query(true, join) > 1000.0);
    }

    #[test]
    fn a_charge_between_two_sizes_lies_between_their_charges() {
        let between = read(3 * 1024);
        assert!(between > 1.04 && between < 1.14);
    }

    #[test]
    fn a_charge_is_rounded_to_two_decimals() {
        assert_eq!(rounded(1.0), 1.0);
        assert_eq!(rounded(2.2849), 2.28);
    }
}
