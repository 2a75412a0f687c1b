//! The loop of an operation: look, route, build, send, decide, apply, act, until nothing is left to try.

use std::time::Duration;

use tracing::Instrument as _;
use uuid::Uuid;

use super::operation_tracing::{diagnose, span, trace, trace_failed_attempt};
use super::{
    Admission, AttemptTerms, OperationOutcome, OperationRetryState, OperationRun, begin_request,
    complete_request, conclude, min_deadline,
};
use crate::diagnostics::{Decision, DiagnosticsContextBuilder, ExecutionContext};
use crate::driver_core::DriverCore;
use crate::retry::Budgets;
use crate::system::Clock;
use crate::transport::{TransportOutcome, TransportPipeline, TransportResponse};
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind, OperationOptions};

/// The parts that an operation runs on.
pub(crate) struct OperationPipeline<'a> {
    pub(crate) core: &'a DriverCore,
    pub(crate) transport: &'a TransportPipeline,
    pub(crate) options: &'a OperationOptions<'a>,
}

/// Runs an operation to its end, in a span of its own if a subscriber is interested.
pub(crate) async fn execute_operation_pipeline(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
) -> Result<CosmosResponse, Error> {
    let method = &pipeline.options.method_options;
    let activity_id = method.activity_id.unwrap_or_else(|| pipeline.core.clock().new_id());
    match span(pipeline.core, operation, activity_id) {
        None => execute(operation, pipeline, activity_id).await,
        // On the heap: few operations are traced, and all of them would be larger by it.
        Some(span) => Box::pin(execute(operation, pipeline, activity_id)).instrument(span).await,
    }
}

async fn execute(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
    activity_id: Uuid,
) -> Result<CosmosResponse, Error> {
    let started = Clock::now();
    let method = &pipeline.options.method_options;
    let mut diagnostics = Box::new(DiagnosticsContextBuilder::new(activity_id, started));
    // Called in each branch, not before: a future that is moved is copied whole.
    let ended = match method.cancellation {
        None => run(operation, pipeline, &mut diagnostics).await,
        // Before anything is sent: an answer that came at once would still be taken.
        Some(cancellation) if cancellation.is_cancelled() => {
            OperationOutcome::Failed(cancelled_error(), None)
        }
        Some(cancellation) => tokio::select! {
            // The outcome first: an operation that has ended is not reported as cancelled.
            biased;
            ended = run(operation, pipeline, &mut diagnostics) => ended,
            () = cancellation.cancelled() => OperationOutcome::Failed(cancelled_error(), None),
        },
    };
    // An operation that was answered at once ended with its only attempt: the clock is read once for both.
    let only = match (&ended, diagnostics.attempts()) {
        (OperationOutcome::Answered(_), [only]) => only.ended(),
        (OperationOutcome::Answered(_) | OperationOutcome::Failed(..), _) => None,
    };
    let now = only.unwrap_or_else(Clock::now);
    let took = now.saturating_duration_since(started);
    diagnose(pipeline.core, operation, &ended, &mut diagnostics, took);
    let outcome = finish(ended, operation, diagnostics, took);
    trace(pipeline.core, operation, &outcome);
    #[cfg(feature = "otel")]
    pipeline.core.runtime.measure(operation, &outcome);
    outcome
}

