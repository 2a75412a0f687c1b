//! The mutable state of a partition: its replicas, and the log between them.

use std::collections::VecDeque;
use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;

use super::persistence::{LogChange, PartitionContents, PartitionRecord, RestoredItem};
use super::replication_log::{LoggedEntry, ReplicationLog, SettledEntry};
use super::tombstone::Tombstone;
use super::{Change, Entry, Expiry, Replica, UniqueKeys};
use crate::clock::Timestamp;
use crate::topology::{ReplicaSet, Replication, Topology};

/// The mutable state of a partition.
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
    /// Whether the account is kept on disk.
    stored: bool,
    /// Changes of the log that are to be stored; `None` once the partition is retired.
    unstored: Option<Vec<LogChange>>,
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

/// An acknowledged log entry that a forced failover truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TruncatedEntry {
    pub(crate) lsn: u64,
    pub(crate) ids: Vec<String>,
}

impl PartitionState {
    pub(crate) fn new(unique_keys: &UniqueKeys, replicas: ReplicaSet) -> Self {
        let ReplicaSet { regions, multi_write, stored } = replicas;
        Self {
            replicas: (0..regions).map(|_| Replica::new(unique_keys.clone())).collect(),
            log: ReplicationLog::new(regions),
            tombstones: VecDeque::new(),
            multi_write,
            write_override: None,
            retired: false,
            stored,
            unstored: stored.then(Vec::new),
        }
    }

    /// The state that was kept on disk: what every region had, with the log replayed on top of it.
    pub(crate) fn restored(
        contents: PartitionContents,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        let PartitionContents { record, items, ranks, tombstones, entries } = contents;
        let mut state = Self::new(unique_keys, replicas);
        // A partition that was never written has no record.
        if record.cursors.len() != replicas.regions {
            return state;
        }
        let in_region = |region| {
            let items = items.iter().map(move |item: &RestoredItem| item.in_region(region));
            Replica::restored(unique_keys.clone(), items, &ranks)
        };
        state.replicas = (0..replicas.regions).map(in_region).collect();
        state.log = ReplicationLog::restored(entries, record.end, record.cursors.clone());
        // What a tombstone has to beat was written before the end of the log.
        let droppable_at = record.end;
        let tombstones = tombstones.into_iter();
        state.tombstones =
            tombstones.map(|(name, rank)| Tombstone { name, rank, droppable_at }).collect();
        state.write_override = record.write_override.map(|region| region as usize);
        state.replay(record);
        state.settle();
        state
    }

