//! One operation, from what was asked to what is answered.
//!
//! The loop is in `operation_pipeline.rs`. Where an attempt goes is asked in `attempt.rs`, which also races it
//! against a hedge; what it sends is built by `request.rs`; what its outcome means is decided by
//! `retry_evaluation.rs`, and told to whom it concerns by `settlement.rs`. A write that has nowhere else to go waits in `held_write.rs`. `request.rs` and
//! `retry_evaluation.rs` are pure.

mod attempt;
mod held_write;
mod observation;
mod operation_pipeline;
mod request;
mod retry_evaluation;
mod settlement;

use attempt::{Raced, Run, earlier};
use held_write::Admission;
pub(crate) use observation::SlowOperationThresholds;
pub(crate) use operation_pipeline::{OperationPipeline, execute_operation_pipeline};
use request::{AttemptTerms, begin_request, complete_request};
use retry_evaluation::{
    Ended, Evaluation, OperationRetryState, conclude, evaluate_transport_result,
};
