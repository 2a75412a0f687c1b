//! One operation, from what was asked to what is answered.
//!
//! The loop is in `operation_pipeline.rs`. `route.rs` chooses where an attempt goes, `request.rs` builds its
//! request, `race.rs` sends it and races it against a hedge if it is slow. `retry_evaluation.rs` decides what the
//! outcome means, and `settlement.rs` applies it to the state of the account. A read whose session has not arrived
//! waits by `session_retry.rs`, a write that has nowhere else to go by `held_write.rs`; an attempt in a region that
//! answers nothing is given up in `silence.rs`. `request.rs` and `retry_evaluation.rs` are pure.

mod attempt;
mod deadline;
mod held_write;
mod operation_pipeline;
mod operation_tracing;
mod race;
mod request;
mod retry_evaluation;
mod route;
mod run;
mod session_retry;
mod settlement;
mod silence;

use attempt::RaceOutcome;
use deadline::min_deadline;
use held_write::Admission;
pub(crate) use operation_pipeline::{OperationPipeline, execute_operation_pipeline};
use request::{AttemptTerms, begin_request, complete_request};
use retry_evaluation::{
    Evaluation, OperationOutcome, OperationRetryState, conclude, evaluate_transport_result,
};
use run::OperationRun;
