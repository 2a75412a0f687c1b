//! The loop of an operation: look, route, build, send, decide, apply, act, until nothing is left to try.

use std::time::Instant;

use http::HeaderValue;
use sidereal_protocol::{RegionName, ResourceType};

use super::{
    AttemptTerms, Ended, Evaluation, OperationRetryState, build_transport_request, conclude,
    evaluate_transport_result,
};
use crate::diagnostics::{Decision, DiagnosticsContextBuilder, ExecutionContext};
use crate::options::{
    AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, OptionLayers, RequestOptions,
};
use crate::retry::{Budgets, Circumstances, Elsewhere, Verdict};
use crate::routing::{
    AccountEndpointState, AccountMetadataCache, CosmosEndpoint, LocationEffect, LocationSnapshot,
    LocationStateStore, Wanted, is_elsewhere_left, resolve_endpoint,
};
use crate::session::{ReadTerms, SessionContainer, sends_session_token};
use crate::system::Clock;
use crate::transport::{
    Endpoint, TransportOutcome, TransportPipeline, TransportResponse, TransportResult,
};
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind};

/// What an operation runs with.
pub(crate) struct OperationPipeline<'a> {
    pub(crate) transport: &'a TransportPipeline,
    pub(crate) locations: &'a LocationStateStore,
    pub(crate) account: &'a AccountMetadataCache,
    pub(crate) sessions: &'a SessionContainer,
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
    // Called in each branch, not before: a future that is moved is copied whole.
    let ended = match pipeline.method.cancellation {
        None => run(operation, pipeline, &mut diagnostics).await,
        Some(cancellation) => tokio::select! {
            // The outcome first: an operation that has ended is not reported as cancelled.
            biased;
            ended = run(operation, pipeline, &mut diagnostics) => ended,
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
    let options = pipeline.options.request(pipeline.request);
    let mut terms = AttemptTerms {
        options: &options,
        write: &pipeline.options.write(pipeline.write),
        activity_id: diagnostics.activity_id(),
        execution_context: ExecutionContext::Initial,
        deadline,
        is_multi_write: false,
        strategy: None,
        session: None,
        budgets: Budgets::new(&availability),
    };
    let excluded = options.excluded_regions().map_or(&[][..], Vec::as_slice);
    let run = Run { operation, pipeline, excluded, deadline };
    if !run.until_account_is_read().await {
        return Ended::Failed(late_for_account(), None);
    }
    let mut state = OperationRetryState::new(terms.budgets, diagnostics.started());
    loop {
        let routing = run.route(&state, &mut terms);
        let request = match build_transport_request(operation, routing, &terms) {
            Ok(request) => request,
            Err(error) => return Ended::Failed(error, None),
        };
        let result = pipeline.transport.execute(&request, diagnostics).await;
        run.observe_session(&result.outcome);
        if let TransportOutcome::Success(response) = result.outcome {
            return Ended::Answered(response);
        }
        state.observe(&result);
        let verdict = run.settle(&result, &request.endpoint, &mut state).await;
        diagnostics.decided(verdict.decision);
        terms.execution_context = match verdict.decision {
            Decision::Finish { .. } => return conclude(operation, result.outcome, &state),
            Decision::RetryHere { .. } => ExecutionContext::Retry,
            Decision::RetryElsewhere { .. } => ExecutionContext::RegionFailover,
        };
        // A sleep of zero would still go through the timer wheel and yield.
        if let Some(after) = verdict.decision.after().filter(|after| !after.is_zero()) {
            tokio::time::sleep(after).await;
        }
        state.advance(&verdict, &request.endpoint, Clock::now());
        terms.budgets = state.budgets;
    }
}

/// What stays the same from one attempt of an operation to the next.
struct Run<'a> {
    operation: &'a CosmosOperation,
    pipeline: &'a OperationPipeline<'a>,
    excluded: &'a [RegionName],
    deadline: Option<Instant>,
}