async fn run(
    operation: &CosmosOperation,
    pipeline: &OperationPipeline<'_>,
    diagnostics: &mut DiagnosticsContextBuilder,
) -> OperationOutcome {
    let (core, call) = (pipeline.core, pipeline.options);
    let availability = core.options.availability(&call.availability);
    let timeout = availability.end_to_end_timeout();
    let end = timeout.and_then(|it| diagnostics.started().checked_add(it));
    let deadline = min_deadline(call.method_options.deadline, end);
    let options = core.options.request(&call.request);
    let write = core.options.write(&call.write);
    let has_etag = write.if_match_etag().is_some();
    let kind = operation.request_kind(availability.retry_ambiguous_writes(), has_etag);
    let mut terms = AttemptTerms {
        options: &options,
        write: &write,
        kind,
        activity_id: diagnostics.activity_id(),
        execution_context: ExecutionContext::Initial,
        started: None,
        deadline,
        is_multi_write: false,
        is_hub_only: false,
        is_hedging_suppressed: false,
        strategy: None,
        container_rid: None,
        session: None,
    };
    let excluded = options.excluded_regions().map_or(&[][..], Vec::as_slice);
    let transport = pipeline.transport;
    let availability = &availability;
    let run = OperationRun { core, transport, operation, kind, availability, excluded, deadline };
    // Nothing is sent for a caller who has given up: an answer that came at once would still be taken.
    if deadline.is_some_and(|deadline| deadline <= diagnostics.started()) {
        return OperationOutcome::Failed(deadline_error(), None);
    }
    let Some(now) = run.until_account_is_read(diagnostics.started()).await else {
        return OperationOutcome::Failed(account_deadline_error(), None);
    };
    let mut state = OperationRetryState::new(Budgets::new(availability), now);
    state.wait_end = run.wait_end(now);
    let (mut last, mut probe, mut goes_on_elsewhere) = (None, None, false);
    loop {
        // A probe goes from region to region before others are let go on: its partition may be in any of them. Others wait
        // for what it finds out, also those that have failed in one region only.
        let is_probing = goes_on_elsewhere && probe.is_some();
        if !is_probing && run.is_held_back() {
            drop(probe.take());
            // On the heap: few operations are held back, and all of them would be larger by it.
            match Box::pin(run.admit(&mut state)).await {
                Admission::Granted(granted) => probe = granted,
                Admission::TimedOut => return run.given_up(last, &state),
            }
        }
        let route = run.route(&mut state, &mut terms, diagnostics);
        // By the same snapshot of the account as the route: no request slips through in between.
        if terms.is_multi_write
            && availability.single_write_region_only()
            && !run.is_about_account()
        {
            return OperationOutcome::Failed(several_write_regions_error(), None);
        }
        if !route.pause.is_zero() {
            tokio::time::sleep(route.pause).await;
            state.now = Clock::now();
            terms.started = Some(state.now);
        }
        let mut request = begin_request(operation, &route.endpoint, &terms, &state);
        if let Err(error) = complete_request(&mut request, operation, &terms) {
            return OperationOutcome::Failed(error, None);
        }
        let race = run.race(&mut request, &route, &terms, &state, diagnostics).await;
        run.observe(&race, &route, terms.session.as_ref(), diagnostics, &mut state);
        if let TransportOutcome::Success(response) = race.result.outcome {
            return OperationOutcome::Answered(response);
        }
        let verdict = run.settle(&race, &route, terms.session.as_ref(), &mut state).await;
        diagnostics.decided(&race.endpoint.endpoint, verdict.decision);
        trace_failed_attempt(core, &race, verdict.decision);
        terms.execution_context = match verdict.decision {
            Decision::Finish { .. } => return conclude(kind, race.result.outcome, &state),
            Decision::RetryHere { .. } | Decision::AwaitWriteRegion { .. } => {
                ExecutionContext::Retry
            }
            Decision::RetryElsewhere { .. } => ExecutionContext::RegionFailover,
        };
        // A sleep of zero would still go through the timer wheel and yield.
        if let Some(after) = verdict.decision.after().filter(|after| !after.is_zero()) {
            tokio::time::sleep(after).await;
        }
        state.advance(&verdict, &race, Clock::now());
        if verdict.charged.is_none() && matches!(verdict.decision, Decision::RetryHere { .. }) {
            state.look_for_session_again();
        }
        goes_on_elsewhere = matches!(verdict.decision, Decision::RetryElsewhere { .. });
        if matches!(verdict.decision, Decision::AwaitWriteRegion { .. }) && !run.is_held_back() {
            // On the heap, as `admit`: few operations pause.
            Box::pin(run.pause(&state)).await;
            state.try_all_again(Clock::now());
        }
        last = Some(race.result.outcome);
    }
}

fn several_write_regions_error() -> Error {
    let sentence = "the account has several write regions, and the operation asks for one: pin it to a region by excluding the \
         others, or unset single_write_region_only";
    Error::new(ErrorKind::Unavailable, sentence)
}

fn deadline_error() -> Error {
    let sentence = "the deadline had passed before anything was sent: give the operation more time";
    Error::new(ErrorKind::DeadlineExceeded, sentence)
}

fn account_deadline_error() -> Error {
    let sentence = "the deadline passed while the account was being read";
    Error::new(ErrorKind::DeadlineExceeded, sentence)
}

fn cancelled_error() -> Error {
    Error::new(ErrorKind::Cancelled, "the operation was cancelled")
}

/// Adds the diagnostics to the result of an operation.
fn finish(
    ended: OperationOutcome,
    operation: &CosmosOperation,
    diagnostics: Box<DiagnosticsContextBuilder>,
    took: Duration,
) -> Result<CosmosResponse, Error> {
    let status = match &ended {
        OperationOutcome::Answered(response) | OperationOutcome::Failed(_, Some(response)) => {
            Some(response.status)
        }
        OperationOutcome::Failed(_, None) => {
            diagnostics.attempts().last().and_then(|attempt| attempt.status)
        }
    };
    // Any attempt counts: an earlier one may have been applied although the last was not sent.
    let was_sent = diagnostics.attempts().iter().any(|it| !it.request_sent.is_safe_to_resend());
    let diagnostics = diagnostics.complete_boxed(status, took);
    let respond = |response: TransportResponse, diagnostics| CosmosResponse {
        status: response.status,
        headers: response.headers,
        body: response.body,
        diagnostics,
    };
    match ended {
        OperationOutcome::Answered(response) => Ok(respond(response, diagnostics)),
        OperationOutcome::Failed(error, response) => {
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
