//! A write that has nowhere else to go: when it waits for its write region, for how long, and what ends the wait.

use std::time::{Duration, Instant};

use sidereal_protocol::CosmosStatus;

use super::attempt::RaceOutcome;
use super::deadline::min_deadline;
use super::run::OperationRun;
use super::{OperationOutcome, OperationRetryState, conclude};
use crate::diagnostics::Decision;
use crate::retry::{Budget, Effect, Question, RequestKind, UnavailableReason, Verdict, row_of};
use crate::routing::{
    CosmosEndpoint, LocationEffect, OutageCause, OutageScope, Traffic, WriteProbe,
    is_reachable_elsewhere,
};
use crate::system::Clock;
use crate::transport::TransportOutcome;
use crate::{Error, ErrorKind};

/// How long after an answer a region counts as serving, whatever fails then.
const RECENT: Duration = Duration::from_millis(100);

/// The longest pause between two attempts of a write for which no outage is known.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The end of a write's wait at the gate.
#[derive(Debug)]
pub(super) enum Admission {
    /// The write may be sent. With a probe, the others wait for its outcome.
    Granted(Option<WriteProbe>),
    /// The time limit of the wait has passed.
    TimedOut,
}

impl OperationRun<'_> {
    /// The end of a write's wait for its write region: the operation's deadline, or else `max_write_region_wait`.
    pub(super) fn wait_end(&self, started: Instant) -> Option<Instant> {
        self.deadline.or_else(|| started.checked_add(self.availability.max_write_region_wait()))
    }

    /// The endpoint of the only region that accepts writes, if the operation is a write and another region could.
    pub(super) fn only_writer(&self) -> Option<CosmosEndpoint> {
        let snapshot = self.core.locations.snapshot();
        let account = &snapshot.account;
        let may_change = account.is_known() && account.read_endpoints().len() > 1;
        let is_only = self.kind.is_write() && !account.is_multi_write() && !self.is_about_account();
        (may_change && is_only).then(|| account.write_endpoints().first().cloned()).flatten()
    }

    /// Whether a write with no retries left waits for its write region.
    pub(super) fn may_wait(&self, state: &OperationRetryState) -> bool {
        let has_time = state.wait_end.is_none_or(|end| Clock::now() < end);
        has_time
            && self.availability.max_failover_retry_count() > 0
            && !self.availability.max_write_region_wait().is_zero()
            && self.only_writer().is_some()
    }

    /// Whether writes are held back, perhaps this one too.
    pub(super) fn is_held_back(&self) -> bool {
        self.kind.is_write() && self.core.write_gate.is_closed()
    }

    /// Waits while the operation's write region, or its partition there, is out.
    pub(super) async fn admit(&self, state: &mut OperationRetryState) -> Admission {
        loop {
            if let Some(partition) = self.resolve_partition(state.now) {
                state.partition = Some(partition);
            }
            let outage = self.only_writer().and_then(|writer| {
                let partition = state.partition.as_ref().map(|it| &it.id);
                self.core.write_gate.outage(&writer.endpoint, partition)
            });
            let Some(outage) = outage else { return Admission::Granted(None) };
            // A write that must not be repeated is never the probe: if it is lost, nothing tells whether it was applied.
            let wait = outage.over_or_probe(self.kind == RequestKind::IdempotentWrite);
            let ended = match state.wait_end {
                Some(end) => tokio::time::timeout_at(end.into(), wait).await.ok(),
                None => Some(wait.await),
            };
            let Some(probe) = ended else { return Admission::TimedOut };
            state.try_all_again(Clock::now());
            if probe.is_some() {
                return Admission::Granted(probe);
            }
            // Over: but the new write region, or the partition, may be out as well.
        }
    }

    /// The wait of a write whose partition is refused by every reachable region: its own region has failed, and the
    /// service has not moved the partition yet. Without it, every write of the partition would ask every region
    /// again with each retry.
    pub(super) fn refused_everywhere(
        &self,
        verdict: &Verdict,
        race: &RaceOutcome<'_>,
        state: &OperationRetryState,
    ) -> Option<Verdict> {
        let TransportOutcome::HttpError(response) = &race.result.outcome else { return None };
        let is_next = |decision: Decision| match decision {
            Decision::RetryHere { .. } => verdict.charged == Some(Budget::Failover),
            Decision::RetryElsewhere { .. } => true,
            Decision::Finish { .. } | Decision::AwaitWriteRegion { .. } => false,
        };
        let is_refused = response.status == CosmosStatus::WRITE_FORBIDDEN
            && is_next(verdict.decision)
            && self.follows_partition(state)
            && self.may_wait(state)
            && !is_reachable_elsewhere(
                &self.core.locations.snapshot(),
                &self.route_request(state, Some(&race.endpoint.endpoint)),
            );
        let decision = Decision::AwaitWriteRegion { reason: REFUSED_EVERYWHERE };
        is_refused.then_some(Verdict { decision, charged: None })
    }

    /// Closes the write gate after an attempt that showed an outage of the write region or of the partition there.
    pub(super) fn hold_writes(
        &self,
        race: &RaceOutcome<'_>,
        effects: &[LocationEffect],
        decision: Decision,
        state: &OperationRetryState,
    ) {
        let Some(writer) = self.only_writer() else { return };
        let has_effect = |is: fn(&UnavailableReason) -> bool| {
            effects.iter().any(|effect| {
                matches!(effect, LocationEffect::MarkEndpointUnavailable { reason, .. } if is(reason))
            })
        };
        let follows_partition = self.follows_partition(state);
        let is_lost = has_effect(|it| *it == UnavailableReason::TransportError);
        // An attempt that fails at once, moments after another one was answered, is the failure of a connection.
        let is_silent = race
            .started
            .checked_sub(RECENT)
            .is_none_or(|moment| self.core.answers.is_silent_since(race.endpoint.slot, moment));
        let region = || OutageScope::region(writer.endpoint.clone());
        if is_lost && is_silent && !follows_partition && race.endpoint.endpoint == writer.endpoint {
            return self.core.write_gate.close(region(), OutageCause::Lost);
        }
        if !matches!(decision, Decision::AwaitWriteRegion { .. }) {
            return;
        }
        let is_about_region = is_lost
            || has_effect(|it| {
                matches!(it, UnavailableReason::WriteForbidden | UnavailableReason::AccountNotFound)
            });
        match &state.partition {
            _ if is_about_region && !follows_partition => {
                let cause = if is_lost { OutageCause::Lost } else { OutageCause::Refused };
                self.core.write_gate.close(region(), cause);
            }
            Some(partition) => {
                let partition = Some(partition.id.clone());
                let scope = OutageScope { partition, ..region() };
                let snapshot = self.core.locations.snapshot();
                let cause = match snapshot.account.is_reachable(&writer.endpoint) {
                    true => OutageCause::Refused,
                    false => OutageCause::Lost,
                };
                self.core.write_gate.close(scope, cause);
            }
            // Nothing is known that other writes could be held back by: this one waits by itself.
            None => {}
        }
    }

    /// Opens the write gate after a write that was served.
    pub(super) fn release_writes(&self, race: &RaceOutcome<'_>, state: &OperationRetryState) {
        if !self.core.write_gate.is_closed() || !self.kind.is_write() || !self.was_served(race) {
            return;
        }
        let Some(writer) = self.only_writer() else { return };
        let region = OutageScope::region(writer.endpoint.clone());
        let mut was_held = false;
        if let Some(partition) = &state.partition {
            let scope = OutageScope { partition: Some(partition.id.clone()), ..region.clone() };
            was_held = self.core.write_gate.open(&scope);
            if was_held {
                self.core.locations.writes_served_at(&partition.id, &race.endpoint);
            }
        }
        let is_writer = race.endpoint.endpoint == writer.endpoint;
        if is_writer && (self.core.write_gate.open(&region) || was_held) {
            self.core.locations.endpoint_recovered(&writer.endpoint, Clock::now());
        }
    }

    /// Whether the region answered and is not failing, even if it refused the request.
    pub(super) fn was_served(&self, race: &RaceOutcome<'_>) -> bool {
        let outcome = &race.result.outcome;
        let row = row_of(&Question { kind: self.kind, outcome: outcome.attempt_outcome() });
        let is_failing = row
            .effects
            .iter()
            .any(|it| matches!(it, Effect::MarkPartition | Effect::MarkEndpoint(_)));
        let is_answer =
            matches!(outcome, TransportOutcome::Success(_) | TransportOutcome::HttpError(_));
        is_answer && !is_failing
    }

    /// The result of a write whose wait timed out: its last outcome, if it had one.
    pub(super) fn given_up(
        &self,
        last: Option<TransportOutcome>,
        state: &OperationRetryState,
    ) -> OperationOutcome {
        if let Some(outcome) = last {
            return conclude(self.kind, outcome, state);
        }
        let kind = match self.deadline {
            Some(_) => ErrorKind::DeadlineExceeded,
            None => ErrorKind::Unavailable,
        };
        OperationOutcome::Failed(Error::new(kind, NEVER_SENT), None)
    }

    /// Sleeps before the next attempt of a write for which no outage is known, with jitter.
    pub(super) async fn pause(&self, state: &OperationRetryState) {
        let pause = LONGEST_PAUSE.mul_f64(0.5 + 0.5 * self.core.clock().random());
        let end = min_deadline(Clock::now().checked_add(pause), state.wait_end);
        if let Some(end) = end {
            tokio::time::sleep_until(end.into()).await;
        }
    }

    /// Whether the service moves the writes of partitions by itself.
    pub(super) fn service_moves_partitions(&self) -> bool {
        let snapshot = self.core.locations.snapshot();
        snapshot.partitions.mechanism(&snapshot.account, Traffic::Writes).is_some()
    }
}

/// The message of a write that was never sent.
const NEVER_SENT: &str = "the write region does not serve, and the account has named no other in the time that the write may \
     wait (`end_to_end_timeout`, `max_write_region_wait`): it was not sent";

/// The reason of a wait for the service to move a partition.
const REFUSED_EVERYWHERE: &str = "no region that can be reached accepts writes of the partition";
