//! Retry decisions: one vocabulary for both pipelines, and for diagnostics.
//!
//! A [`Question`] says what was asked and what came back; the [`matrix`] is a table, as data, of what each
//! outcome means; [`Budgets`] say how much of it is left; and the answer is a [`Decision`]. The transport
//! pipeline asks [`evaluate_transport_retry`] for what can be settled at the endpoint, the operation
//! pipeline asks [`evaluate_operation_retry`] for the rest.
//!
//! Nothing here reads a clock, waits or sends: time, jitter and what is left to try are parameters.

mod budgets;
mod decision;
mod evaluation;
mod matrix;
mod question;

pub use budgets::{Backoff, Budget, Budgets, Retries, ThrottleBudget};
pub use decision::{Decision, Manner, RetryTarget};
pub use evaluation::{Circumstances, Verdict, evaluate_transport_retry};
pub(crate) use evaluation::{OtherEndpoints, evaluate_operation_retry};
pub(crate) use matrix::{Effect, UnavailableReason, row_of, row_of_write};
pub use question::{AttemptOutcome, Question, RequestKind};
