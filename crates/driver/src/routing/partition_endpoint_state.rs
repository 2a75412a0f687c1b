//! Partitions that are served elsewhere than their account is: an immutable picture, replaced whole.
//!
//! Plain data and pure functions over it, as `account_endpoint_state.rs`. Reads and writes of a partition are
//! counted and moved apart from each other. Writes of a single-write account move by *automatic partition
//! failover*: the service has moved the partition, and every refusal counts. Everything else moves by the
//! *partition circuit breaker*: after more failures than a threshold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::window::{Recovery, doubled};
use super::{AccountEndpointState, CosmosEndpoint, PartitionFailoverConfig, PartitionId, Traffic};
use crate::exchange::Endpoint;
use crate::options::PartitionLevelFailover;

/// The most partitions that are kept. Beyond it a partition that fails is not moved: its operations retry
/// elsewhere by themselves, and the endpoint's share decides.
const MAX_PARTITIONS: usize = 10_000;

/// How long a partition that has moved is kept although nothing probes it: no operation asks for it any more, for its
/// container was deleted or is not used. Kept for ever, such partitions would leave no room for those that fail.
const IDLE_TIME: Duration = Duration::from_secs(60 * 60);

/// How often the time before a probe doubles, and the longest it becomes.
const MAX_DOUBLINGS: u32 = 4;
const LONGEST_WINDOW: Duration = Duration::from_secs(50);

/// Longer than any process runs, and short enough for every clock.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Overrides: the partitions that are served elsewhere than the account's preferences say.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartitionEndpointState {
    overrides: BTreeMap<PartitionId, PartitionOverrides>,
    /// When partitions that had moved returned. At most as many as can have moved.
    recoveries: BTreeMap<(PartitionId, Traffic), Recovery>,
    enabled: Option<PartitionLevelFailover>,
}

/// The entries of one partition.
#[derive(Clone, Debug, Default)]
struct PartitionOverrides {
    reads: Option<Arc<PartitionFailoverEntry>>,
    writes: Option<Arc<PartitionFailoverEntry>>,
}

impl PartitionOverrides {
    fn of(&self, traffic: Traffic) -> &Option<Arc<PartitionFailoverEntry>> {
        match traffic {
            Traffic::Reads => &self.reads,
            Traffic::Writes => &self.writes,
        }
    }

    fn of_mut(&mut self, traffic: Traffic) -> &mut Option<Arc<PartitionFailoverEntry>> {
        match traffic {
            Traffic::Reads => &mut self.reads,
            Traffic::Writes => &mut self.writes,
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Arc<PartitionFailoverEntry>> {
        self.reads.iter().chain(&self.writes)
    }

    fn is_empty(&self) -> bool {
        self.reads.is_none() && self.writes.is_none()
    }
}

/// The mechanism that moves a partition to another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// Every failure: the service says where writes go by refusing them elsewhere.
    AutomaticFailover,
    /// More failures than a threshold.
    CircuitBreaker,
}

/// The failures of one partition, and the endpoint that serves it.
#[derive(Clone, Debug)]
pub(crate) struct PartitionFailoverEntry {
    /// Where it is served: its own region while failures are only counted.
    current_endpoint: CosmosEndpoint,
    /// Where it failed first: the region that it returns to.
    first_failed_endpoint: CosmosEndpoint,
    /// Where it has failed, each with the last time.
    failed_endpoints: SmallVec<[(Endpoint, Instant); 3]>,
    failure_count: u32,
    last_failure_time: Instant,
    /// When its own region was last found failing; a probe is due some time after.
    unhealthy_since: Instant,
    /// Until when a probe is under way.
    probed_until: Option<Instant>,
    /// Probes in a row that have found its own region slow.
    slow_probes: u32,
    /// How often it had failed within minutes of a recovery.
    relapses: u32,
}

/// The health of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionHealth {
    /// Failures are counted; the partition has not moved.
    Counting,
    /// It has moved.
    Unhealthy,
    /// It has moved, and its own region is due to be probed.
    ProbeCandidate,
}

