//! The current picture of an account, and the one place that changes it.
//!
//! Deciding is elsewhere: outcomes become [`LocationEffect`]s by the retry matrix, and what an effect does
//! to the picture is decided by `blame.rs`, which is pure. The store swaps pictures, by compare-and-swap
//! that retries, so that no mark of a concurrent operation is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};
use sidereal_protocol::AccountProperties;

use super::blame::{applied, changes_anything};
use super::{
    AccountEndpointState, ContainerMetadata, CosmosEndpoint, LocationEffect, LocationSnapshot,
    PartitionEndpointState, PartitionFailoverConfig, PartitionHealth, PartitionId,
    RegionPreference, Traffic, build_account_endpoint_state, claim_probe, endpoints_that_left,
    expire_partition_overrides, expire_unavailable_endpoints, forget_partitions, forget_writes,
    mark_endpoint_available, mark_partition_recovered, note_slow_probe, note_writes_served_at,
    sync_partition_endpoint_state,
};
use crate::exchange::Endpoint;

/// Holds the current [`LocationSnapshot`].
#[derive(Debug)]
pub(crate) struct LocationStateStore {
    snapshot: ArcSwap<LocationSnapshot>,
    /// Whether the account has been read. Beside the picture, because every operation asks.
    is_known: AtomicBool,
    preference: RegionPreference,
    config: PartitionFailoverConfig,
}

impl LocationStateStore {
    /// The store of an account that has not been read.
    pub(crate) fn new(
        default_endpoint: Endpoint,
        preference: RegionPreference,
        config: PartitionFailoverConfig,
    ) -> Self {
        let account = Arc::new(AccountEndpointState::unknown(default_endpoint));
        let snapshot = LocationSnapshot { account, partitions: Arc::default() };
        let (snapshot, is_known) = (ArcSwap::from_pointee(snapshot), AtomicBool::new(false));
        Self { snapshot, is_known, preference, config }
    }

    /// Whether the account has been read.
    pub(crate) fn is_known(&self) -> bool {
        // Acquire: who sees the flag sees the picture that was stored before it.
        self.is_known.load(Ordering::Acquire)
    }

    /// The current snapshot. It does not change under its reader.
    pub(crate) fn snapshot(&self) -> Guard<Arc<LocationSnapshot>> {
        self.snapshot.load()
    }

    pub(crate) fn config(&self) -> &PartitionFailoverConfig {
        &self.config
    }

    /// Notes what an outcome says of the account. `asked` tells how many partitions were asked lately at the
    /// endpoint of a slot.
    pub(crate) fn apply(
        &self,
        effects: &[LocationEffect],
        now: Instant,
        asked: impl Fn(usize) -> usize,
    ) {
        if changes_anything(&self.snapshot.load(), effects) {
            self.snapshot.rcu(|current| applied(current, effects, now, &self.config, &asked));
        }
    }

    /// Applies the account's properties. Returns the endpoints that no longer belong to it.
    pub(crate) fn sync_account_properties(
        &self,
        properties: &AccountProperties,
        now: Instant,
    ) -> Vec<Endpoint> {
        let asks_for_failover = properties.enable_per_partition_failover_behavior;
        // `rcu` repeats its closure after a lost race, so the closure only computes.
        let before = self.snapshot.rcu(|current| {
            let account =
                build_account_endpoint_state(&current.account, properties, &self.preference);
            let account = Arc::new(expire_unavailable_endpoints(&account, now));
            let partitions = sync_partition_endpoint_state(
                &current.partitions,
                &account,
                asks_for_failover,
                &self.config,
            );
            let has_changed = !account.is_multi_write()
                && current.account.write_endpoints().first() != account.write_endpoints().first();
            let partitions = if has_changed { forget_writes(&partitions) } else { partitions };
            LocationSnapshot { account, partitions: Arc::new(partitions) }
        });
        let after = self.snapshot.load();
        // Release: pairs with the Acquire in `is_known`.
        self.is_known.store(after.account.is_known(), Ordering::Release);
        endpoints_that_left(&before.account, &after.account)
    }

    /// Notes that an endpoint serves again.
    pub(crate) fn endpoint_recovered(&self, endpoint: &Endpoint, now: Instant) {
        self.snapshot.rcu(|current| LocationSnapshot {
            account: Arc::new(mark_endpoint_available(&current.account, endpoint, now)),
            ..LocationSnapshot::clone(current)
        });
    }

