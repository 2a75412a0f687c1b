//! The loop of an operation: look, send, decide, until nothing is left to try.
//!
//! There is one endpoint, the account's: what another region would be asked for is asked here again, after
//! back-off.

use std::time::Instant;

use super::{
    AttemptTerms, Ended, OperationRetryState, RoutingDecision, build_transport_request, conclude,
    evaluate_transport_result,
};
use crate::diagnostics::{Decision, DiagnosticsContextBuilder, ExecutionContext};
use crate::options::{
    AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, OptionLayers, RequestOptions,
};
use crate::retry::{Budgets, Circumstances};
use crate::system::Clock;
use crate::transport::{TransportOutcome, TransportPipeline, TransportResponse};
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind};

/// What an operation runs with.
pub(crate) struct OperationPipeline<'a> {
    pub(crate) transport: &'a TransportPipeline,
    pub(crate) routing: RoutingDecision,
    pub(crate) options: &'a OptionLayers,
    pub(crate) request: &'a RequestOptions,
    pub(crate) availability: &'a AvailabilityOptions,
    pub(crate) write: &'a ItemWriteOptions,
    pub(crate) is_traced: bool,
    pub(crate) method: &'a ClientMethodOptions<'a>,
    pub(crate) clock: &'a Clock,
}

/// Runs an operation to its end.
pub(crate) async fn execute_operation_pipeline(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
) -> Result<CosmosResponse, Error> {
    let started = Clock::now();
    let activity_id = pipeline.method.activity_id.unwrap_or_else(|| pipeline.clock.new_id());
    let mut diagnostics = DiagnosticsContextBuilder::new(activity_id, started);
    let running = run(operation, pipeline, &mut diagnostics);
    let ended = match pipeline.method.cancellation {
        None => running.await,
        Some(cancellation) => tokio::select! {
            // The outcome first: an operation that has ended is not reported as cancelled.
            biased;
            ended = running => ended,
            () = cancellation.cancelled() => Ended::Failed(cancelled(), None),
        },
    };
    let outcome = finish(ended, operation, diagnostics);
    if pipeline.is_traced {
        trace(operation, &outcome);
    }
    outcome
}

/// One event for each operation; its attempts are in the diagnostics.
fn trace(operation: &CosmosOperation, outcome: &Result<CosmosResponse, Error>) {
    let diagnostics = match outcome {
        Ok(response) => Some(response.diagnostics()),
        Err(error) => error.diagnostics(),
    };
    if let Some(diagnostics) = diagnostics {
        tracing::debug!(
            operation = operation.operation_type().as_str(),
            activity_id = %diagnostics.activity_id(),
            attempts = diagnostics.attempts().len() + diagnostics.attempts_left_out(),
            elapsed = ?diagnostics.elapsed(),
            status = diagnostics.status().map(tracing::field::display),
            "operation ended"
        );
    }
}

async fn run(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
    diagnostics: &mut DiagnosticsContextBuilder,
) -> Ended {
    let availability = pipeline.options.availability(pipeline.availability);
    let timeout = availability.end_to_end_timeout();
    let end = timeout.and_then(|it| diagnostics.started().checked_add(it));
    let deadline = earlier(pipeline.method.deadline, end);
    let mut terms = AttemptTerms {
        options: &pipeline.options.request(pipeline.request),
        write: &pipeline.options.write(pipeline.write),
        activity_id: diagnostics.activity_id(),
        execution_context: ExecutionContext::Initial,
        deadline,
        budgets: Budgets::new(&availability),
    };
    let mut state = OperationRetryState::new(terms.budgets);
    loop {
        let request = match build_transport_request(operation, &pipeline.routing, &terms) {
            Ok(request) => request,
            Err(error) => return Ended::Failed(error, None),
        };
        let result = pipeline.transport.execute(&request, diagnostics).await;
        if let TransportOutcome::Success(response) = result.outcome {
            return Ended::Answered(response);
        }
        state.observe(&result);
        let circumstances =
            Circumstances { deadline, now: result.at, jitter: pipeline.clock.random() };
        let endpoint = &pipeline.routing.endpoint;
        let evaluation =
            evaluate_transport_result(operation, endpoint, &result.outcome, &state, &circumstances);
        diagnostics.decided(evaluation.verdict.decision);
        for effect in &evaluation.effects {
            tracing::debug!(?effect, "an attempt failed");
        }
        match evaluation.verdict.decision {
            Decision::RetryHere { after, .. } if !after.is_zero() => {
                tokio::time::sleep(after).await;
            }
            Decision::RetryHere { .. } | Decision::RetryElsewhere { .. } => {}
            Decision::Finish { .. } => return conclude(operation, result.outcome, &state),
        }
        state.spend(&evaluation.verdict);
        terms.budgets = state.budgets;
        terms.execution_context = ExecutionContext::Retry;
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the operation was cancelled")
}

/// Puts what happened beside what came of it.
fn finish(
    ended: Ended,
    operation: &CosmosOperation,
    diagnostics: DiagnosticsContextBuilder,
) -> Result<CosmosResponse, Error> {
    let now = Clock::now();
    let status = match &ended {
        Ended::Answered(response) | Ended::Failed(_, Some(response)) => Some(response.status),
        Ended::Failed(_, None) => diagnostics.attempts().last().and_then(|attempt| attempt.status),
    };
    // Any attempt counts: an earlier one may have been applied although the last was not sent.
    let was_sent = diagnostics.attempts().iter().any(|it| !it.request_sent.is_safe_to_resend());
    let diagnostics = diagnostics.complete(status, now);
    let respond = |response: TransportResponse, diagnostics| CosmosResponse {
        status: response.status,
        headers: response.headers,
        body: response.body,
        diagnostics,
    };
    match ended {
        Ended::Answered(response) => Ok(respond(response, diagnostics)),
        Ended::Failed(error, response) => {
            // A cancelled operation has no outcome of its own: whether it was sent decides.
            let was_cut_off = error.kind() == ErrorKind::Cancelled
                && was_sent
                && !operation.operation_type().is_read_only();
            let maybe = error.may_have_been_applied() || was_cut_off;
            let error = error.maybe_applied(maybe);
            Err(match response {
                Some(response) => error.answered_by(respond(response, diagnostics)),
                None => error.with_diagnostics(diagnostics),
            })
        }
    }
}