impl PartitionFailoverEntry {
    fn new(failed: &CosmosEndpoint, now: Instant, relapses: u32) -> Self {
        Self {
            current_endpoint: failed.clone(),
            first_failed_endpoint: failed.clone(),
            failed_endpoints: SmallVec::new(),
            failure_count: 0,
            last_failure_time: now,
            unhealthy_since: now,
            probed_until: None,
            slow_probes: 0,
            relapses,
        }
    }

    /// How long it stays away from its own region before that is probed. It doubles with each relapse, and with each slow
    /// probe in a row after the first: one that is refused costs its operation a round trip; slow ones would be among the
    /// slowest requests, again and again.
    fn window(&self, config: &PartitionFailoverConfig) -> Duration {
        let base = config.settings.partition_unavailability_duration;
        let doublings = self.slow_probes.saturating_sub(1).max(self.relapses);
        doubled(base, doublings, MAX_DOUBLINGS).min(LONGEST_WINDOW.max(base))
    }

    pub(crate) fn current_endpoint(&self) -> &CosmosEndpoint {
        &self.current_endpoint
    }

    pub(crate) fn first_failed_endpoint(&self) -> &CosmosEndpoint {
        &self.first_failed_endpoint
    }

    /// Where it has failed.
    pub(crate) fn failed_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.failed_endpoints.iter().map(|(endpoint, _)| endpoint)
    }

    pub(crate) fn health(&self, now: Instant, config: &PartitionFailoverConfig) -> PartitionHealth {
        if self.current_endpoint.endpoint == self.first_failed_endpoint.endpoint {
            return PartitionHealth::Counting;
        }
        let since = now.saturating_duration_since(self.unhealthy_since);
        let is_probed = self.probed_until.is_some_and(|until| until > now);
        match since >= self.window(config) && !is_probed {
            true => PartitionHealth::ProbeCandidate,
            false => PartitionHealth::Unhealthy,
        }
    }

    /// Whether its own region has been due to be probed for as long as it was not.
    pub(crate) fn is_overdue(&self, now: Instant, config: &PartitionFailoverConfig) -> bool {
        let since = now.saturating_duration_since(self.unhealthy_since);
        since >= self.window(config).saturating_mul(2)
    }

    /// Whether it has been idle for so long that it is no longer used.
    fn is_idle(&self, now: Instant, config: &PartitionFailoverConfig) -> bool {
        let heard = self.last_failure_time.max(self.unhealthy_since);
        let heard = self.probed_until.map_or(heard, |until| until.max(heard));
        // Its probe must have been due for as long as it was not.
        let longest = self.window(config).saturating_mul(2).max(IDLE_TIME);
        now.saturating_duration_since(heard) > longest
    }

    fn failed_at(&self, endpoint: &Endpoint) -> Option<Instant> {
        let mut failed = self.failed_endpoints.iter();
        failed.find(|(it, _)| it == endpoint).map(|(_, at)| *at)
    }

    fn note_failure(&mut self, endpoint: &Endpoint, now: Instant) {
        match self.failed_endpoints.iter_mut().find(|(it, _)| it == endpoint) {
            Some((_, at)) => *at = now,
            None => self.failed_endpoints.push((endpoint.clone(), now)),
        }
    }

    /// Counts a failure where the partition is served; says whether it is one too many.
    fn count(&mut self, threshold: u32, now: Instant, config: &PartitionFailoverConfig) -> bool {
        let since = now.saturating_duration_since(self.last_failure_time);
        if since > config.settings.counter_reset_window {
            self.failure_count = 0;
        }
        self.failure_count = self.failure_count.saturating_add(1);
        self.last_failure_time = now;
        self.failure_count > threshold
    }

    /// Moves to the next endpoint that the partition has not failed at; says whether there is one.
    fn move_on(
        &mut self,
        account: &AccountEndpointState,
        now: Instant,
        config: &PartitionFailoverConfig,
    ) -> bool {
        // A failure that is too old to be counted is too old to keep a region from being tried.
        let is_recent =
            |at| now.saturating_duration_since(at) <= config.settings.counter_reset_window;
        let has_failed = |it: &&CosmosEndpoint| self.failed_at(&it.endpoint).is_some_and(is_recent);
        let next = account.read_endpoints().iter().find(|it| !has_failed(it)).cloned();
        match next {
            Some(next) => {
                let was_home =
                    self.current_endpoint.endpoint == self.first_failed_endpoint.endpoint;
                self.current_endpoint = next;
                if was_home {
                    self.unhealthy_since = now;
                }
                true
            }
            None => false,
        }
    }
}

