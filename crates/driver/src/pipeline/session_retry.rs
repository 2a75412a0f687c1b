//! Retries of a read whose session has not arrived (404/1002): in its region, at another replica, or later.
//!
//! The retry matrix decides whether and where such a read is retried. Here is how long it waits first, from the
//! measured lag of regions and from the state of the region that has the session.

use std::time::Duration;

use sidereal_protocol::CosmosStatus;

use super::OperationRetryState;
use super::attempt::RaceOutcome;
use super::run::OperationRun;
use crate::diagnostics::{Decision, Manner};
use crate::retry::{AttemptOutcome, Backoff, Budget, Budgets, Verdict};
use crate::routing::{Traffic, session_home};
use crate::session::SessionHeaders;
use crate::system::Clock;

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

impl OperationRun<'_> {
    /// A region of a multi-write account gets time to catch up with a session, unless another is preferred. Any region
    /// gets a moment, if the one that has the session is slower than that.
    pub(super) fn with_session_retry(
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

    /// The pause before a read asks the write region again that answered 404/1002: the replica is behind, and so are
    /// the other regions. Once per operation. Not where the service moves partitions: there no region is certain to have the
    /// session.
    pub(super) fn replica_pause(
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
        // A pause that ends at the deadline would replace the real outcome by a timeout.
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
    pub(super) fn session_wait(
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
}
