//! A physical partition: a range of the key space, its log, and a replica per region.
//!
//! Asynchronous replication without background tasks: the write region appends to the log and applies what
//! it wrote; the others apply an entry once it is due, lazily, when the replica is read or the partition is
//! written. So a test that advances the clock sees exactly what had arrived by then.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKeyRangeId, PartitionSessionToken, SessionToken,
    VectorSessionToken,
};

use super::partition_state::PartitionState;
use super::persistence::{Durability, LogChange, RestoredPartition};
use super::{Replica, UniqueKeys};
use crate::clock::Timestamp;
use crate::throttle::Budget;
use crate::topology::{ReplicaSet, Topology};

/// A physical partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionKeyRangeId,
    pub(crate) range: EffectivePartitionKeyRange,
    /// Every ancestor of this range, through splits and merges.
    pub(crate) parents: Vec<PartitionKeyRangeId>,
    /// The layout in which it first appeared.
    pub(crate) generation: u64,
    state: RwLock<PartitionState>,
    pub(crate) budget: Budget,
    /// When the last write that was queued is durable; always reached in an account that is kept in memory.
    durability: AtomicU64,
    /// Requests that an account with grease may still refuse since the range is new.
    settling: AtomicU32,
    /// The latest write whose session an account with grease has refused.
    refused_session: AtomicU64,
}

/// Requests that a range may refuse after the split or merge that made it.
const MAX_SETTLING_REFUSALS: u32 = 3;

/// A partition that a split or merge replaced, and what is still to be stored of its log.
#[derive(Debug)]
pub(crate) struct RetiredPartition {
    pub(crate) id: PartitionKeyRangeId,
    pub(crate) unstored: Vec<LogChange>,
}

/// One region's replica, under a read lock.
#[derive(Debug)]
pub(crate) struct ReplicaView<'a> {
    state: RwLockReadGuard<'a, PartitionState>,
    region: usize,
}

impl Deref for ReplicaView<'_> {
    type Target = Replica;

    fn deref(&self) -> &Replica {
        self.state.replica(self.region)
    }
}

/// How far a replica has applied the log: what a session token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaProgress {
    pub(crate) lsn: u64,
    /// In a multi-write account, the entries applied of each region: a version vector.
    pub(crate) by_region: Vec<u64>,
}

impl ReplicaProgress {
    pub(crate) fn of(replica: &Replica) -> Self {
        Self { lsn: replica.lsn(), by_region: replica.progress().to_vec() }
    }

    /// Whether a session that has seen what a token says may read from this replica (monotonic reads).
    pub(crate) fn covers(&self, token: &PartitionSessionToken) -> bool {
        let reaches = |own: u64, wanted: i64| i64::try_from(own).unwrap_or(i64::MAX) >= wanted;
        match token {
            PartitionSessionToken::Vector(vector) if !vector.regions().is_empty() => {
                vector.regions().iter().all(|(region, wanted)| {
                    let own =
                        usize::try_from(*region).ok().and_then(|region| self.by_region.get(region));
                    // A region that this replica has nothing of is at 0.
                    reaches(own.copied().unwrap_or_default(), *wanted)
                })
            }
            token => reaches(self.lsn, token.global_lsn()),
        }
    }
}

impl Partition {
    pub(crate) fn new(
        id: PartitionKeyRangeId,
        range: EffectivePartitionKeyRange,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        Self::of_state(id, range, Vec::new(), 1, PartitionState::new(unique_keys, replicas))
    }

    /// A partition as it was kept on disk.
    pub(crate) fn restored(
        restored: RestoredPartition,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        let RestoredPartition { id, range, parents, generation, contents } = restored;
        let state = PartitionState::restored(contents, unique_keys, replicas);
        Self::of_state(id, range, parents, generation, state)
    }

    fn of_state(
        id: PartitionKeyRangeId,
        range: EffectivePartitionKeyRange,
        parents: Vec<PartitionKeyRangeId>,
        generation: u64,
        state: PartitionState,
    ) -> Self {
        Self {
            id,
            range,
            parents,
            generation,
            state: RwLock::new(state),
            budget: Budget::default(),
            durability: AtomicU64::default(),
            // The ranges that a container begins with were not split from others.
            settling: AtomicU32::new(if generation > 1 { MAX_SETTLING_REFUSALS } else { 0 }),
            refused_session: AtomicU64::default(),
        }
    }