/// A partition that did not serve at an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct UnavailablePartition<'a> {
    pub(crate) partition: &'a PartitionId,
    pub(crate) endpoint: &'a CosmosEndpoint,
    pub(crate) traffic: Traffic,
    /// Whether a probe showed it.
    pub(crate) is_probe: bool,
}

impl PartitionEndpointState {
    /// Whether no partition is counted or moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.overrides.is_empty()
    }

    /// The entry of a partition.
    pub(crate) fn entry(
        &self,
        partition: &PartitionId,
        traffic: Traffic,
    ) -> Option<&Arc<PartitionFailoverEntry>> {
        self.overrides.get(partition)?.of(traffic).as_ref()
    }

    /// The mechanism that would move a partition of an account, if any is in force.
    ///
    /// With one region there is nowhere to move to. Whether the operation is about a partition is the caller's
    /// to know.
    pub(crate) fn mechanism(
        &self,
        account: &AccountEndpointState,
        traffic: Traffic,
    ) -> Option<Mechanism> {
        let enabled = self.enabled?;
        if account.read_endpoints().len() < 2 {
            return None;
        }
        match traffic {
            Traffic::Writes if !account.is_multi_write() => {
                enabled.automatic_failover.then_some(Mechanism::AutomaticFailover)
            }
            Traffic::Reads | Traffic::Writes => {
                enabled.circuit_breaker.then_some(Mechanism::CircuitBreaker)
            }
        }
    }

    /// How many partitions have failed at an endpoint since a moment.
    pub(crate) fn failed_since(&self, endpoint: &Endpoint, since: Option<Instant>) -> usize {
        let is_recent = |at| since.is_none_or(|since| at >= since);
        let has_failed = |overrides: &&PartitionOverrides| {
            overrides.entries().any(|it| it.failed_at(endpoint).is_some_and(is_recent))
        };
        self.overrides.values().filter(has_failed).count()
    }

    /// The partitions that failed at an endpoint last.
    pub(crate) fn last_failed_at(&self, endpoint: &Endpoint, most: usize) -> Vec<PartitionId> {
        let failed = self.overrides.iter().filter_map(|(id, overrides)| {
            let at = overrides.entries().filter_map(|it| it.failed_at(endpoint)).max()?;
            Some((at, id))
        });
        let mut failed: Vec<(Instant, &PartitionId)> = failed.collect();
        failed.sort_unstable_by_key(|(at, _)| std::cmp::Reverse(*at));
        failed.into_iter().take(most).map(|(_, id)| id.clone()).collect()
    }
}

/// The state without what is known of writes: the account has another write region, and where partitions were moved from
/// the one before says nothing of it.
pub(crate) fn forget_writes(state: &PartitionEndpointState) -> PartitionEndpointState {
    let mut state = state.clone();
    state.retain(|traffic, _| traffic == Traffic::Reads);
    state
}

