//! A physical partition: a range of the key space, its log, and a replica per region.
//!
//! The region that accepts writes appends to the log and applies what it wrote; the others apply an entry
//! once it is due. Nothing runs in the background: a replica catches up when it is looked at, so a test
//! that turns the clock sees exactly what had arrived by then.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKeyRangeId, PartitionSessionToken, SessionToken,
    VectorSessionToken,
};

use super::{Change, Entry, Replica, UniqueKeys};
use crate::clock::Timestamp;
use crate::regions::{Replication, Topology};
use crate::throttle::Budget;

/// A physical partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionKeyRangeId,
    pub(crate) range: EffectivePartitionKeyRange,
    /// Every range that this one came from.
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
    /// For each region, the entries that its replica has still to apply.
    arriving: Vec<VecDeque<Arc<Entry>>>,
    /// Every region writes, and conflicts are settled where they meet.
    multi_write: bool,
    /// The region that writes of this partition alone were moved to.
    home: Option<usize>,
    /// Another partition, or two, took this one's place.
    retired: bool,
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

/// How many replicas a partition has, and which of them write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegionCount {
    pub(crate) regions: usize,
    pub(crate) multi_write: bool,
}

/// How far writes are behind in the regions that only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lag {
    /// As far as replication lets them be.
    Unbounded,
    /// Not at all: a write is acknowledged when every online region has applied it.
    None,
    /// At most so many entries.
    AtMost(u64),
}

/// How far a reader of a replica has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) lsn: u64,
    /// In a multi-write account, how many entries of each region.
    pub(crate) progress: Vec<u64>,
}

impl Seen {
    pub(crate) fn of(replica: &Replica) -> Self {
        Self { lsn: replica.lsn(), progress: replica.progress().to_vec() }
    }

    /// Whether a reader that has seen what a token says may read here.
    pub(crate) fn covers(&self, token: &PartitionSessionToken) -> bool {
        let reaches = |own: u64, wanted: i64| i64::try_from(own).unwrap_or(i64::MAX) >= wanted;
        match token {
            PartitionSessionToken::Vector(vector) if !vector.regions().is_empty() => {
                vector.regions().iter().all(|(region, wanted)| {
                    let own =
                        usize::try_from(*region).ok().and_then(|region| self.progress.get(region));
                    reaches(own.copied().unwrap_or_default(), *wanted)
                })
            }
            token => reaches(self.lsn, token.global_lsn()),
        }
    }
}

/// A write that a forced change of the write region cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CutOff {
    pub(crate) lsn: u64,
    pub(crate) ids: Vec<String>,
}

