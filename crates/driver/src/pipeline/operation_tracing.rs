//! Log events and spans of an operation, and the machine's load in its diagnostics.

use std::time::Duration;

use uuid::Uuid;

use super::{OperationOutcome, RaceOutcome};
use crate::diagnostics::{Decision, DiagnosticsContext, DiagnosticsContextBuilder};
use crate::driver_core::DriverCore;
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind};

/// Adds the machine's load to the diagnostics of operations that failed, were slow or needed several attempts.
pub(super) fn diagnose(
    core: &DriverCore,
    operation: &CosmosOperation,
    ended: &OperationOutcome,
    diagnostics: &mut DiagnosticsContextBuilder,
    took: Duration,
) {
    let is_usual = matches!(ended, OperationOutcome::Answered(_))
        && diagnostics.attempts().len() == 1
        && !core.thresholds.is_slow(operation, took);
    if !is_usual {
        diagnostics.observe_machine(core.runtime.monitor().history());
    }
}

/// The span of an operation, if operations are traced and a subscriber takes debug spans.
pub(super) fn span(
    core: &DriverCore,
    operation: &CosmosOperation,
    activity_id: Uuid,
) -> Option<tracing::Span> {
    let is_wanted = core.thresholds.is_traced && tracing::enabled!(tracing::Level::DEBUG);
    is_wanted.then(|| {
        tracing::debug_span!(
            "cosmos_operation",
            operation = operation.operation_type().as_str(),
            container = operation.encoded().container.as_deref(),
            activity_id = %activity_id,
        )
    })
}

/// Logs an attempt that failed.
pub(super) fn trace_failed_attempt(core: &DriverCore, race: &RaceOutcome<'_>, decision: Decision) {
    if core.thresholds.is_traced {
        tracing::debug!(
            region = race.endpoint.region.as_ref().map(tracing::field::display),
            status = %race.result.outcome.status(),
            decision = decision.as_str(),
            reason = decision.reason(),
            "attempt failed"
        );
    }
}

/// Logs an operation: at debug level if all is well, as a warning if it failed
/// or was slow or expensive. Its attempts are in the diagnostics.
pub(super) fn trace(
    core: &DriverCore,
    operation: &CosmosOperation,
    outcome: &Result<CosmosResponse, Error>,
) {
    if !core.thresholds.is_traced {
        return;
    }
    let (diagnostics, failed) = match outcome {
        Ok(response) => (Some(response.diagnostics()), false),
        Err(error) => (error.diagnostics(), is_failure(error.kind())),
    };
    let Some(diagnostics) = diagnostics else { return };
    let is_slow = core.thresholds.is_slow(operation, diagnostics.elapsed());
    let is_expensive = diagnostics.charge() >= core.thresholds.charge;
    match (failed, is_slow, is_expensive) {
        (true, _, _) => tell(operation, diagnostics, "operation failed"),
        (false, true, _) => tell(operation, diagnostics, "slow operation"),
        (false, false, true) => tell(operation, diagnostics, "expensive operation"),
        (false, false, false) => tracing::debug!(
            operation = operation.operation_type().as_str(),
            activity_id = %diagnostics.activity_id(),
            attempts = diagnostics.attempts().len() + diagnostics.attempts_left_out(),
            elapsed = ?diagnostics.elapsed(),
            status = diagnostics.status().map(tracing::field::display),
            "operation ended"
        ),
    }
}

fn tell(operation: &CosmosOperation, diagnostics: &DiagnosticsContext, what: &'static str) {
    tracing::warn!(
        operation = operation.operation_type().as_str(),
        activity_id = %diagnostics.activity_id(),
        attempts = diagnostics.attempts().len() + diagnostics.attempts_left_out(),
        elapsed = ?diagnostics.elapsed(),
        status = diagnostics.status().map(tracing::field::display),
        charge = diagnostics.charge(),
        %diagnostics,
        "{what}"
    );
}

/// Whether an error is logged as a failure: outcomes of everyday work, such as a missing item, are not.
fn is_failure(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::PreconditionFailed
            | ErrorKind::Cancelled
    )
}