    /// Claims the probe of a partition that has moved; says whether the caller is the one to make it.
    pub(crate) fn claim_probe(
        &self,
        partition: &PartitionId,
        traffic: Traffic,
        now: Instant,
    ) -> bool {
        let is_due = |state: &PartitionEndpointState| {
            let entry = state.entry(partition, traffic);
            entry.is_some_and(|it| it.health(now, &self.config) == PartitionHealth::ProbeCandidate)
        };
        if !is_due(&self.snapshot.load().partitions) {
            return false;
        }
        // `rcu` may run this several times, so it only computes; who claimed is told by what was replaced.
        let before = self.change_partitions(|partitions| {
            claim_probe(partitions, partition, traffic, now, &self.config)
        });
        is_due(&before.partitions)
    }

    /// Records that the probe of a partition was served too late: the next one waits longer.
    pub(crate) fn probe_was_slow(&self, partition: &PartitionId, traffic: Traffic) {
        self.change_partitions(|partitions| note_slow_probe(partitions, partition, traffic));
    }

    /// Notes where a partition accepts writes, after no region that was known did.
    pub(crate) fn writes_served_at(&self, partition: &PartitionId, endpoint: &CosmosEndpoint) {
        self.change_partitions(|partitions| note_writes_served_at(partitions, partition, endpoint));
    }

    /// Notes that a partition serves in its own region again.
    pub(crate) fn partition_recovered(
        &self,
        partition: &PartitionId,
        traffic: Traffic,
        now: Instant,
    ) {
        self.change_partitions(|partitions| {
            mark_partition_recovered(partitions, partition, traffic, now)
        });
    }

    /// Drops expired entries.
    pub(crate) fn sweep(&self, now: Instant) {
        if !self.snapshot.load().partitions.is_empty() {
            self.change_partitions(|partitions| {
                expire_partition_overrides(partitions, now, &self.config)
            });
        }
    }

    /// Drops entries of partitions that a container no longer has: split, merged, or recreated with it.
    pub(crate) fn sync_container(
        &self,
        before: Option<&ContainerMetadata>,
        after: &ContainerMetadata,
    ) {
        if self.snapshot.load().partitions.is_empty() {
            return;
        }
        let Some(before) = before else { return };
        let is_there = |id: &PartitionId| {
            before.rid() == after.rid() && after.ranges().by_id(id.range.as_str()).is_some()
        };
        self.change_partitions(|partitions| forget_partitions(partitions, before.rid(), is_there));
    }

