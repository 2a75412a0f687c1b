//! The report of a bulk: counts, charges and the result of each operation.

use sidereal_protocol::{BatchOperationType, PartitionKey};

use super::operation::Name;
use crate::{BatchOperationResult, Error, Result};

/// The outcome of a bulk: a result for each operation, in the order of the input, and what it cost. Where results were given
/// to a handler ([`Bulk::with_results`](super::Bulk::with_results)), only failures are here, 10,000 at most.
#[derive(Debug)]
pub struct BulkReport {
    pub(super) results: Vec<BulkResult>,
    pub(super) progress: BulkProgress,
    pub(super) interruption: Option<Error>,
}

/// How far a bulk is: see [`Bulk::with_progress`](super::Bulk::with_progress).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkProgress {
    /// Operations taken from the input.
    pub taken: usize,
    /// Operations that are over and succeeded.
    pub succeeded: usize,
    /// Operations that are over and failed.
    pub failed: usize,
    /// Requests that were sent, retries included.
    pub requests: usize,
    /// How often an operation was throttled.
    pub throttled: usize,
    /// The charge of all requests, in request units.
    pub request_charge: f64,
}

impl BulkReport {
    /// The results, in the order of the input.
    #[must_use]
    pub fn results(&self) -> &[BulkResult] {
        &self.results
    }

    /// The results, taken.
    #[must_use]
    pub fn into_results(self) -> Vec<BulkResult> {
        self.results
    }

    /// The results of operations that failed.
    pub fn failures(&self) -> impl Iterator<Item = &BulkResult> {
        self.results.iter().filter(|it| it.outcome.is_err())
    }

    /// Whether no operation failed and the input was taken to its end.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.progress.failed == 0 && self.interruption.is_none()
    }

    /// Why the input was not taken to its end: the deadline passed, or the call was cancelled.
    #[must_use]
    pub fn interruption(&self) -> Option<&Error> {
        self.interruption.as_ref()
    }

    /// How many operations were taken, succeeded and failed.
    #[must_use]
    pub fn progress(&self) -> BulkProgress {
        self.progress
    }

    /// The charge of all requests, in request units.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.progress.request_charge
    }

    /// How many requests were sent, retries included.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.progress.requests
    }

    /// How often an operation was throttled and sent again.
    #[must_use]
    pub fn throttled(&self) -> usize {
        self.progress.throttled
    }
}

/// The result of one operation of a bulk.
#[derive(Clone, Debug)]
pub struct BulkResult {
    index: usize,
    name: Name,
    outcome: Result<BatchOperationResult>,
}

impl BulkResult {
    pub(super) fn new(index: usize, name: Name, outcome: Result<BatchOperationResult>) -> Self {
        Self { index, name, outcome }
    }

    pub(super) fn is_failure(&self) -> bool {
        self.outcome.is_err()
    }

    /// The position of the operation in the input, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The type of the operation.
    #[must_use]
    pub fn operation(&self) -> BatchOperationType {
        self.name.kind
    }

    /// The id of the item; none if the item that was given has none.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.name.id.as_deref()
    }

    /// The partition key of the item.
    #[must_use]
    pub fn partition_key(&self) -> &PartitionKey {
        &self.name.key
    }

    /// The outcome of the operation.
    ///
    /// # Errors
    ///
    /// The error of the operation. [`Error::may_have_been_applied`](crate::Error::may_have_been_applied) says whether it
    /// may have been applied although it failed: the answer to an attempt was lost, and a conflict that a later attempt
    /// met may be with its own item.
    pub fn outcome(&self) -> Result<&BatchOperationResult> {
        self.outcome.as_ref().map_err(Clone::clone)
    }

    /// Takes the outcome of the operation out of the result.
    ///
    /// # Errors
    ///
    /// The errors of [`outcome`](Self::outcome).
    pub fn into_outcome(self) -> Result<BatchOperationResult> {
        self.outcome
    }
}
