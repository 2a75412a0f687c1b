//! A physical partition: a range of the key space, its log, and a replica per region.
//!
//! Asynchronous replication without background tasks: the write region appends to the log and applies what
//! it wrote; the others apply an entry once it is due, lazily, when the replica is read or the partition is
//! written. So a test that advances the clock sees exactly what had arrived by then.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKeyRangeId, PartitionSessionToken, SessionToken,
    VectorSessionToken,
};

use super::conflict::Rank;
use super::replication_log::{LoggedEntry, ReplicationLog, SettledEntry};
use super::{Change, Entry, ItemName, Replica, UniqueKeys};
use crate::clock::Timestamp;
use crate::throttle::Budget;
use crate::topology::{ReplicaSet, Replication, Topology};

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
}

/// What changes in a partition.
#[derive(Debug)]
pub(crate) struct PartitionState {
    /// One per region, in the account's order.
    replicas: Vec<Replica>,
    log: ReplicationLog,
    /// Of a multi-write account: deleted items whose tombstones are dropped once every region has applied the
    /// log up to a position. By then no version that the delete must beat is on its way.
    tombstones: VecDeque<Tombstone>,
    /// Every region accepts writes; conflicts are resolved where entries meet (last writer wins).
    multi_write: bool,
    /// The region that accepts the writes of this partition in place of the account's write region:
    /// partition-level failover.
    write_override: Option<usize>,
    /// A split or merge replaced this partition; no write may be applied to it any more.
    retired: bool,
}

/// A deleted item of a multi-write account.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub(crate) name: ItemName,
    /// The rank of this delete. The item may have been created and deleted again since.
    pub(crate) rank: Rank,
    /// The position up to which every region has to apply the log before it can be dropped.
    droppable_at: u64,
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
        &self.state.replicas[self.region]
    }
}

/// How many log entries the other regions may be behind when a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StalenessBound {
    /// As many as replication leaves them behind: session consistency and weaker.
    Unbounded,
    /// None: synchronous replication to every online region, for strong consistency.
    Zero,
    /// So many: bounded staleness.
    Entries(u64),
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

/// An acknowledged log entry that a forced failover truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TruncatedEntry {
    pub(crate) lsn: u64,
    pub(crate) ids: Vec<String>,
}

impl Partition {
    pub(crate) fn new(
        id: PartitionKeyRangeId,
        range: EffectivePartitionKeyRange,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        let ReplicaSet { regions, multi_write } = replicas;
        let replicas = (0..regions).map(|_| Replica::new(unique_keys.clone())).collect();
        let state = PartitionState {
            replicas,
            log: ReplicationLog::new(regions),
            tombstones: VecDeque::new(),
            multi_write,
            write_override: None,
            retired: false,
        };
        Self::of_state(id, range, Vec::new(), 1, state)
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
        }
    }

    /// Retires the partition in favour of two halves, which continue its log sequence numbers: what a region
    /// has still to apply is queued in both.
    pub(crate) fn split_into(
        &self,
        halves: [(PartitionKeyRangeId, EffectivePartitionKeyRange); 2],
        generation: u64,
    ) -> [Arc<Self>; 2] {
        // Retired and copied under one lock: a write is in the halves or finds the partition retired.
        let mut state = self.write();
        state.retired = true;
        halves.map(|(id, range)| {
            let part = state.restricted_to(&range);
            Arc::new(Self::of_state(id, range, self.lineage(), generation, part))
        })
    }

    /// Retires the partition and its right neighbour in favour of one. Every region applies its whole queue
    /// first: the two logs number their entries independently, so pending ones have no common order.
    pub(crate) fn merge_with(
        &self,
        right: &Self,
        id: PartitionKeyRangeId,
        generation: u64,
    ) -> Result<Self, String> {
        let range =
            EffectivePartitionKeyRange::new(self.range.min().clone(), right.range.max().clone())
                .map_err(|error| error.to_string())?;
        // Lock order: the lower range first. Nothing else holds two partitions at once.
        let (mut first, mut second) = (self.write(), right.write());
        if first.write_override != second.write_override {
            return Err("the two ranges are written in different regions: move one of them first"
                .to_owned());
        }
        let whole = first.merged_with(&mut second);
        (first.retired, second.retired) = (true, true);
        let parents = self.lineage().into_iter().chain(right.lineage()).collect();
        Ok(Self::of_state(id, range, parents, generation, whole))
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
        // `RwLock` has no upgrade: the read guard goes before the write guard is taken. Whoever gets in
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

    /// The region that accepts writes of this partition.
    pub(crate) fn write_region(&self, topology: &Topology, now: Timestamp) -> usize {
        self.read().write_override.unwrap_or_else(|| topology.write_region(now))
    }

    /// The session token of a client that has read from a replica with this progress.
    pub(crate) fn session_token(&self, version: i64, progress: &ReplicaProgress) -> SessionToken {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let regions = (0..).zip(&progress.by_region).map(|(region, lsn)| (region, number(*lsn)));
        let vector = VectorSessionToken::new(version, number(progress.lsn), regions);
        SessionToken::of_range(self.id.clone(), PartitionSessionToken::Vector(vector))
    }
}

