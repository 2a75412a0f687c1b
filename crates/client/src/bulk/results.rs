//! Where the results of operations go: into the report, or to the caller one by one.

use super::BulkResult;

/// Failures that a report has where results are given to a handler. All are counted, and all are given.
pub(super) const MAX_KEPT_FAILURES: usize = 10_000;

pub(super) type ResultHandler = Box<dyn FnMut(BulkResult) + Send>;

/// The results of a bulk under way.
pub(super) struct Results {
    kept: Vec<BulkResult>,
    handler: Option<ResultHandler>,
}

impl Results {
    pub(super) fn new(handler: Option<ResultHandler>) -> Self {
        Self { kept: Vec::new(), handler }
    }

    /// Takes the result of an operation that is over.
    pub(super) fn take(&mut self, result: BulkResult) {
        let Some(handler) = &mut self.handler else { return self.kept.push(result) };
        if result.is_failure() && self.kept.len() < MAX_KEPT_FAILURES {
            self.kept.push(result.clone());
        }
        handler(result);
    }

    /// Those that the report has, in the order of the input.
    pub(super) fn into_kept(mut self) -> Vec<BulkResult> {
        self.kept.sort_unstable_by_key(BulkResult::index);
        self.kept
    }
}