/// The state after the account was read: what it asks for is in force, and what has moved to or from an
/// endpoint that left returns.
pub(crate) fn sync_partition_endpoint_state(
    state: &PartitionEndpointState,
    account: &AccountEndpointState,
    account_asks: bool,
    config: &PartitionFailoverConfig,
) -> PartitionEndpointState {
    let enabled = match account_asks {
        true => config.with_account_opt_in,
        false => config.without_account_opt_in,
    };
    let mut state = PartitionEndpointState { enabled: Some(enabled), ..state.clone() };
    let is_there = |it: &CosmosEndpoint| {
        account.read_endpoints().iter().any(|present| present.endpoint == it.endpoint)
    };
    let kinds = [Traffic::Reads, Traffic::Writes];
    let is_movable = kinds.map(|traffic| state.mechanism(account, traffic).is_some());
    // An override to or from an endpoint that has left could never be probed.
    state.retain(|traffic, entry| {
        is_movable[usize::from(traffic == Traffic::Writes)]
            && is_there(&entry.current_endpoint)
            && is_there(&entry.first_failed_endpoint)
    });
    state
}

impl PartitionEndpointState {
    fn retain(&mut self, keep: impl Fn(Traffic, &PartitionFailoverEntry) -> bool) {
        self.overrides.retain(|_, overrides| {
            for traffic in [Traffic::Reads, Traffic::Writes] {
                let entry = overrides.of_mut(traffic);
                if entry.as_ref().is_some_and(|entry| !keep(traffic, entry)) {
                    *entry = None;
                }
            }
            !overrides.is_empty()
        });
    }
}

/// The state after a partition did not serve at an endpoint.
pub(crate) fn mark_partition_unavailable(
    state: &PartitionEndpointState,
    account: &AccountEndpointState,
    unavailable: &UnavailablePartition<'_>,
    now: Instant,
    config: &PartitionFailoverConfig,
) -> PartitionEndpointState {
    let UnavailablePartition { partition, endpoint, traffic, is_probe } = *unavailable;
    let Some(mechanism) = state.mechanism(account, traffic) else { return state.clone() };
    let known = state.entry(partition, traffic);
    if known.is_none() && state.overrides.len() >= MAX_PARTITIONS {
        return state.clone();
    }
    let mut entry = match known {
        Some(entry) => PartitionFailoverEntry::clone(entry),
        None => {
            let recovery = state.recoveries.get(&(partition.clone(), traffic));
            PartitionFailoverEntry::new(endpoint, now, Recovery::relapses_with(recovery, now))
        }
    };
    entry.note_failure(&endpoint.endpoint, now);
    let is_home = endpoint.endpoint == entry.first_failed_endpoint.endpoint;
    let is_current = endpoint.endpoint == entry.current_endpoint.endpoint;
    if is_home {
        // Found failing again: the next probe waits as long as after the first failure.
        entry.unhealthy_since = now;
    }
    if is_probe {
        entry.probed_until = None;
    }
    let threshold = match (mechanism, traffic) {
        (Mechanism::AutomaticFailover, _) => 0,
        (Mechanism::CircuitBreaker, Traffic::Reads) => config.settings.read_failure_threshold,
        (Mechanism::CircuitBreaker, Traffic::Writes) => config.settings.write_failure_threshold,
    };
    // Elsewhere it has moved on already, or was only tried by an operation's own retry.
    let is_one_too_many = is_current && entry.count(threshold, now, config);
    let is_exhausted = is_one_too_many && !entry.move_on(account, now, config);
    let mut state = state.clone();
    match is_exhausted {
        // Every region has failed: none is better than its own.
        true => state.remove(partition, traffic),
        false => {
            let overrides = state.overrides.entry(partition.clone()).or_default();
            *overrides.of_mut(traffic) = Some(Arc::new(entry));
        }
    }
    state
}

impl PartitionEndpointState {
    fn remove(&mut self, partition: &PartitionId, traffic: Traffic) {
        if let Some(overrides) = self.overrides.get_mut(partition) {
            *overrides.of_mut(traffic) = None;
            if overrides.is_empty() {
                self.overrides.remove(partition);
            }
        }
    }
}

/// The state after a partition served in its own region again.
pub(crate) fn mark_partition_recovered(
    state: &PartitionEndpointState,
    partition: &PartitionId,
    traffic: Traffic,
    now: Instant,
) -> PartitionEndpointState {
    let mut state = state.clone();
    state.recoveries.retain(|_, recovery| recovery.is_recent(now));
    if let Some(entry) = state.entry(partition, traffic)
        && state.recoveries.len() < MAX_PARTITIONS
    {
        let recovery = Recovery::new(now, entry.relapses);
        state.recoveries.insert((partition.clone(), traffic), recovery);
    }
    state.remove(partition, traffic);
    state
}

