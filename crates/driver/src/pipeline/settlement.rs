//! Applies the outcome of an attempt: to the state of the account and the session, then to the operation.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidereal_protocol::headers::ResponseHeaders;
use sidereal_protocol::{CosmosStatus, PartitionKeyRangeId};

use uuid::Uuid;

use super::attempt::{AttemptRoute, RaceOutcome};
use super::deadline::{completes_before, min_deadline};
use super::run::OperationRun;
use super::{Evaluation, OperationRetryState, evaluate_transport_result};
use crate::OperationTarget;
use crate::diagnostics::{
    Decision, DiagnosticsContextBuilder, Manner, RequestDiagnostics, RequestEventKind,
};
use crate::exchange::HttpErrorKind;
use crate::retry::{
    AttemptOutcome, Backoff, Budget, Budgets, Circumstances, OtherEndpoints, UnavailableReason,
    Verdict,
};
use crate::routing::{
    CosmosEndpoint, LocationEffect, OutcomeSite, Partition, Stale, Traffic, is_elsewhere_left,
    of_lost_request, session_home,
};
use crate::session::{SessionHeaders, SessionNews, SessionPoint};
use crate::system::Clock;
use crate::transport::{TransportOutcome, TransportResponse, TransportResult};

/// The longest that an operation waits for a container to be read again before it retries with the cached metadata.
const CONTAINER_REFRESH_WAIT: Duration = Duration::from_secs(5);

/// The retries of a read in a region that is likely to have its session in a moment.
const SESSION_PAUSES: u32 = 2;

/// How long a read waits before it asks another replica of the region that has its session.
const REPLICA_PAUSE: Duration = Duration::from_millis(10);

/// The waits of a read for its session while the region that has it is out, and their back-off: some six seconds
/// together.
const MAX_SESSION_WAITS: u32 = 10;
// 20 ms, 40 ms and so on, up to a second: replication between regions takes from milliseconds to seconds.
const SESSION_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(20), longest: Duration::from_secs(1), factor: 2.0 };

/// The reason of such a wait.
const ON_ITS_WAY: &str = "the session has not arrived in any region that serves";

/// The reason of one more request to the region that has the session.
const REPLICA_IS_BEHIND: &str = "a replica of the region that has the session is behind";

/// The reason for not retrying at a range that is gone.
const RANGE_IS_GONE: &str =
    "the partition range was split or merged: ask the ranges that took its place";

