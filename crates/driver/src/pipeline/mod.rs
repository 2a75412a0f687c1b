//! One operation, from what was asked to what is answered.
//!
//! The loop is in `operation_pipeline.rs`; what it sends is built by `request.rs` and what it makes of the
//! outcome is decided by `retry_evaluation.rs`, both pure.

mod operation_pipeline;
mod request;
mod retry_evaluation;

pub(crate) use operation_pipeline::{OperationPipeline, execute_operation_pipeline};
use request::{AttemptTerms, build_transport_request};
use retry_evaluation::{
    Ended, Evaluation, OperationRetryState, conclude, evaluate_transport_result,
};
