//! Diagnostics of operations, for people and for machines: attempts with their endpoints, times and outcomes.
//!
//! An attempt writes into its [`RequestDiagnostics`] while it runs; an operation collects them in a
//! [`DiagnosticsContextBuilder`] and gives the caller a [`DiagnosticsContext`]. Text is made when someone
//! asks for it. Nothing secret is kept, so nothing secret can be shown.

mod context;
mod display;
mod failure;
mod json;
mod request;

pub use crate::retry::{Decision, Manner, RetryTarget};
pub use crate::session::{LogSequenceNumber, SessionState};
pub use context::{DiagnosticsContext, DiagnosticsContextBuilder};
pub use request::{ExecutionContext, Phase, RequestDiagnostics, RequestEvent, RequestEventKind};

#[cfg(test)]
mod tests;