    /// Applies in each region the entries that it had applied, and sets how far it had come.
    fn replay(&mut self, record: PartitionRecord) {
        let mut progress = record.progress.into_iter();
        for (region, lsn) in record.lsns.into_iter().enumerate() {
            let Some(replica) = self.replicas.get_mut(region) else { return };
            let cursor = self.log.cursors()[region];
            if self.multi_write {
                // Regions apply entries in different orders; versions win by rank, numbers by this order.
                let applied = self.log.entries().map(|(_, logged)| logged);
                let mut applied: Vec<&LoggedEntry> =
                    applied.filter(|logged| logged.lsns[region] != 0).collect();
                applied.sort_by_key(|logged| logged.lsns[region]);
                applied.iter().for_each(|it| replica.replay_ranked(&it.entry, it.lsns[region]));
            } else {
                let applied = self.log.entries().filter(|(position, logged)| {
                    *position < cursor || logged.entry.origin == region
                });
                applied.for_each(|(_, logged)| replica.apply(&logged.entry));
            }
            replica.restore_progress(lsn, progress.next().unwrap_or_default());
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    /// Takes the partition out of use; returns what is still to be stored of it.
    pub(crate) fn retire(&mut self) -> Vec<LogChange> {
        self.retired = true;
        self.unstored.take().unwrap_or_default()
    }

    /// The region that accepts writes in place of the account's, if there is one.
    pub(crate) fn write_override(&self) -> Option<usize> {
        self.write_override
    }

    pub(crate) fn is_written_where(&self, other: &Self) -> bool {
        self.write_override == other.write_override
    }

    /// Takes what is to be stored of the log.
    pub(crate) fn take_unstored(&mut self) -> Vec<LogChange> {
        self.unstored.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// How far the replicas have come, given the container's counters.
    pub(crate) fn record(&self, next_ordinal: u64, next_version: u64) -> PartitionRecord {
        let progress = self.replicas.iter().map(|replica| replica.progress().to_vec());
        PartitionRecord {
            lsns: self.replicas.iter().map(Replica::lsn).collect(),
            progress: if self.multi_write { progress.collect() } else { Vec::new() },
            cursors: self.log.cursors().to_vec(),
            end: self.log.end(),
            write_override: self.write_override.and_then(|region| u32::try_from(region).ok()),
            next_ordinal,
            next_version,
        }
    }

    fn store(&mut self, change: LogChange) {
        if let Some(unstored) = &mut self.unstored {
            unstored.push(change);
        }
    }

    pub(crate) fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let inside = |tombstone: &&Tombstone| range.contains(&tombstone.name.effective_key);
        let log = self.log.restricted_to(range);
        // A new log on disk. The items that every region has stay where they are.
        let appended = log
            .entries()
            .map(|(position, logged)| LogChange::Appended { position, logged: logged.clone() });
        Self {
            unstored: self.stored.then(|| appended.collect()),
            replicas: self.replicas.iter().map(|replica| replica.restricted_to(range)).collect(),
            tombstones: self.tombstones.iter().filter(inside).cloned().collect(),
            write_override: self.write_override,
            retired: false,
            log,
            ..*self
        }
    }

    pub(crate) fn merged_with(&mut self, other: &mut Self) -> Self {
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
            stored: self.stored,
            unstored: self.stored.then(Vec::new),
        }
    }

    pub(crate) fn replica(&self, region: usize) -> &Replica {
        &self.replicas[region]
    }

    pub(crate) fn replica_mut(&mut self, region: usize) -> &mut Replica {
        &mut self.replicas[region]
    }

    /// Lets every region accept writes from now on. First all regions apply the whole log: what is in it has no ranks, by which
    /// conflicts are resolved.
    pub(crate) fn enable_multi_write(&mut self) {
        (0..self.replicas.len()).for_each(|region| self.apply_all(region));
        self.write_override = None;
        self.multi_write = true;
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
        let logged = LoggedEntry { entry, lsns };
        // The log of a single region settles at once: what it would store is removed again.
        if self.stored && self.replicas.len() > 1 {
            let position = self.log.end();
            self.store(LogChange::Appended { position, logged: logged.clone() });
        }
        self.log.append(logged);
        self.settle();
    }

    /// Releases the entries that every region has applied, and the tombstones that beat nothing any more.
    fn settle(&mut self) {
        let end = self.log.end();
        for settled in self.log.settle() {
            if self.multi_write {
                self.tombstones.extend(settled.tombstones(end));
            }
            if let Some(unstored) = &mut self.unstored {
                unstored.push(LogChange::Settled { settled, multi_write: self.multi_write });
            }
        }
        let reached = self.log.reached();
        while self.tombstones.front().is_some_and(|oldest| oldest.droppable_at <= reached) {
            let Some(dropped) = self.tombstones.pop_front() else { break };
            self.replicas.iter_mut().for_each(|replica| replica.drop_tombstone(&dropped));
            self.store(LogChange::TombstoneDropped(dropped));
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
    pub(crate) fn expire(&mut self, region: usize, expiry: Expiry, now: Timestamp) {
        let expired = self.replicas[region].expired(expiry);
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
        let from = self.log.end();
        let lost = lost.map(|entry| TruncatedEntry { lsn: entry.lsn, ids: entry.ids() }).collect();
        for replica in self.replicas.iter_mut().filter(|replica| replica.lsn() > survivor.lsn()) {
            *replica = survivor.clone();
        }
        self.settle();
        self.store(LogChange::Truncated { from });
        lost
    }

    pub(crate) fn has_due(&self, region: usize, replication: Replication, now: Timestamp) -> bool {
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
            let lsn = self.replicas[region].lsn();
            let position = self.log.advance(region, lsn);
            if self.multi_write {
                self.store(LogChange::Applied { position, region, lsn });
            }
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