impl Run<'_> {
    /// Waits until the account has been read once, if that is needed; says whether the deadline allowed it.
    async fn until_account_is_read(&self) -> bool {
        if self.pipeline.locations.snapshot().account.is_known() || self.is_about_account() {
            return true;
        }
        within(self.deadline, self.pipeline.account.until_read()).await
    }

    /// A region of a multi-write account gets time to catch up with a session, unless another is preferred.
    fn with_session_retry(&self, budgets: Budgets) -> Budgets {
        let options = self.pipeline.options.retry();
        let is_multi_write = self.pipeline.locations.snapshot().account.is_multi_write();
        if !is_multi_write || options.remote_region_preferred() {
            return budgets;
        }
        let session = options.session_retry();
        let count = session.max_in_region_retry_count();
        budgets.with_session_retry(count, session.min_in_region_retry_time())
    }

    /// The account itself is read at its global endpoint: a region would tell its own view of it.
    fn is_about_account(&self) -> bool {
        self.operation.path().kind() == ResourceType::DatabaseAccount
    }

    /// Where the next attempt goes.
    fn route(&self, state: &OperationRetryState, terms: &mut AttemptTerms<'_>) -> CosmosEndpoint {
        let snapshot = self.pipeline.locations.snapshot();
        let account = &snapshot.account;
        terms.is_multi_write = account.is_multi_write();
        let read = self.read_terms(account, terms);
        terms.strategy = read.effective_strategy();
        terms.session = self.session_token(read);
        if self.is_about_account() {
            return account.default_endpoint().clone();
        }
        resolve_endpoint(account, &self.wanted(state, None), state.now).clone()
    }

    /// What decides how current a read must be.
    fn read_terms(&self, account: &AccountEndpointState, terms: &AttemptTerms<'_>) -> ReadTerms {
        let options = self.pipeline.options.account();
        ReadTerms {
            strategy: terms.options.read_consistency_strategy(),
            level: terms.options.consistency_level(),
            account: account.default_consistency(),
            is_multi_write: account.is_multi_write(),
            upgrades_to_local_quorum: options.enable_upgrade_consistency_to_local_quorum(),
        }
    }

    /// The token of the driver's session, where the request is to carry it.
    fn session_token(&self, read: ReadTerms) -> Option<HeaderValue> {
        let container = self.operation.encoded().container.as_ref()?;
        let (operation, resource) = (self.operation.operation_type(), self.operation.path().kind());
        sends_session_token(operation, resource, read)
            .then(|| self.pipeline.sessions.token_for(container, self.operation.target()))
            .flatten()
    }

    /// Takes in what a response says of the session: a success, or a refusal that rests on what the replica
    /// holds.
    fn observe_session(&self, outcome: &TransportOutcome) {
        let Some(container) = &self.operation.encoded().container else { return };
        let (TransportOutcome::Success(response) | TransportOutcome::HttpError(response)) = outcome
        else {
            return;
        };
        let is_partitioned = self.operation.path().kind().is_partitioned();
        if is_partitioned && response.status.carries_session_progress() {
            self.pipeline.sessions.observe(container, &response.headers);
        }
    }

    fn wanted<'a>(
        &'a self,
        state: &'a OperationRetryState,
        current: Option<&'a Endpoint>,
    ) -> Wanted<'a> {
        Wanted {
            is_write: self.operation.request_kind().is_write(),
            excluded_regions: self.excluded,
            failed_endpoints: &state.failed_endpoints,
            current,
            target: state.target,
        }
    }

    /// Decides what comes after a failure, and tells the account's store what it says of the account.
    ///
    /// Where the account is out of date the decision waits for it to be read: which region accepts writes
    /// is exactly what is not known.
    async fn settle(
        &self,
        result: &TransportResult,
        endpoint: &Endpoint,
        state: &mut OperationRetryState,
    ) -> Verdict {
        let pipeline = self.pipeline;
        if state.is_first_failure() {
            state.budgets = self.with_session_retry(state.budgets);
        }
        let evaluation = self.evaluate(result, endpoint, state);
        let is_out_of_date = pipeline.locations.apply(&evaluation.effects, result.at);
        if evaluation.effects.contains(&LocationEffect::RefreshContainer)
            && let Some(container) = &self.operation.encoded().container
        {
            pipeline.sessions.forget(container);
        }
        let is_retried = !matches!(evaluation.verdict.decision, Decision::Finish { .. });
        match (is_out_of_date, is_retried) {
            (false, _) => evaluation.verdict,
            (true, false) => {
                pipeline.account.request_refresh();
                evaluation.verdict
            }
            (true, true) => {
                within(self.deadline, pipeline.account.refreshed()).await;
                self.evaluate(result, endpoint, state).verdict
            }
        }
    }

    fn evaluate(
        &self,
        result: &TransportResult,
        endpoint: &Endpoint,
        state: &mut OperationRetryState,
    ) -> Evaluation {
        let snapshot = self.pipeline.locations.snapshot();
        state.elsewhere = self.elsewhere(&snapshot, endpoint, state);
        let circumstances = Circumstances {
            deadline: self.deadline,
            now: Clock::now(),
            jitter: self.pipeline.clock.random(),
        };
        let outcome = &result.outcome;
        evaluate_transport_result(self.operation, endpoint, outcome, state, &circumstances)
    }

    fn elsewhere(
        &self,
        snapshot: &LocationSnapshot,
        endpoint: &Endpoint,
        state: &OperationRetryState,
    ) -> Elsewhere {
        let wanted = self.wanted(state, Some(endpoint));
        let is_left = !self.is_about_account() && is_elsewhere_left(&snapshot.account, &wanted);
        Elsewhere { is_left }
    }
}

/// Waits for something until the deadline; says whether it came.
async fn within(deadline: Option<Instant>, something: impl Future<Output = ()>) -> bool {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), something).await.is_ok(),
        None => {
            something.await;
            true
        }
    }
}

fn late_for_account() -> Error {
    let sentence = "the deadline passed while the account was being read";
    Error::new(ErrorKind::DeadlineExceeded, sentence)
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