    /// Whether one more request may be refused since the range is new; counts it.
    pub(crate) fn claim_settling_refusal(&self) -> bool {
        // Relaxed, here and below: the counter guards no other memory.
        let less = |left: u32| left.checked_sub(1);
        self.settling.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whether a read of a session that ends with this write may be refused: once for each write, so that the read
    /// succeeds when it is repeated.
    pub(crate) fn claim_session_refusal(&self, lsn: u64) -> bool {
        // Relaxed: the maximum decides who refuses, and no other memory depends on it.
        self.refused_session.fetch_max(lsn, Ordering::Relaxed) < lsn
    }

    /// Retires the partition in favour of two halves, which continue its log sequence numbers: what a region
    /// has still to apply is queued in both.
    pub(crate) fn split_into(
        &self,
        halves: [(PartitionKeyRangeId, EffectivePartitionKeyRange); 2],
        generation: u64,
    ) -> ([Arc<Self>; 2], RetiredPartition) {
        // Retired and copied under one lock: a write is in the halves or finds the partition retired.
        let mut state = self.write();
        let unstored = state.retire();
        let halves = halves.map(|(id, range)| {
            let part = state.restricted_to(&range);
            Arc::new(Self::of_state(id, range, self.lineage(), generation, part))
        });
        (halves, RetiredPartition { id: self.id.clone(), unstored })
    }

    /// Retires the partition and its right neighbour in favour of one. Every region applies its whole queue
    /// first: the two logs number their entries independently, so pending ones have no common order.
    pub(crate) fn merge_with(
        &self,
        right: &Self,
        id: PartitionKeyRangeId,
        generation: u64,
    ) -> Result<(Self, [RetiredPartition; 2]), String> {
        let range =
            EffectivePartitionKeyRange::new(self.range.min().clone(), right.range.max().clone())
                .map_err(|error| error.to_string())?;
        // Lock order: the lower range first. Nothing else holds two partitions at once.
        let (mut first, mut second) = (self.write(), right.write());
        if !first.is_written_where(&second) {
            return Err("the two ranges are written in different regions: move one of them first"
                .to_owned());
        }
        let whole = first.merged_with(&mut second);
        let retired = [(self, first.retire()), (right, second.retire())]
            .map(|(it, unstored)| RetiredPartition { id: it.id.clone(), unstored });
        // Both may come from the same ancestors.
        let mut named = HashSet::new();
        let lineage = self.lineage().into_iter().chain(right.lineage());
        let parents = lineage.filter(|id| named.insert(id.clone())).collect();
        Ok((Self::of_state(id, range, parents, generation, whole), retired))
    }

    /// This partition and all that it came from.
    fn lineage(&self) -> Vec<PartitionKeyRangeId> {
        self.parents.iter().cloned().chain([self.id.clone()]).collect()
    }

    /// Whether this is the partition, or came from the partition, of that id.
    pub(crate) fn descends_from(&self, id: &str) -> bool {
        self.id.as_str() == id || self.parents.iter().any(|parent| parent.as_str() == id)
    }

    /// A region's replica with everything that is due by now.
    pub(crate) fn view(
        &self,
        region: usize,
        topology: &Topology,
        now: Timestamp,
    ) -> ReplicaView<'_> {
        let replication = topology.regions[region].replication;
        // The common case takes the shared lock alone.
        let state = self.read();
        if !state.has_due(region, replication, now) {
            return ReplicaView { state, region };
        }
        // `RwLock` has no upgrade: the read guard goes before the write guard is taken. A writer that gets in
        // between has applied the due entries already, and catching up again is idempotent.
        drop(state);
        self.write().catch_up(region, replication, now);
        ReplicaView { state: self.read(), region }
    }

    // A panic while the lock is held cannot leave a half-applied entry behind: entries are decided
    // before they are applied, and applying does not panic. So a poisoned lock is ignored.

    fn read(&self) -> RwLockReadGuard<'_, PartitionState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, PartitionState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// When what was written to it is durable. Asked for with a lock held, it covers what that lock shows.
    pub(crate) fn durability(&self) -> Durability {
        // Relaxed: the lock orders it with the write that set it.
        Durability::from_number(self.durability.load(Ordering::Relaxed))
    }

    /// Notes when a write is durable that was made under the write lock.
    pub(crate) fn set_durability(&self, durability: Durability) {
        self.durability.store(durability.number(), Ordering::Relaxed);
    }

    /// The number that its id is.
    pub(crate) fn number(&self) -> u32 {
        // Ids are made from numbers, by this store.
        self.id.as_str().parse().unwrap_or(u32::MAX)
    }

    /// The region that accepts writes of this partition.
    pub(crate) fn write_region(&self, topology: &Topology, now: Timestamp) -> usize {
        self.read().write_override().unwrap_or_else(|| topology.write_region(now))
    }

    /// The session token of a client that has read from a replica with this progress.
    pub(crate) fn session_token(&self, version: i64, progress: &ReplicaProgress) -> SessionToken {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let regions = (0..).zip(&progress.by_region).map(|(region, lsn)| (region, number(*lsn)));
        let vector = VectorSessionToken::new(version, number(progress.lsn), regions);
        SessionToken::of_range(self.id.clone(), PartitionSessionToken::Vector(vector))
    }
}
