//! The bounds of the language and of one evaluation, each with a name.
//!
//! What the text may look like is fixed here and checked by the parser. What an evaluation may
//! cost travels in [`Limits`], so that a server can be stricter than the defaults.

/// Longest query text accepted, in bytes.
// A documented limit of the service.
pub const MAX_TEXT_LENGTH: usize = 512 * 1024;

/// Deepest nesting of expressions and sub-queries.
///
/// Parsing, printing, compiling and evaluating recurse over the tree, so this bounds their stack.
// The service nests documents 128 deep; a thread's stack of 2 MiB takes several times that.
pub const MAX_DEPTH: usize = 128;

/// Most `JOIN`s in one query, sub-queries counted separately.
// A documented limit of the service.
pub const MAX_JOINS: usize = 10;

/// Largest compiled regular expression, in bytes of program.
// The default of the regex crate is ten times that; a query may hold many patterns.
pub const MAX_REGEX_SIZE: usize = 1024 * 1024;

/// Most backtracking steps of one regular expression with look-around or back-references on one text.
///
/// About ten milliseconds; the service gives such a match its share of the 5 s that a page may take.
pub const MAX_REGEX_BACKTRACKING: usize = 100_000;

/// Longest string `REPLICATE` produces, in characters; beyond it the result is undefined.
pub const MAX_REPLICATED_LENGTH: usize = 10_000;

/// Limits of one execution.
///
/// Work is counted in the evaluator's own steps (about one per node of an expression and per 64 bytes read or
/// built), so that the same query over the same documents ends at the same place on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest value any function or operator may build, in bytes (roughly its JSON length).
    pub max_value_size: usize,
    /// Steps for one row: one combination of what the sources of the query give. More are an error.
    pub max_steps_per_row: u64,
    /// Steps of one run. Where rows stream, the run pauses at the end of them and can be resumed; a query that
    /// cannot stream fails.
    pub max_steps: u64,
    /// Rows or groups held at once by a query that cannot stream, or by a sub-query.
    pub max_buffered_rows: usize,
    /// Bytes of those rows and groups (roughly their JSON length).
    pub max_buffered_bytes: usize,
}

impl Limits {
    /// Bounds wide enough for any item the service stores (2 MiB), and narrow enough that one query takes
    /// neither a machine's memory nor a minute of its time.
    pub const DEFAULT: Self = Self {
        max_value_size: 8 * 1024 * 1024,
        max_steps_per_row: 20_000_000,
        max_steps: 200_000_000,
        max_buffered_rows: 10_000_000,
        max_buffered_bytes: 128 * 1024 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
