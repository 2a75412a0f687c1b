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
    Decision, DiagnosticsContextBuilder, RequestDiagnostics, RequestEventKind,
};
use crate::exchange::HttpErrorKind;
use crate::retry::{Circumstances, OtherEndpoints, UnavailableReason, Verdict};
use crate::routing::{
    CosmosEndpoint, LocationEffect, OutcomeSite, Partition, Stale, is_elsewhere_left,
    of_lost_request,
};
use crate::session::{SessionHeaders, SessionNews, SessionPoint};
use crate::system::Clock;
use crate::transport::{TransportOutcome, TransportResponse, TransportResult};

/// The longest that an operation waits for a container to be read again before it retries with the cached metadata.
const CONTAINER_REFRESH_WAIT: Duration = Duration::from_secs(5);

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
        // Pinned to the first region only: a later ambiguous attempt was made there too.
        if race.result.was_ambiguous && self.repeats_in_place() {
            state.pinned.get_or_insert_with(|| race.endpoint.clone().into_owned());
        }
        let told = diagnostics.last_at(&race.endpoint.endpoint);
        self.observe_outcome(&race.endpoint, &race.result, sent, told, state);
        // Successes alone: a refusal may come from the gateway without a replica, and be faster than any answer.
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
        // Only a token that was sent as it is kept has an age; the region that it came from has it by definition.
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
        // Not if a hedge joined: its region was slow, although it answered.
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
        // A lost region never answers 403/3: the account is read on suspicion, paced by its allowance.
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
        // The account is waited for only if the next attempt depends on it.
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
        // Before the container is read again: the old session would be refused by the new container.
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
        // Other requests were answered meanwhile, so the connection and the region serve: the partition may not.
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
