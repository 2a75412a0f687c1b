//! The loop of an operation: look, route, build, send, decide, apply, act, until nothing is left to try.

use std::time::Duration;

use tracing::Instrument as _;
use uuid::Uuid;

use super::observation::{diagnose, span, trace, trace_failed_attempt};
use super::{
    Admission, AttemptTerms, Ended, OperationRetryState, Run, begin_request, complete_request,
    conclude, earlier,
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
        Some(cancellation) if cancellation.is_cancelled() => Ended::Failed(cancelled(), None),
        Some(cancellation) => tokio::select! {
            // The outcome first: an operation that has ended is not reported as cancelled.
            biased;
            ended = run(operation, pipeline, &mut diagnostics) => ended,
            () = cancellation.cancelled() => Ended::Failed(cancelled(), None),
        },
    };
    // An operation that was answered at once ended with its only attempt: the clock is read once for both.
    let only = match (&ended, diagnostics.attempts()) {
        (Ended::Answered(_), [only]) => only.ended(),
        (Ended::Answered(_) | Ended::Failed(..), _) => None,
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
) -> Ended {
    let (core, call) = (pipeline.core, pipeline.options);
    let availability = core.options.availability(&call.availability);
    let timeout = availability.end_to_end_timeout();
    let end = timeout.and_then(|it| diagnostics.started().checked_add(it));
    let deadline = earlier(call.method_options.deadline, end);
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
    let run = Run { core, transport, operation, kind, availability, excluded, deadline };
    // Nothing is sent for a caller who has given up: an answer that came at once would still be taken.
    if deadline.is_some_and(|deadline| deadline <= diagnostics.started()) {
        return Ended::Failed(late(), None);
    }
    let Some(now) = run.until_account_is_read(diagnostics.started()).await else {
        return Ended::Failed(late_for_account(), None);
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
        let routed = run.route(&mut state, &mut terms, diagnostics);
        // By the same snapshot of the account as the route: no request slips through in between.
        if terms.is_multi_write
            && availability.single_write_region_only()
            && !run.is_about_account()
        {
            return Ended::Failed(several_write_regions(), None);
        }
        if !routed.pause.is_zero() {
            tokio::time::sleep(routed.pause).await;
            state.now = Clock::now();
            terms.started = Some(state.now);
        }
        let mut request = begin_request(operation, &routed.endpoint, &terms, &state);
        if let Err(error) = complete_request(&mut request, operation, &terms) {
            return Ended::Failed(error, None);
        }
        let raced = run.race(&mut request, &routed, &terms, &state, diagnostics).await;
        run.observe(&raced, &routed, terms.session.as_ref(), diagnostics, &mut state);
        if let TransportOutcome::Success(response) = raced.result.outcome {
            return Ended::Answered(response);
        }
        let verdict = run.settle(&raced, &routed, terms.session.as_ref(), &mut state).await;
        diagnostics.decided(&raced.endpoint.endpoint, verdict.decision);
        trace_failed_attempt(core, &raced, verdict.decision);
        terms.execution_context = match verdict.decision {
            Decision::Finish { .. } => return conclude(kind, raced.result.outcome, &state),
            Decision::RetryHere { .. } | Decision::AwaitWriteRegion { .. } => {
                ExecutionContext::Retry
            }
            Decision::RetryElsewhere { .. } => ExecutionContext::RegionFailover,
        };
        // A sleep of zero would still go through the timer wheel and yield.
        if let Some(after) = verdict.decision.after().filter(|after| !after.is_zero()) {
            tokio::time::sleep(after).await;
        }
        state.advance(&verdict, &raced, Clock::now());
        if verdict.charged.is_none() && matches!(verdict.decision, Decision::RetryHere { .. }) {
            state.look_for_session_again();
        }
        goes_on_elsewhere = matches!(verdict.decision, Decision::RetryElsewhere { .. });
        if matches!(verdict.decision, Decision::AwaitWriteRegion { .. }) && !run.is_held_back() {
            Box::pin(run.pause(&state)).await;
            state.try_all_again(Clock::now());
        }
        last = Some(raced.result.outcome);
    }
}

fn several_write_regions() -> Error {
    let sentence = "the account has several write regions, and the operation asks for one: pin it to a region by excluding the \
         others, or unset single_write_region_only";
    Error::new(ErrorKind::Unavailable, sentence)
}

fn late() -> Error {
    let sentence = "the deadline had passed before anything was sent: give the operation more time";
    Error::new(ErrorKind::DeadlineExceeded, sentence)
}

fn late_for_account() -> Error {
    let sentence = "the deadline passed while the account was being read";
    Error::new(ErrorKind::DeadlineExceeded, sentence)
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the operation was cancelled")
}

/// Puts what happened beside what came of it.
fn finish(
    ended: Ended,
    operation: &CosmosOperation,
    diagnostics: Box<DiagnosticsContextBuilder>,
    took: Duration,
) -> Result<CosmosResponse, Error> {
    let status = match &ended {
        Ended::Answered(response) | Ended::Failed(_, Some(response)) => Some(response.status),
        Ended::Failed(_, None) => diagnostics.attempts().last().and_then(|attempt| attempt.status),
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