impl PartitionState {
    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let inside = |tombstone: &&Tombstone| range.contains(&tombstone.name.effective_key);
        Self {
            replicas: self.replicas.iter().map(|replica| replica.restricted_to(range)).collect(),
            log: self.log.restricted_to(range),
            tombstones: self.tombstones.iter().filter(inside).cloned().collect(),
            multi_write: self.multi_write,
            write_override: self.write_override,
            retired: false,
        }
    }

    fn merged_with(&mut self, other: &mut Self) -> Self {
        for region in 0..self.replicas.len() {
            self.apply_all(region);
            other.apply_all(region);
        }
        let pairs = self.replicas.iter().zip(&other.replicas);
        Self {
            replicas: pairs.map(|(left, right)| left.merged_with(right)).collect(),
            // Nothing is on its way any more, so no tombstone has anything left to beat.
            log: ReplicationLog::new(self.replicas.len()),
            tombstones: VecDeque::new(),
            multi_write: self.multi_write,
            write_override: self.write_override,
            retired: false,
        }
    }

    pub(crate) fn replica(&self, region: usize) -> &Replica {
        &self.replicas[region]
    }

    /// Writes an entry in one region: the changes happen together or, if there are none, nothing does.
    pub(crate) fn commit(&mut self, region: usize, changes: Vec<Change>, at: Timestamp) {
        if changes.is_empty() {
            return;
        }
        let replica = &mut self.replicas[region];
        let ranks =
            if self.multi_write { replica.ranks_of(&changes, at, region) } else { Vec::new() };
        let entry = Arc::new(Entry { lsn: replica.lsn() + 1, origin: region, at, changes, ranks });
        self.apply(region, &entry);
        let mut lsns = if self.multi_write { vec![0; self.replicas.len()] } else { Vec::new() };
        if let Some(own) = lsns.get_mut(region) {
            *own = self.replicas[region].lsn();
        }
        self.log.append(LoggedEntry { entry, lsns });
        self.settle();
    }

    /// Releases the entries that every region has applied, and the tombstones that beat nothing any more.
    fn settle(&mut self) {
        let end = self.log.end();
        for settled in self.log.settle() {
            if self.multi_write {
                self.tombstones.extend(settled.tombstones(end));
            }
        }
        let reached = self.log.reached();
        while self.tombstones.front().is_some_and(|oldest| oldest.droppable_at <= reached) {
            let Some(dropped) = self.tombstones.pop_front() else { break };
            self.replicas.iter_mut().for_each(|replica| replica.drop_tombstone(&dropped));
        }
    }

    /// Brings the write region up to the end of the log before it writes: after a failover nothing that was
    /// acknowledged is lost. In a multi-write account every region writes to what it has.
    pub(crate) fn prepare_to_write(&mut self, region: usize) {
        if !self.multi_write {
            self.apply_all(region);
        }
    }

    fn apply(&mut self, region: usize, entry: &Entry) {
        match self.multi_write {
            true => self.replicas[region].apply_ranked(entry),
            false => self.replicas[region].apply(entry),
        }
    }

    /// Deletes items whose time to live has passed. Lazy expiry: every write begins with this, so that an
    /// expired item is never in its way.
    pub(crate) fn expire(&mut self, region: usize, now: Timestamp) {
        let expired = self.replicas[region].expired(now.seconds());
        let deletions = expired.into_iter().map(|item| Change::Delete { item }).collect();
        self.commit(region, deletions, now);
    }

    /// Brings a region's replica up to the end of the log, whatever its delay.
    fn apply_all(&mut self, region: usize) {
        self.apply_while(region, |_| true);
    }

    /// Applies entries in the other online regions until they are within the bound.
    pub(crate) fn enforce_staleness_bound(&mut self, bound: StalenessBound, topology: &Topology) {
        let bound = match bound {
            StalenessBound::Unbounded => return,
            StalenessBound::Zero => 0,
            StalenessBound::Entries(entries) => entries,
        };
        let newest = self.replicas.iter().map(Replica::lsn).max().unwrap_or_default();
        for (index, region) in topology.regions.iter().enumerate() {
            // An offline region does not hold writes up (dynamic quorum).
            if region.online && !region.removed {
                self.apply_while(index, |entry| entry.lsn + bound <= newest);
            }
        }
    }

    /// Moves the writes of this partition alone to a region, or back to the account's write region.
    pub(crate) fn override_write_region(
        &mut self,
        write_override: Option<usize>,
        account_region: usize,
    ) {
        // The region that takes over applies everything first, so that its writes follow all others.
        self.apply_all(write_override.unwrap_or(account_region));
        self.write_override = write_override;
    }

    /// Truncates the log to what one region has applied, everywhere: a forced failover to that region, which
    /// loses acknowledged writes. In a multi-write account nothing is lost: every region's writes still
    /// arrive.
    pub(crate) fn truncate_to(&mut self, region: usize) -> Vec<TruncatedEntry> {
        self.write_override = None;
        if self.multi_write {
            return Vec::new();
        }
        let survivor = self.replicas[region].clone();
        let lost = self.log.truncate_to(region).into_iter().map(|logged| logged.entry);
        let lost = lost.map(|entry| TruncatedEntry { lsn: entry.lsn, ids: entry.ids() }).collect();
        for replica in self.replicas.iter_mut().filter(|replica| replica.lsn() > survivor.lsn()) {
            *replica = survivor.clone();
        }
        self.settle();
        lost
    }

    fn has_due(&self, region: usize, replication: Replication, now: Timestamp) -> bool {
        self.log.next_for(region).is_some_and(|entry| is_due(entry, replication, now))
    }

    /// Applies what is due in a region by now. Replicas catch up lazily, so whatever changes when entries are
    /// due has to do this first.
    pub(crate) fn catch_up(&mut self, region: usize, replication: Replication, now: Timestamp) {
        self.apply_while(region, |entry| is_due(entry, replication, now));
    }

    /// Applies what is due in every region by now: the log of a region that nobody reads does not grow. To a
    /// removed region everything is due, since nobody will read it again.
    pub(crate) fn catch_up_everywhere(&mut self, topology: &Topology, now: Timestamp) {
        for (index, region) in topology.regions.iter().enumerate() {
            self.apply_while(index, |entry| {
                region.removed || is_due(entry, region.replication, now)
            });
        }
    }

    fn apply_while(&mut self, region: usize, wanted: impl Fn(&Entry) -> bool) {
        while let Some(entry) = self.log.next_for(region).filter(|entry| wanted(entry)).cloned() {
            self.apply(region, &entry);
            self.log.advance(region, self.replicas[region].lsn());
        }
        self.settle();
    }
}

impl SettledEntry {
    /// The tombstones of the items that it deleted. What they have to beat is in the log by now, before
    /// position `end`.
    fn tombstones(&self, end: u64) -> impl Iterator<Item = Tombstone> {
        let entry = &self.logged.entry;
        entry.changes.iter().zip(&entry.ranks).filter_map(move |(change, rank)| match change {
            Change::Put { .. } => None,
            Change::Delete { item } => {
                Some(Tombstone { name: item.name(), rank: *rank, droppable_at: end })
            }
        })
    }
}

fn is_due(entry: &Entry, replication: Replication, now: Timestamp) -> bool {
    !replication.paused && entry.at.after(replication.delay) <= now
}
