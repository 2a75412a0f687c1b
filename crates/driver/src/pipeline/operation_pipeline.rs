//! The loop of an operation: look, send, decide.
//!
//! There is one endpoint, the account's, so one round decides.

use std::time::Instant;

use super::{
    AttemptTerms, OperationAction, RoutingDecision, build_transport_request,
    evaluate_transport_result,
};
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext};
use crate::options::{
    AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, OptionLayers, RequestOptions,
};
use crate::system::Clock;
use crate::transport::{ThrottleRetryState, TransportPipeline, TransportResponse};
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
            () = cancellation.cancelled() => Err((cancelled(), None)),
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

type Ended = Result<TransportResponse, (Error, Option<TransportResponse>)>;

async fn run(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
    diagnostics: &mut DiagnosticsContextBuilder,
) -> Ended {
    let availability = pipeline.options.availability(pipeline.availability);
    let timeout = availability.end_to_end_timeout();
    let deadline = earlier(pipeline.method.deadline, timeout.map(|it| diagnostics.started() + it));
    let terms = AttemptTerms {
        options: &pipeline.options.request(pipeline.request),
        write: &pipeline.options.write(pipeline.write),
        activity_id: diagnostics.activity_id(),
        execution_context: ExecutionContext::Initial,
        deadline,
        throttling: ThrottleRetryState::new(&availability),
    };
    let request = build_transport_request(operation, &pipeline.routing, &terms)
        .map_err(|error| (error, None))?;
    let result = pipeline.transport.execute(&request, diagnostics).await;
    match evaluate_transport_result(operation, result.outcome, result.was_ambiguous) {
        OperationAction::Complete(response) => Ok(response),
        OperationAction::Abort(error, response) => Err((error, response)),
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
        Ok(response) | Err((_, Some(response))) => Some(response.status),
        Err((_, None)) => diagnostics.attempts().last().and_then(|attempt| attempt.status),
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
        Ok(response) => Ok(respond(response, diagnostics)),
        Err((error, response)) => {
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