impl Partition {
    pub(crate) fn new(
        id: PartitionKeyRangeId,
        range: EffectivePartitionKeyRange,
        unique_keys: &UniqueKeys,
        replication: RegionCount,
    ) -> Self {
        let RegionCount { regions, multi_write } = replication;
        let replicas = (0..regions).map(|_| Replica::new(unique_keys.clone())).collect();
        let arriving = vec![VecDeque::new(); regions];
        let state = PartitionState { replicas, arriving, multi_write, home: None, retired: false };
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

    /// Retires the partition in favour of two halves, which go on with its sequence numbers: what was on
    /// its way to a region is on its way to both.
    pub(crate) fn split_into(
        &self,
        halves: [(PartitionKeyRangeId, EffectivePartitionKeyRange); 2],
        generation: u64,
    ) -> [Arc<Self>; 2] {
        let mut state = self.write();
        state.retired = true;
        halves.map(|(id, range)| {
            let part = state.restricted_to(&range);
            Arc::new(Self::of_state(id, range, self.lineage(), generation, part))
        })
    }

    /// Retires the partition and its right neighbour in favour of one. Every region has everything first,
    /// for the two count differently.
    pub(crate) fn merge_with(
        &self,
        right: &Self,
        id: PartitionKeyRangeId,
        generation: u64,
    ) -> Result<Self, String> {
        let range =
            EffectivePartitionKeyRange::new(self.range.min().clone(), right.range.max().clone())
                .map_err(|error| error.to_string())?;
        let (mut first, mut second) = (self.write(), right.write());
        if first.home != second.home {
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

    /// What a region has by now.
    pub(crate) fn view(
        &self,
        region: usize,
        topology: &Topology,
        now: Timestamp,
    ) -> ReplicaView<'_> {
        let replication = topology.regions[region].replication;
        let state = self.read();
        if !state.has_due(region, replication, now) {
            return ReplicaView { state, region };
        }
        drop(state);
        self.write().catch_up(region, replication, now);
        ReplicaView { state: self.read(), region }
    }

    // A panic while the lock is held cannot leave a half-applied entry behind: entries are decided
    // before they are applied, and applying does not panic. So a poisoned lock is still good.

    fn read(&self) -> RwLockReadGuard<'_, PartitionState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, PartitionState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region that accepts writes of this partition.
    pub(crate) fn writer(&self, topology: &Topology, now: Timestamp) -> usize {
        self.read().home.unwrap_or_else(|| topology.writer(now))
    }

    /// The session token of a reader that has seen what a replica has.
    pub(crate) fn session_token(&self, version: i64, seen: &Seen) -> SessionToken {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let regions = (0..).zip(&seen.progress).map(|(region, lsn)| (region, number(*lsn)));
        let progress = VectorSessionToken::new(version, number(seen.lsn), regions);
        SessionToken::of_range(self.id.clone(), PartitionSessionToken::Vector(progress))
    }
}

impl PartitionState {
    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let part = |queue: &VecDeque<Arc<Entry>>| {
            queue.iter().map(|entry| Arc::new(entry.restricted_to(range))).collect()
        };
        Self {
            replicas: self.replicas.iter().map(|replica| replica.restricted_to(range)).collect(),
            arriving: self.arriving.iter().map(part).collect(),
            multi_write: self.multi_write,
            home: self.home,
            retired: false,
        }
    }

    fn merged_with(&mut self, other: &mut Self) -> Self {
        for region in 0..self.replicas.len() {
            self.complete(region);
            other.complete(region);
        }
        let pairs = self.replicas.iter().zip(&other.replicas);
        Self {
            replicas: pairs.map(|(left, right)| left.merged_with(right)).collect(),
            arriving: vec![VecDeque::new(); self.replicas.len()],
            multi_write: self.multi_write,
            home: self.home,
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
        let others = self.arriving.iter_mut().enumerate().filter(|(other, _)| *other != region);
        others.for_each(|(_, queue)| queue.push_back(Arc::clone(&entry)));
    }

    /// Brings the region that writes up to the end of the log before it writes. In a multi-write account
    /// every region writes with what it has.
    pub(crate) fn prepare_to_write(&mut self, region: usize) {
        if !self.multi_write {
            self.complete(region);
        }
    }

    fn apply(&mut self, region: usize, entry: &Entry) {
        match self.multi_write {
            true => self.replicas[region].apply_ranked(entry),
            false => self.replicas[region].apply(entry),
        }
    }

    /// Removes what has outlived its time to live. Every write begins with this, so that an expired
    /// item is never in its way.
    pub(crate) fn expire(&mut self, region: usize, now: Timestamp) {
        let expired = self.replicas[region].expired(now.seconds());
        let deletions = expired.into_iter().map(|item| Change::Delete { item }).collect();
        self.commit(region, deletions, now);
    }

    /// Brings a region's replica up to the end of the log, whatever its delay.
    pub(crate) fn complete(&mut self, region: usize) {
        self.apply_while(region, |_| true);
    }

    /// Brings the other online regions as close as the account's consistency demands.
    pub(crate) fn keep_within(&mut self, lag: Lag, topology: &Topology) {
        let bound = match lag {
            Lag::Unbounded => return,
            Lag::None => 0,
            Lag::AtMost(entries) => entries,
        };
        let newest = self.replicas.iter().map(Replica::lsn).max().unwrap_or_default();
        for (index, region) in topology.regions.iter().enumerate() {
            if region.online && !region.removed {
                self.apply_while(index, |entry| entry.lsn + bound <= newest);
            }
        }
    }

    /// Moves the writes of this partition alone to a region that has everything, or back to where the
    /// account writes.
    pub(crate) fn move_home(&mut self, home: Option<usize>, writer: usize) {
        self.complete(home.unwrap_or(writer));
        self.home = home;
    }

    /// Makes a region's replica the truth: what it has not applied is cut off, everywhere. In a multi-write
    /// account nothing is: every region's writes still arrive.
    pub(crate) fn cut_off_after(&mut self, region: usize) -> Vec<CutOff> {
        self.home = None;
        if self.multi_write {
            return Vec::new();
        }
        let truth = self.replicas[region].clone();
        let lost = self.arriving[region].drain(..);
        let lost = lost.map(|entry| CutOff { lsn: entry.lsn, ids: entry.ids() }).collect();
        for queue in &mut self.arriving {
            queue.retain(|entry| entry.lsn <= truth.lsn());
        }
        for replica in self.replicas.iter_mut().filter(|replica| replica.lsn() > truth.lsn()) {
            *replica = truth.clone();
        }
        lost
    }

    fn has_due(&self, region: usize, replication: Replication, now: Timestamp) -> bool {
        self.arriving[region].front().is_some_and(|entry| is_due(entry, replication, now))
    }

    /// Brings a region's replica up to what has arrived there by now. Replicas catch up when someone looks, so
    /// whatever changes how entries arrive has to do this first.
    pub(crate) fn catch_up(&mut self, region: usize, replication: Replication, now: Timestamp) {
        self.apply_while(region, |entry| is_due(entry, replication, now));
    }

    fn apply_while(&mut self, region: usize, wanted: impl Fn(&Entry) -> bool) {
        while self.arriving[region].front().is_some_and(|entry| wanted(entry)) {
            if let Some(entry) = self.arriving[region].pop_front() {
                self.apply(region, &entry);
            }
        }
    }
}

fn is_due(entry: &Entry, replication: Replication, now: Timestamp) -> bool {
    !replication.paused && entry.at.after(replication.delay) <= now
}
