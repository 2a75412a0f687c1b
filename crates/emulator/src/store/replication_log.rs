//! The part of a partition's log that some region has still to apply, and how far each region has come.
//!
//! One queue for all regions, each with a cursor into it: an entry is settled, and its memory released, once
//! the last cursor has passed it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;

use super::Entry;

/// The entries that some region has still to apply, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct ReplicationLog {
    entries: VecDeque<LoggedEntry>,
    /// The position of the oldest entry. Positions count up and are not reused.
    first: u64,
    /// For each region, the position of the entry that it applies next.
    cursors: Vec<u64>,
}

/// An entry, and where each region has it.
#[derive(Clone, Debug)]
pub(crate) struct LoggedEntry {
    pub(crate) entry: Arc<Entry>,
    /// Of a multi-write account: the log sequence number that it has in each region's replica, 0 where it was
    /// not applied yet. Elsewhere empty: the entry's own number holds in every region.
    pub(crate) lsns: Vec<u64>,
}

/// An entry that every region has applied.
#[derive(Clone, Debug)]
pub(crate) struct SettledEntry {
    pub(crate) position: u64,
    pub(crate) logged: LoggedEntry,
}

impl ReplicationLog {
    pub(crate) fn new(regions: usize) -> Self {
        Self { entries: VecDeque::new(), first: 0, cursors: vec![0; regions] }
    }

    /// The log as it was kept: its entries by position, where it ends, and the cursors of the regions.
    pub(crate) fn restored(
        entries: BTreeMap<u64, LoggedEntry>,
        end: u64,
        cursors: Vec<u64>,
    ) -> Self {
        let first = entries.keys().next().copied().unwrap_or(end);
        Self { entries: entries.into_values().collect(), first, cursors }
    }

    /// The position of the next entry to be written.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(crate) fn cursors(&self) -> &[u64] {
        &self.cursors
    }

    /// The entries with their positions, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &LoggedEntry)> {
        (self.first..).zip(&self.entries)
    }

    /// Appends an entry that its own region has applied, and returns its position.
    pub(crate) fn append(&mut self, logged: LoggedEntry) -> u64 {
        let position = self.end();
        let origin = logged.entry.origin;
        self.entries.push_back(logged);
        self.skip_own(origin);
        position
    }

    /// The entry that a region applies next, which another region wrote.
    pub(crate) fn next_for(&self, region: usize) -> Option<&Arc<Entry>> {
        self.entries.get(self.index(self.cursors[region])).map(|logged| &logged.entry)
    }

    /// Moves a region's cursor past the entry it has just applied, at this number of its replica, and returns
    /// the entry's position.
    pub(crate) fn advance(&mut self, region: usize, lsn: u64) -> u64 {
        let position = self.cursors[region];
        let index = self.index(position);
        if let Some(own) = self.entries.get_mut(index).and_then(|it| it.lsns.get_mut(region)) {
            *own = lsn;
        }
        self.cursors[region] += 1;
        self.skip_own(region);
        position
    }

    /// Takes the entries that every region has applied.
    pub(crate) fn settle(&mut self) -> impl Iterator<Item = SettledEntry> {
        let (first, reached) = (self.first, self.reached());
        let count = self.index(reached).min(self.entries.len());
        self.first = reached;
        let settled = (first..).zip(self.entries.drain(..count));
        settled.map(|(position, logged)| SettledEntry { position, logged })
    }

    /// The position up to which every region has applied the log.
    pub(crate) fn reached(&self) -> u64 {
        self.cursors.iter().copied().min().unwrap_or(self.first)
    }

    /// Drops every entry that a region has not applied, and returns them.
    pub(crate) fn truncate_to(&mut self, region: usize) -> Vec<LoggedEntry> {
        let end = self.cursors[region];
        for cursor in &mut self.cursors {
            *cursor = end.min(*cursor);
        }
        let index = self.index(end);
        self.entries.split_off(index).into()
    }

    /// The log of a part of the key space. Positions stay.
    pub(crate) fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let part = |logged: &LoggedEntry| LoggedEntry {
            entry: Arc::new(logged.entry.restricted_to(range)),
            lsns: logged.lsns.clone(),
        };
        Self { entries: self.entries.iter().map(part).collect(), ..self.clone() }
    }

    /// Moves a region's cursor past entries that the region wrote itself: it applied them as it did.
    fn skip_own(&mut self, region: usize) {
        while self.next_for(region).is_some_and(|entry| entry.origin == region) {
            self.cursors[region] += 1;
        }
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    fn entry(lsn: u64, origin: usize) -> LoggedEntry {
        let at = Timestamp::from_millis(0);
        let entry = Entry { lsn, origin, at, changes: Vec::new(), ranks: Vec::new() };
        LoggedEntry { entry: Arc::new(entry), lsns: Vec::new() }
    }

    fn settled(log: &mut ReplicationLog) -> Vec<u64> {
        log.settle().map(|it| it.logged.entry.lsn).collect()
    }

    #[test]
    fn the_log_of_a_single_region_settles_at_once() {
        let mut log = ReplicationLog::new(1);
        assert_eq!(log.append(entry(1, 0)), 0);
        assert_eq!(settled(&mut log), [1]);
        assert_eq!((log.end(), log.entries().count()), (1, 0));
    }

    #[test]
    fn an_entry_settles_when_the_last_region_has_applied_it() {
        let mut log = ReplicationLog::new(3);
        log.append(entry(1, 0));
        log.append(entry(2, 0));
        log.advance(1, 1);
        log.advance(1, 2);
        assert!(settled(&mut log).is_empty());
        log.advance(2, 1);
        assert_eq!(settled(&mut log), [1]);
        assert_eq!(log.next_for(2).map(|entry| entry.lsn), Some(2));
        assert!(log.next_for(0).is_none() && log.next_for(1).is_none());
    }

    #[test]
    fn a_region_skips_what_it_wrote_itself_in_between() {
        let mut log = ReplicationLog::new(2);
        log.append(entry(1, 0));
        log.append(entry(1, 1));
        log.append(entry(2, 0));
        assert_eq!(log.next_for(1).map(|entry| (entry.lsn, entry.origin)), Some((1, 0)));
        log.advance(1, 2);
        assert_eq!(log.next_for(1).map(|entry| (entry.lsn, entry.origin)), Some((2, 0)));
        assert_eq!(log.next_for(0).map(|entry| entry.origin), Some(1));
    }

    #[test]
    fn truncation_drops_what_the_region_has_not_applied() {
        let mut log = ReplicationLog::new(2);
        for lsn in 1..=3 {
            log.append(entry(lsn, 0));
        }
        log.advance(1, 1);
        let lost: Vec<u64> = log.truncate_to(1).iter().map(|it| it.entry.lsn).collect();
        assert_eq!(lost, [2, 3]);
        assert_eq!((log.end(), log.cursors()), (1, &[1, 1][..]));
    }
}
