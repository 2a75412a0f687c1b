//! A replica: the items of one partition, the state that applying its log yields.
//!
//! Three indexes over the items are always there: by key and id (point operations), by ordinal (feeds and queries
//! run in the order of RIDs) and by the entry that last wrote them (the change feed). That by expiry comes where a
//! container lets items expire, those by the values of paths as queries ask for them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange, Etag, PartitionKey};

use super::conflict::Rank;
use super::expiry::ExpiryIndex;
use super::key_index::{KeyIndex, Position};
use super::tombstone::Tombstone;
use super::unique::{Fingerprint, UniqueIndex};
use super::{Change, Entry, Expiry, IndexSet, Item, ItemName, ItemResult, Refusal, UniqueKeys};
use crate::clock::Timestamp;

/// The items of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    lsn: u64,
    /// By ordinal.
    items: BTreeMap<u64, Arc<Item>>,
    /// Bytes of their documents.
    bytes: u64,
    keys: KeyIndex,
    /// (LSN of the last write, ordinal): the change feed.
    changes: BTreeSet<(u64, u64)>,
    /// By when they expire; none while the container lets nothing expire.
    expiries: Option<ExpiryIndex>,
    /// By the values at paths that queries asked for.
    indexes: IndexSet,
    unique_keys: UniqueKeys,
    unique: UniqueIndex,
    /// Of a multi-write account: the rank of each item's version. Tombstones stay, so that a late write of a
    /// deleted item still loses.
    ranks: HashMap<ItemName, Rank>,
    /// Of a multi-write account: how many entries of each region were applied (a version vector).
    progress: Vec<u64>,
}

impl Replica {
    pub(crate) fn new(unique_keys: UniqueKeys) -> Self {
        Self { unique_keys, ..Self::default() }
    }

    /// A replica as it was kept: its items in the order of their ordinals, and what decides between versions.
    pub(crate) fn restored(
        unique_keys: UniqueKeys,
        items: impl IntoIterator<Item = Arc<Item>>,
        ranks: &[(ItemName, Rank)],
    ) -> Self {
        let mut replica = Self::new(unique_keys);
        items.into_iter().for_each(|item| replica.insert(&item));
        replica.ranks = ranks.iter().cloned().collect();
        replica
    }

    /// Sets how far the replica has come, once what it has was restored.
    pub(crate) fn restore_progress(&mut self, lsn: u64, progress: Vec<u64>) {
        (self.lsn, self.progress) = (lsn, progress);
    }

    /// Applies an entry of a multi-write account again, under the number that it had.
    pub(crate) fn replay_ranked(&mut self, entry: &Entry, lsn: u64) {
        self.lsn = lsn.saturating_sub(1);
        self.apply_ranked(entry);
    }

    /// The last entry applied.
    pub(crate) fn lsn(&self) -> u64 {
        self.lsn
    }

    /// How many entries of each region were applied, in a multi-write account.
    pub(crate) fn progress(&self) -> &[u64] {
        &self.progress
    }

