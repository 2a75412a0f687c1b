//! A batch that was answered or lost: its results, one for each operation, and what becomes of each.

use std::sync::Arc;

use serde_json::value::RawValue;
use sidereal_driver::CosmosResponse;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::{BatchResult, PartitionKeyRangeId};

use super::next_step::{Again, NextStep, judge_request, judge_result};
use super::range_queue::Pending;
use crate::error::OperationFailure;
use crate::response::decode;
use crate::{Error, ErrorKind, Result};

/// A batch that is no longer in flight.
pub(super) struct CompletedBatch {
    pub(super) range: PartitionKeyRangeId,
    pub(super) batch: Vec<Pending>,
    pub(super) outcome: Result<CosmosResponse, Arc<sidereal_driver::Error>>,
}

/// An operation of a completed batch, and what becomes of it.
pub(super) struct Judged {
    pub(super) pending: Pending,
    pub(super) next_step: NextStep,
    pub(super) outcome: Result<BatchResult>,
    /// How many operations the batch had.
    pub(super) together: usize,
}

impl Judged {
    pub(super) fn again(&self) -> Option<Again> {
        match self.next_step {
            NextStep::Again { why, .. } => Some(why),
            NextStep::Done | NextStep::Failed { .. } => None,
        }
    }
}

pub(super) fn judge(
    batch: Vec<Pending>,
    results: Result<Vec<Result<BatchResult>>>,
    diagnostics: Option<&DiagnosticsContext>,
) -> Vec<Judged> {
    let together = batch.len();
    let was_ambiguous = diagnostics.is_some_and(DiagnosticsContext::has_ambiguous_attempt);
    match results {
        Ok(results) => {
            let each = batch.into_iter().zip(results).map(|(pending, result)| {
                let next_step = match &result {
                    Ok(result) => judge_result(&pending, result, together, was_ambiguous),
                    Err(error) => judge_request(&pending, error, together),
                };
                Judged { pending, next_step, outcome: result, together }
            });
            each.collect()
        }
        Err(error) => {
            let each = batch.into_iter().map(|pending| {
                let next_step = judge_request(&pending, &error, together);
                Judged { pending, next_step, outcome: Err(error.clone()), together }
            });
            each.collect()
        }
    }
}

/// The results of a batch, one for each operation. One that cannot be read leaves the others as they are.
pub(super) fn results_of(
    response: &CosmosResponse,
    operations: usize,
) -> Result<Vec<Result<BatchResult>>> {
    // Operations that only read are told apart by the next step.
    let unreadable = |message: String| Error::unreadable(message, true, response.diagnostics());
    let results: Vec<&RawValue> =
        decode(response.body()).map_err(|error| unreadable(error.to_string()))?;
    if results.len() != operations {
        return Err(unreadable(format!(
            "the service answered a batch of {operations} operations with {} results",
            results.len()
        )));
    }
    let read = |result: &RawValue| {
        serde_json::from_str(result.get())
            .map_err(|error| unreadable(format!("the result cannot be read: {error}")))
    };
    Ok(results.into_iter().map(read).collect())
}

pub(super) fn refusal(result: &BatchResult) -> Error {
    let status = result.status();
    let sentence = format!("the service answered {status}");
    let failure =
        OperationFailure { status: Some(status), may_have_been_applied: false, diagnostics: None };
    Error::of_operation(ErrorKind::of_status(status), sentence, failure, None)
}