impl OperationRun<'_> {
    /// Applies the parts of an outcome that do not depend on the next step: answers, latencies, sessions. `sent` is the state of
    /// the session that its requests carried.
    pub(super) fn observe(
        &self,
        race: &RaceOutcome<'_>,
        route: &AttemptRoute,
        sent: Option<&SessionHeaders>,
        diagnostics: &DiagnosticsContextBuilder,
        state: &mut OperationRetryState,
    ) {
        state.observe(&race.result);
        self.note_answer(&race.endpoint, &race.result);
        self.release_writes(race, state);
        if race.result.was_ambiguous && self.repeats_in_place() {
            state.pinned.get_or_insert_with(|| race.endpoint.clone().into_owned());
        }
        let told = diagnostics.last_at(&race.endpoint.endpoint);
        self.observe_outcome(&race.endpoint, &race.result, sent, told, state);
        if let TransportOutcome::Success(_) = race.result.outcome
            && let Some(class) = self.operation.latency_class()
        {
            let took = race.result.at.saturating_duration_since(race.started);
            self.core.latencies.record(class, race.endpoint.slot, took, race.result.at);
        }
        if let Some(other) = &race.other
            && let Some(result) = &other.result
        {
            state.was_ambiguous |= result.was_ambiguous;
            self.note_answer(&other.endpoint, result);
            let told = diagnostics.last_at(&other.endpoint.endpoint);
            self.observe_outcome(&other.endpoint, result, sent, told, state);
            self.blame(&other.endpoint, result, race.started, state);
        }
        match route.probe {
            Some(_) => self.judge_probe(race, route, state),
            None => {
                let told = diagnostics.last_at(&route.endpoint.endpoint);
                let has_queued =
                    |it: &RequestDiagnostics| it.time_of(RequestEventKind::Queued).is_some();
                // Its own queue held the attempt back, which says nothing of the region.
                if !told.is_some_and(has_queued) {
                    self.count_slowness(race, route, diagnostics.activity_id(), state);
                }
            }
        }
    }

    /// Records that an endpoint has answered, whatever the status.
    fn note_answer(&self, endpoint: &CosmosEndpoint, result: &TransportResult) {
        let outcome = &result.outcome;
        if matches!(outcome, TransportOutcome::Success(_) | TransportOutcome::HttpError(_)) {
            self.core.answers.note(endpoint.slot, result.at);
        }
    }

    /// Applies a response's session token and partition range.
    fn observe_outcome(
        &self,
        endpoint: &CosmosEndpoint,
        result: &TransportResult,
        sent: Option<&SessionHeaders>,
        told: Option<&RequestDiagnostics>,
        state: &mut OperationRetryState,
    ) {
        let Some(container) = &self.operation.encoded().container else { return };
        let (TransportOutcome::Success(response) | TransportOutcome::HttpError(response)) =
            &result.outcome
        else {
            return;
        };
        if !self.operation.path().kind().is_partitioned() {
            return;
        }
        if let Some(seen) = sent.and_then(|it| it.kept)
            && seen.slot != endpoint.slot
        {
            let age = result.at.saturating_duration_since(seen.at);
            if response.status.is_success() {
                self.core.lags.arrived(endpoint.slot, age, result.at);
            } else if response.status == CosmosStatus::READ_SESSION_NOT_AVAILABLE {
                self.core.lags.missed(endpoint.slot, age, result.at);
            }
        }
        state.missed_session |= response.status == CosmosStatus::READ_SESSION_NOT_AVAILABLE
            && sent.is_some_and(|it| it.kept.is_some());
        // A success, or a refusal that rests on what the replica holds.
        let seen = SessionPoint { at: result.at, slot: endpoint.slot };
        if response.status.carries_session_progress()
            && !sent.is_some_and(|sent| sent.are_repeated_by(&response.headers))
            && self.core.sessions.observe(container, &response.headers, seen)
                == SessionNews::Recreated
        {
            self.core.containers.request_refresh(container, Stale::Container);
        }
        let told = told.and_then(|it| it.partition_range.as_ref());
        match (&state.partition, told) {
            (Some(known), Some(told)) if known.range() != told => {
                self.core.containers.request_refresh(container, Stale::Ranges);
            }
            (None, Some(told)) => state.partition = learned(response, told),
            (_, _) => {}
        }
    }

    /// Whether a probe has shown that its partition serves again. One that was slower than a hedge would wait
    /// for, or was not answered, has shown the opposite.
    fn judge_probe(
        &self,
        race: &RaceOutcome<'_>,
        route: &AttemptRoute,
        state: &OperationRetryState,
    ) {
        let Some(partition) = &state.partition else { return };
        if self.was_served(race) && self.was_in_time(race) && !race.is_hedge && race.other.is_none()
        {
            self.core.locations.partition_recovered(&partition.id, self.traffic(), race.result.at);
        } else {
            self.mark_partition(partition, &route.endpoint, true, race.result.at);
            if self.was_served(race) {
                self.core.locations.probe_was_slow(&partition.id, self.traffic());
            }
        }
    }

    /// Whether an outcome came before a hedge would have joined it.
    fn was_in_time(&self, race: &RaceOutcome) -> bool {
        let took = race.result.at.saturating_duration_since(race.started);
        took <= self.hedging_threshold(race.started)
    }

    /// Counts an attempt that was slower than another region as a part of a failure of its partition there: a hedge that
    /// has beaten it, and, in an account where they could go elsewhere, a write that took longer than a hedge would wait.
    fn count_slowness(
        &self,
        race: &RaceOutcome<'_>,
        route: &AttemptRoute,
        activity_id: Uuid,
        state: &OperationRetryState,
    ) {
        let Some(partition) = &state.partition else { return };
        if !matches!(race.result.outcome, TransportOutcome::Success(_)) {
            return;
        }
        let slowness = partition.slowness(self.traffic());
        let is_slow = race.is_hedge || self.is_slow_write(race);
        if is_slow {
            let threshold = self.core.locations.config().settings.consecutive_hedge_win_threshold;
            if slowness.slow(threshold) {
                self.mark_partition(partition, &route.endpoint, false, race.result.at);
            }
        } else if !route.is_diverted
            && state.is_first_failure()
            && slowness.heeds_in_time(activity_id)
            && self.was_in_time(race)
        {
            // A read that was answered elsewhere proves nothing of the region that such reads go to. Neither does one that
            // was slow as well, and not hedged because the budget was spent.
            slowness.in_time(activity_id);
        }
    }

    /// Whether an outcome is that of a write on one item that took longer than a hedge would wait for, in an account where
    /// it could have gone elsewhere.
    fn is_slow_write(&self, race: &RaceOutcome<'_>) -> bool {
        self.kind.is_write()
            && self.operation.is_about_one_item()
            && self.core.locations.snapshot().account.is_multi_write()
            && !self.was_in_time(race)
    }

    fn mark_partition(
        &self,
        partition: &Arc<Partition>,
        endpoint: &CosmosEndpoint,
        is_probe: bool,
        now: Instant,
    ) {
        let mark = LocationEffect::MarkPartitionUnavailable {
            partition: Some(Arc::clone(partition)),
            endpoint: endpoint.clone(),
            traffic: self.traffic(),
            is_probe,
        };
        self.apply(&[mark], now);
    }

    fn apply(&self, effects: &[LocationEffect], now: Instant) {
        let asked = |slot| self.core.partitions_asked(slot, now);
        self.core.locations.apply(effects, now, asked);
    }

    /// Applies the effects of an outcome to the account's state, and nothing more.
    fn blame(
        &self,
        endpoint: &CosmosEndpoint,
        result: &TransportResult,
        started: Instant,
        state: &mut OperationRetryState,
    ) {
        let evaluation = self.evaluate(result, started, endpoint, false, state);
        self.apply(&evaluation.effects, result.at);
    }

    /// Decides the next step after a failure, and applies its effects to the account's state.
    ///
    /// Where the account is out of date the decision waits for it to be read: which region accepts writes
    /// is exactly what is not known. Unless the service moves partitions one by one: then the partition has
    /// moved, and the operation follows it.
    pub(super) async fn settle(
        &self,
        race: &RaceOutcome<'_>,
        route: &AttemptRoute,
        sent: Option<&SessionHeaders>,
        state: &mut OperationRetryState,
    ) -> Verdict {
        if state.is_first_failure() {
            state.budgets = self.with_session_retry(race, sent, state);
        }
        let is_probe = route.probe.is_some() && !race.is_hedge;
        let evaluation = self.evaluate(&race.result, race.started, &race.endpoint, is_probe, state);
        self.apply(&evaluation.effects, race.result.at);
        if self.doubts_write_region(&race.endpoint, &evaluation.effects) {
            self.core.account.request_refresh();
        }
        let verdict = self.informed_verdict(&evaluation, race, is_probe, state).await;
        if let Some(pause) = self.replica_pause(race, &verdict, state) {
            state.asked_other_replica = true;
            return pause;
        }
        if let Some(wait) = self.session_wait(race, sent, &verdict, state) {
            return wait;
        }
        let verdict = self.refused_everywhere(&verdict, race, state).unwrap_or(verdict);
        self.hold_writes(race, &evaluation.effects, verdict.decision, state);
        verdict
    }

    /// The pause before a read asks the write region again that answered 404/1002: the replica is behind, and so are
    /// the other regions. Once per operation. Not where the service moves partitions: there no region is certain to have the
    /// session.
    fn replica_pause(
        &self,
        race: &RaceOutcome<'_>,
        verdict: &Verdict,
        state: &OperationRetryState,
    ) -> Option<Verdict> {
        let is_missing = matches!(race.result.outcome.attempt_outcome(), AttemptOutcome::Refusal { status, .. }
            if status == CosmosStatus::READ_SESSION_NOT_AVAILABLE);
        let is_retried =
            verdict.charged == Some(Budget::Session) && verdict.decision.target().is_some();
        let may_ask = state.asks_only_writer
            && !race.is_hedge
            && !state.asked_other_replica
            && !self.service_moves_partitions();
        let has_time = self.deadline.is_none_or(|deadline| Clock::now() + REPLICA_PAUSE < deadline);
        (is_missing && is_retried && may_ask && has_time).then_some(Verdict {
            decision: Decision::RetryHere {
                after: REPLICA_PAUSE,
                manner: Manner::Unchanged,
                reason: REPLICA_IS_BEHIND,
            },
            charged: Some(Budget::Session),
        })
    }

    /// The wait of a read whose session has not arrived in any region that serves, while the one that has it is
    /// out: it is being replicated.
    fn session_wait(
        &self,
        race: &RaceOutcome<'_>,
        sent: Option<&SessionHeaders>,
        verdict: &Verdict,
        state: &OperationRetryState,
    ) -> Option<Verdict> {
        let is_stuck = match verdict.decision {
            Decision::Finish { .. } => true,
            Decision::RetryHere { .. } => verdict.charged == Some(Budget::Failover),
            Decision::RetryElsewhere { .. } | Decision::AwaitWriteRegion { .. } => false,
        };
        let is_missing = matches!(race.result.outcome.attempt_outcome(), AttemptOutcome::Refusal { status, .. }
            if status == CosmosStatus::READ_SESSION_NOT_AVAILABLE);
        let was_missed = is_missing || state.missed_session && !self.was_served(race);
        if self.kind.is_write()
            || !is_stuck
            || !was_missed
            || state.session_waits >= MAX_SESSION_WAITS
        {
            return None;
        }
        let now = Clock::now();
        let snapshot = self.core.locations.snapshot();
        let request = self.route_request(state, None);
        let config = self.core.locations.config();
        let home = session_home(&snapshot, &request, config, now)?;
        let has_failed = state.partition.as_ref().is_some_and(|partition| {
            let entry = snapshot.partitions.entry(&partition.id, Traffic::Reads);
            entry.is_some_and(|it| it.failed_endpoints().any(|it| *it == home.endpoint))
        });
        // Where the service moves partitions, the region that has it need not be the one that is thought to.
        let is_home_behind = is_missing && race.endpoint.endpoint == home.endpoint;
        let is_elsewhere = self.service_moves_partitions()
            && (is_home_behind || state.failed_endpoints.contains(&home.endpoint));
        // Once it has waited for that, it goes on: each region has been asked again since, the one that has the session too.
        let is_out = state.session_waits > 0
            || has_failed
            || is_elsewhere
            || !snapshot.account.is_available(&home.endpoint, false, now);
        let behind = sent.and_then(|it| it.kept).and_then(|seen| {
            let age = now.saturating_duration_since(seen.at);
            self.core.lags.behind(race.endpoint.slot, age)
        });
        let after = SESSION_BACKOFF.before(state.session_waits, self.core.clock().random());
        // Until it is likely to be there, as far as that is known.
        let after = after.max(behind.unwrap_or_default().min(SESSION_BACKOFF.longest));
        let has_time = self.deadline.is_none_or(|deadline| now + after < deadline);
        (is_out && has_time).then_some(Verdict {
            decision: Decision::RetryHere { after, manner: Manner::Unchanged, reason: ON_ITS_WAY },
            charged: None,
        })
    }

    /// Whether a failure may be that of a write region that the service has left, or is about to leave.
    fn doubts_write_region(&self, endpoint: &CosmosEndpoint, effects: &[LocationEffect]) -> bool {
        let is_write = self.kind.is_write();
        let is_doubtful = |reason: UnavailableReason| match reason {
            UnavailableReason::TransportError => true,
            UnavailableReason::RequestTimeout | UnavailableReason::ServiceUnavailable => is_write,
            // These have the account read by themselves.
            UnavailableReason::WriteForbidden | UnavailableReason::AccountNotFound => false,
            UnavailableReason::InternalServerError => false,
        };
        effects.iter().any(|effect| {
            matches!(effect, LocationEffect::MarkEndpointUnavailable { reason, .. } if is_doubtful(*reason))
        }) && {
            let snapshot = self.core.locations.snapshot();
            snapshot.account.write_endpoints().iter().any(|it| it.endpoint == endpoint.endpoint)
        }
    }

    /// The verdict, once what is out of date has been read again.
    async fn informed_verdict(
        &self,
        evaluation: &Evaluation,
        race: &RaceOutcome<'_>,
        is_probe: bool,
        state: &mut OperationRetryState,
    ) -> Verdict {
        let is_retried = !matches!(evaluation.verdict.decision, Decision::Finish { .. });
        let is_stale = self.refresh_container(evaluation, is_retried, state).await;
        if is_stale && is_retried && self.is_range_gone() {
            return Verdict::finish(RANGE_IS_GONE);
        }
        let is_out_of_date = evaluation
            .effects
            .iter()
            .any(|effect| matches!(effect, LocationEffect::RefreshAccountProperties));
        if !is_out_of_date {
            return self.moved_verdict(evaluation, race, is_probe, state);
        }
        match is_retried && !self.follows_partition(state) {
            true => {
                let refreshed = self.core.account.refreshed_since(race.started);
                completes_before(self.deadline, refreshed).await
            }
            false => {
                self.core.account.request_refresh();
                true
            }
        };
        self.evaluate(&race.result, race.started, &race.endpoint, is_probe, state).verdict
    }

    /// The verdict, once the effects are applied: a partition that has moved gives its operation somewhere to
    /// go.
    fn moved_verdict(
        &self,
        evaluation: &Evaluation,
        race: &RaceOutcome<'_>,
        is_probe: bool,
        state: &mut OperationRetryState,
    ) -> Verdict {
        match evaluation.verdict.decision {
            Decision::RetryHere { .. } if self.follows_partition(state) => {
                self.evaluate(&race.result, race.started, &race.endpoint, is_probe, state).verdict
            }
            _ => evaluation.verdict,
        }
    }

    /// Whether the operation's writes follow its partition: the service moves it by itself.
    pub(super) fn follows_partition(&self, state: &OperationRetryState) -> bool {
        let snapshot = self.core.locations.snapshot();
        self.kind.is_write()
            && !snapshot.account.is_multi_write()
            && state.partition.is_some()
            && snapshot.partitions.mechanism(&snapshot.account, self.traffic()).is_some()
    }

    /// Refreshes a container that an outcome says is stale, and waits for it if the operation goes on.
    /// Returns whether it is.
    async fn refresh_container(
        &self,
        evaluation: &Evaluation,
        is_retried: bool,
        state: &OperationRetryState,
    ) -> bool {
        let Some(container) = &self.operation.encoded().container else { return false };
        let stale = evaluation.effects.iter().find_map(|effect| match effect {
            LocationEffect::RefreshContainer => Some(Stale::Container),
            LocationEffect::RefreshPartitionRanges => Some(Stale::Ranges),
            _ => None,
        });
        let Some(stale) = stale else { return false };
        if stale == Stale::Container {
            self.core.sessions.forget(container);
        }
        if is_retried {
            let longest = Clock::now().checked_add(CONTAINER_REFRESH_WAIT);
            let gone = match self.operation.target() {
                Some(OperationTarget::PartitionRange(range)) => Some(range),
                _ => state.partition.as_ref().map(|it| it.range()),
            };
            let gone = gone.filter(|_| stale == Stale::Ranges);
            let refreshed = self.core.containers.refreshed(container, stale, gone);
            completes_before(min_deadline(self.deadline, longest), refreshed).await;
        } else {
            self.core.containers.request_refresh(container, stale);
        }
        true
    }

    /// Whether the operation names a range that is known to be gone: no retry can find it.
    fn is_range_gone(&self) -> bool {
        let Some(OperationTarget::PartitionRange(range)) = self.operation.target() else {
            return false;
        };
        let Some(container) = &self.operation.encoded().container else { return false };
        self.core.containers.is_gone(container, range)
    }

    /// A region of a multi-write account gets time to catch up with a session, unless another is preferred. Any region
    /// gets a moment, if the one that has the session is slower than that.
    fn with_session_retry(
        &self,
        race: &RaceOutcome<'_>,
        sent: Option<&SessionHeaders>,
        state: &OperationRetryState,
    ) -> Budgets {
        let options = self.core.options.retry();
        let is_multi_write = self.core.locations.snapshot().account.is_multi_write();
        if is_multi_write && !options.remote_region_preferred() {
            let session = options.session_retry();
            let count = session.max_in_region_retry_count();
            return state.budgets.with_session_retry(count, session.min_in_region_retry_time());
        }
        match self.session_pause(sent, &race.endpoint, state, race.result.at) {
            Some(pause) if !is_multi_write => {
                let time = pause.saturating_mul(SESSION_PAUSES);
                state.budgets.with_session_retry(SESSION_PAUSES as usize, time)
            }
            _ => state.budgets,
        }
    }

    fn evaluate(
        &self,
        result: &TransportResult,
        started: Instant,
        endpoint: &CosmosEndpoint,
        is_probe: bool,
        state: &mut OperationRetryState,
    ) -> Evaluation {
        let snapshot = self.core.locations.snapshot();
        let is_left = !self.is_about_account()
            && state.pinned.is_none()
            && is_elsewhere_left(&snapshot, &self.route_request(state, Some(&endpoint.endpoint)));
        state.elsewhere = OtherEndpoints { is_left, may_wait: self.may_wait(state) };
        let circumstances = Circumstances {
            deadline: self.deadline,
            now: Clock::now(),
            jitter: self.core.clock().random(),
        };
        let attempted = OutcomeSite {
            endpoint,
            partition: state.partition.as_ref(),
            traffic: self.traffic(),
            is_probe,
        };
        let outcome = &result.outcome;
        let evaluation =
            evaluate_transport_result(self.kind, &attempted, outcome, state, &circumstances);
        match is_of_one_request(outcome)
            && !self.core.answers.is_silent_since(endpoint.slot, started)
        {
            true => Evaluation {
                effects: of_lost_request(evaluation.effects, &attempted),
                ..evaluation
            },
            false => evaluation,
        }
    }
}

/// Whether a request was lost on a connection that may serve others: it timed out, or its stream was reset.
fn is_of_one_request(outcome: &TransportOutcome) -> bool {
    let TransportOutcome::TransportError { error, .. } = outcome else { return false };
    matches!(error.kind(), HttpErrorKind::Timeout | HttpErrorKind::StreamReset)
}

/// The partition that a response tells of, where nothing was known.
fn learned(response: &TransportResponse, range: &PartitionKeyRangeId) -> Option<Arc<Partition>> {
    let rid = ResponseHeaders::new(&response.headers).owner_id()?;
    Some(Arc::new(Partition::new(rid.into(), range.clone(), Vec::new())))
}