    /// The replica of a part of the key space, as far as this one has come.
    pub(crate) fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let ranks = self.ranks.iter().filter(|(name, _)| range.contains(&name.effective_key));
        let mut part = Self {
            lsn: self.lsn,
            ranks: ranks.map(|(name, rank)| (name.clone(), *rank)).collect(),
            progress: self.progress.clone(),
            ..Self::new(self.unique_keys.clone())
        };
        for item in self.items.values().filter(|item| range.contains(&item.effective_key)) {
            part.insert(item);
        }
        part
    }

    /// The replica of two neighbouring parts, as far as the further one has come.
    pub(crate) fn merged_with(&self, other: &Self) -> Self {
        let mut whole = self.clone();
        whole.lsn = self.lsn.max(other.lsn);
        whole.ranks.extend(other.ranks.iter().map(|(name, rank)| (name.clone(), *rank)));
        whole.progress.resize(self.progress.len().max(other.progress.len()), 0);
        for (own, theirs) in whole.progress.iter_mut().zip(&other.progress) {
            *own = (*own).max(*theirs);
        }
        for item in other.items.values() {
            whole.insert(item);
        }
        whole
    }

    /// Applies the next entry of the log.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        for change in &entry.changes {
            match change {
                Change::Put { item } => {
                    self.remove_ordinal(item.ordinal);
                    self.insert(item);
                }
                Change::Delete { item } => self.remove_ordinal(item.ordinal),
            }
        }
        self.lsn = entry.lsn;
    }

    /// The ranks of changes that are written in this region.
    pub(crate) fn ranks_of(&self, changes: &[Change], now: Timestamp, region: usize) -> Vec<Rank> {
        let mut ranks: HashMap<ItemName, Rank> = HashMap::new();
        let mut rank = |change: &Change| {
            let name = change.item().name();
            let current = ranks.get(&name).or_else(|| self.ranks.get(&name)).copied();
            let rank = match change {
                Change::Put { .. } => Rank::of_write(current, now, region),
                Change::Delete { .. } => Rank::of_delete(current),
            };
            ranks.insert(name, rank);
            rank
        };
        changes.iter().map(&mut rank).collect()
    }

    /// Applies an entry of any region of a multi-write account: versions of a higher rank stay. The entry
    /// gets a log sequence number of this replica's own, for regions apply entries in different orders.
    pub(crate) fn apply_ranked(&mut self, entry: &Entry) {
        // Counted even if every change in it loses: sessions wait for entries, not for effects.
        self.lsn += 1;
        if self.progress.len() <= entry.origin {
            self.progress.resize(entry.origin + 1, 0);
        }
        self.progress[entry.origin] += 1;
        for (change, rank) in entry.changes.iter().zip(&entry.ranks) {
            let name = change.item().name();
            if self.ranks.get(&name).is_some_and(|current| current >= rank) {
                continue;
            }
            self.ranks.insert(name, *rank);
            let current = self
                .find(&change.item().effective_key, &change.item().key, &change.item().id)
                .cloned();
            if let Some(current) = current {
                self.remove(&current);
            }
            if let Change::Put { item, .. } = change {
                self.insert(&Arc::new(Item { lsn: self.lsn, ..Item::clone(item) }));
            }
        }
    }

    /// The item of a key and an id, expired or not.
    pub(crate) fn find(
        &self,
        effective_key: &EffectivePartitionKey,
        key: &PartitionKey,
        id: &str,
    ) -> Option<&Arc<Item>> {
        let candidates = self.keys.named(effective_key, id);
        candidates
            .filter_map(|ordinal| self.items.get(&ordinal))
            .find(|item| item.key == *key && *item.id == *id)
    }

    /// The item of a name, unless it has expired.
    pub(super) fn find_unexpired(&self, name: &ItemName, expiry: Expiry) -> Option<Arc<Item>> {
        let item = self.find(&name.effective_key, &name.key, &name.id)?;
        // Expired items stay until the next write of the partition; readers must not see them before.
        (!expiry.is_over(item)).then(|| item.clone())
    }

    /// Reads an item; [`Refusal::NotModified`] if it is at the version that the client has.
    pub(crate) fn read(
        &self,
        name: &ItemName,
        if_none_match: Option<&Etag>,
        expiry: Expiry,
    ) -> Result<ItemResult, Refusal> {
        let item = self.find_unexpired(name, expiry).ok_or(Refusal::NotFound)?;
        ItemResult::of_read(item, if_none_match)
    }

    pub(crate) fn by_ordinal(&self, ordinal: u64) -> Option<&Arc<Item>> {
        self.items.get(&ordinal)
    }

    /// All items from `position` on, in the order of their ordinals.
    pub(crate) fn in_order(&self, position: Position) -> impl Iterator<Item = &Arc<Item>> {
        let lower = match position {
            Position::Start => Bound::Unbounded,
            Position::After(ordinal) => Bound::Excluded(ordinal),
            Position::At(ordinal) => Bound::Included(ordinal),
        };
        self.items.range((lower, Bound::Unbounded)).map(|(_, item)| item)
    }

    /// The ordinals of the items whose keys fall into `window`, from `position` on, in order.
    pub(crate) fn ordinals_within(
        &self,
        window: &EffectivePartitionKeyRange,
        position: Position,
    ) -> Vec<u64> {
        self.keys.within(window, position)
    }

    /// The number of items whose keys fall into `window`, counted up to `most`.
    pub(crate) fn count_within(&self, window: &EffectivePartitionKeyRange, most: usize) -> usize {
        self.keys.count_within(window, most)
    }

    /// Bytes of the documents.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn indexes(&self) -> &IndexSet {
        &self.indexes
    }

    pub(crate) fn indexes_mut(&mut self) -> &mut IndexSet {
        &mut self.indexes
    }

    /// The items last written after `lsn`, in the order of their entries.
    pub(crate) fn changed_after(&self, lsn: u64) -> impl Iterator<Item = &Arc<Item>> {
        // Past every item of the entry: a cursor stands between two entries.
        let lower = Bound::Excluded((lsn, u64::MAX));
        self.changes
            .range((lower, Bound::Unbounded))
            .filter_map(|(_, ordinal)| self.items.get(ordinal))
    }

    /// Items whose time to live has passed.
    pub(crate) fn expired(&mut self, expiry: Expiry) -> Vec<Arc<Item>> {
        if expiry.is_off() {
            self.expiries = None;
            return Vec::new();
        }
        // Made by the first write after expiry was turned on, or after a restart, and kept from then on: most
        // containers never need it.
        let items = self.items.values().map(|item| &**item);
        let index = self.expiries.get_or_insert_with(|| ExpiryIndex::of_items(items));
        let over = index.over(&expiry);
        over.filter_map(|ordinal| self.items.get(&ordinal)).cloned().collect()
    }

    pub(crate) fn fingerprints(&self, item: &Item) -> Vec<Fingerprint> {
        self.unique_keys.fingerprints(item)
    }

    pub(crate) fn owner_of(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.unique.owner(fingerprint)
    }

    fn insert(&mut self, item: &Arc<Item>) {
        self.bytes += item.size() as u64;
        self.keys.insert(item);
        self.indexes.insert(item);
        self.changes.insert((item.lsn, item.ordinal));
        if let Some(expiries) = &mut self.expiries {
            expiries.insert(item);
        }
        for fingerprint in self.unique_keys.fingerprints(item) {
            self.unique.insert(fingerprint, item.ordinal);
        }
        self.items.insert(item.ordinal, item.clone());
    }

    /// Forgets a deleted item, once no version of it can arrive any more that its tombstone would beat.
    pub(crate) fn drop_tombstone(&mut self, tombstone: &Tombstone) {
        // Created again meanwhile, or deleted once more, it has another rank, which stays.
        if self.ranks.get(&tombstone.name) == Some(&tombstone.rank) {
            self.ranks.remove(&tombstone.name);
        }
    }

    fn remove_ordinal(&mut self, ordinal: u64) {
        if let Some(item) = self.items.get(&ordinal).cloned() {
            self.remove(&item);
        }
    }

    fn remove(&mut self, item: &Arc<Item>) {
        self.bytes -= item.size() as u64;
        self.keys.remove(item);
        self.indexes.remove(item);
        self.changes.remove(&(item.lsn, item.ordinal));
        if let Some(expiries) = &mut self.expiries {
            expiries.remove(item);
        }
        for fingerprint in self.unique_keys.fingerprints(item) {
            self.unique.remove(&fingerprint);
        }
        self.items.remove(&item.ordinal);
    }
}