    fn change_partitions(
        &self,
        change: impl Fn(&PartitionEndpointState) -> PartitionEndpointState,
    ) -> Arc<LocationSnapshot> {
        self.snapshot.rcu(|current| LocationSnapshot {
            account: Arc::clone(&current.account),
            partitions: Arc::new(change(&current.partitions)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::account_endpoint_state::tests::{account, endpoint, multi_write, snapshot};
    use super::super::{CosmosEndpoint, Partition};
    use super::*;
    use crate::options::OptionLayers;
    use crate::retry::UnavailableReason;

    const SECOND: Duration = Duration::from_secs(1);

    fn store(account: AccountEndpointState, asks: bool) -> LocationStateStore {
        let config = PartitionFailoverConfig::of(&OptionLayers::default());
        let store = LocationStateStore::new(endpoint("global"), Default::default(), config);
        store.snapshot.store(Arc::new(snapshot(account, asks)));
        store
    }

    fn at(store: &LocationStateStore, region: &str) -> CosmosEndpoint {
        let snapshot = store.snapshot();
        let mut all = snapshot.account.read_endpoints().iter();
        all.find(|it| it.endpoint == endpoint(region)).unwrap().clone()
    }

    fn partition(range: u32) -> Arc<Partition> {
        Arc::new(Partition::new("rid".into(), range.into(), Vec::new()))
    }

    fn failed(
        store: &LocationStateStore,
        partition: Option<&Arc<Partition>>,
        region: &str,
        traffic: Traffic,
    ) -> [LocationEffect; 2] {
        let endpoint = at(store, region);
        let reason = UnavailableReason::ServiceUnavailable;
        [
            LocationEffect::MarkPartitionUnavailable {
                partition: partition.cloned(),
                endpoint: endpoint.clone(),
                traffic,
                is_probe: false,
            },
            LocationEffect::MarkEndpointUnavailable { endpoint, reason, traffic },
        ]
    }

    fn fail(store: &LocationStateStore, range: u32, region: &str, traffic: Traffic, now: Instant) {
        let effects = failed(store, Some(&partition(range)), region, traffic);
        store.apply(&effects, now, |_| 0);
    }

    fn health(
        store: &LocationStateStore,
        range: u32,
        traffic: Traffic,
        now: Instant,
    ) -> Option<PartitionHealth> {
        let snapshot = store.snapshot();
        let entry = snapshot.partitions.entry(&partition(range).id, traffic)?;
        Some(entry.health(now, &store.config))
    }

    #[test]
    fn without_a_partition_to_blame_the_endpoint_is_marked() {
        let (store, now) = (store(account(&["West", "East"], &[]), false), Instant::now());
        store.apply(&failed(&store, None, "East", Traffic::Reads), now, |_| 0);
        assert!(store.snapshot().partitions.is_empty());
        assert!(!store.snapshot().account.is_available(&endpoint("East"), false, now));
        store.endpoint_recovered(&endpoint("East"), now);
        assert!(store.snapshot().account.is_available(&endpoint("East"), false, now));
    }

    #[test]
    fn a_failure_counts_for_its_partition_and_its_traffic_alone() {
        let (store, now) = (store(account(&["West", "East"], &[]), false), Instant::now());
        fail(&store, 0, "West", Traffic::Reads, now);
        let counting = Some(PartitionHealth::Counting);
        assert_eq!(health(&store, 0, Traffic::Reads, now), counting);
        assert_eq!(health(&store, 0, Traffic::Writes, now), None);
        assert_eq!(health(&store, 1, Traffic::Reads, now), None);
        assert!(store.snapshot().account.has_no_marks());
        (0..2).for_each(|_| fail(&store, 0, "West", Traffic::Reads, now));
        assert_eq!(health(&store, 0, Traffic::Reads, now), Some(PartitionHealth::Unhealthy));
    }

    /// Increments of counters were lost when two operations failed at once.
    #[test]
    fn no_failure_is_lost_when_many_threads_report_at_once() {
        let store = Arc::new(store(account(&["West", "East"], &[]), false));
        let now = Instant::now();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || {
                    (0..50).for_each(|range| fail(&store, range, "West", Traffic::Reads, now));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for range in 0..50 {
            let found = health(&store, range, Traffic::Reads, now);
            assert_eq!(found, Some(PartitionHealth::Unhealthy), "four of them: range {range}");
        }
    }

    #[test]
    fn what_does_not_belong_to_the_account_changes_nothing() {
        let (store, now) = (store(account(&["West"], &[]), false), Instant::now());
        let before = Arc::clone(&store.snapshot());
        let mars = CosmosEndpoint { endpoint: endpoint("Mars"), region: None, slot: 9 };
        let mark = LocationEffect::MarkEndpointUnavailable {
            endpoint: mars,
            reason: UnavailableReason::TransportError,
            traffic: Traffic::Reads,
        };
        store.apply(&[mark, LocationEffect::RefreshAccountProperties], now, |_| 0);
        assert!(Arc::ptr_eq(&before, &store.snapshot()), "no new picture for nothing");
    }

    #[test]
    fn exactly_one_of_many_threads_claims_a_probe_and_another_after_its_lease() {
        let store = Arc::new(store(multi_write(&["West", "East"]), false));
        let now = Instant::now();
        (0..6).for_each(|_| fail(&store, 0, "West", Traffic::Writes, now));
        assert!(!store.claim_probe(&partition(0).id, Traffic::Writes, now), "too early");
        let claims_at = |now: Instant| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let store = Arc::clone(&store);
                    std::thread::spawn(move || {
                        store.claim_probe(&partition(0).id, Traffic::Writes, now)
                    })
                })
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).filter(|it| *it).count()
        };
        assert_eq!(claims_at(now + 5 * SECOND), 1);
        assert_eq!(claims_at(now + 14 * SECOND), 0, "its lease is ten seconds");
        assert_eq!(claims_at(now + 15 * SECOND), 1);
        store.partition_recovered(&partition(0).id, Traffic::Writes, now);
        assert!(store.snapshot().partitions.is_empty());
    }

    #[test]
    fn the_sweep_drops_what_counts_too_old_failures_and_keeps_what_has_moved() {
        let (store, now) = (store(account(&["West", "East"], &[]), false), Instant::now());
        fail(&store, 0, "West", Traffic::Reads, now);
        (0..3).for_each(|_| fail(&store, 1, "West", Traffic::Reads, now));
        store.sweep(now + 300 * SECOND);
        assert_eq!(health(&store, 0, Traffic::Reads, now), Some(PartitionHealth::Counting));
        store.sweep(now + 301 * SECOND);
        assert_eq!(health(&store, 0, Traffic::Reads, now), None);
        assert_eq!(health(&store, 1, Traffic::Reads, now), Some(PartitionHealth::Unhealthy));
    }
}