/// The state after a probe of a partition was slow.
pub(crate) fn note_slow_probe(
    state: &PartitionEndpointState,
    partition: &PartitionId,
    traffic: Traffic,
) -> PartitionEndpointState {
    let mut state = state.clone();
    if let Some(overrides) = state.overrides.get_mut(partition)
        && let Some(entry) = overrides.of_mut(traffic)
    {
        let slow_probes = entry.slow_probes.saturating_add(1);
        *entry = Arc::new(PartitionFailoverEntry {
            slow_probes,
            ..PartitionFailoverEntry::clone(entry)
        });
    }
    state
}

/// The state after an endpoint accepted a write of a partition, wherever its writes were thought to be: the service has
/// moved them there, and what failed there before is over.
pub(crate) fn note_writes_served_at(
    state: &PartitionEndpointState,
    partition: &PartitionId,
    endpoint: &CosmosEndpoint,
) -> PartitionEndpointState {
    let mut state = state.clone();
    let Some(entry) = state.entry(partition, Traffic::Writes) else { return state };
    if entry.first_failed_endpoint.endpoint == endpoint.endpoint {
        state.remove(partition, Traffic::Writes);
        return state;
    }
    let mut entry = PartitionFailoverEntry::clone(entry);
    entry.failed_endpoints.retain(|(failed, _)| *failed != endpoint.endpoint);
    entry.current_endpoint = endpoint.clone();
    let overrides = state.overrides.entry(partition.clone()).or_default();
    *overrides.of_mut(Traffic::Writes) = Some(Arc::new(entry));
    state
}

/// The state with the probe of a partition claimed, if it is due; a lease, so that a probe whose outcome never
/// comes does not keep others from probing.
pub(crate) fn claim_probe(
    state: &PartitionEndpointState,
    partition: &PartitionId,
    traffic: Traffic,
    now: Instant,
    config: &PartitionFailoverConfig,
) -> PartitionEndpointState {
    let mut state = state.clone();
    if let Some(overrides) = state.overrides.get_mut(partition)
        && let Some(entry) = overrides.of_mut(traffic)
        && entry.health(now, config) == PartitionHealth::ProbeCandidate
    {
        // A lease that no clock can hold lasts until its outcome.
        let until = now.checked_add(config.settings.probe_lease).unwrap_or(now + FOR_EVER);
        *entry = Arc::new(PartitionFailoverEntry {
            probed_until: Some(until),
            ..PartitionFailoverEntry::clone(entry)
        });
    }
    state
}

/// The state without entries that count failures too old to matter. What has moved stays until it is probed, or until
/// it is no longer used.
pub(crate) fn expire_partition_overrides(
    state: &PartitionEndpointState,
    now: Instant,
    config: &PartitionFailoverConfig,
) -> PartitionEndpointState {
    let mut state = state.clone();
    state.retain(|_, entry| match entry.health(now, config) {
        PartitionHealth::Counting => {
            now.saturating_duration_since(entry.last_failure_time)
                <= config.settings.counter_reset_window
        }
        PartitionHealth::Unhealthy | PartitionHealth::ProbeCandidate => !entry.is_idle(now, config),
    });
    state
}

/// The state without the partitions of a container that are not there any more.
pub(crate) fn forget_partitions(
    state: &PartitionEndpointState,
    container_rid: &str,
    is_there: impl Fn(&PartitionId) -> bool,
) -> PartitionEndpointState {
    let mut state = state.clone();
    let is_kept = |id: &PartitionId| &*id.container_rid != container_rid || is_there(id);
    state.overrides.retain(|id, _| is_kept(id));
    state.recoveries.retain(|(id, _), _| is_kept(id));
    state
}

#[cfg(test)]
pub(crate) mod tests;
