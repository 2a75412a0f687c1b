//! Loading an account from disk: records in, the parts of a catalog out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use sidereal_protocol::{
    EffectivePartitionKey, EffectivePartitionKeyRange, Etag, PartitionKey, PartitionKeyRangeId, Rid,
};

use super::data_directory::DataDirectoryError;
use super::keys::{KeyParts, Kind};
use super::records::{
    AccountRecord, ContainerRecord, DatabaseRecord, EntryRecord, ItemRecord, NumbersRecord,
    PartitionRecord, RankRecord,
};
use super::storage::Storage;
use crate::store::conflict::Rank;
use crate::store::replication_log::LoggedEntry;
use crate::store::{Item, ItemName, Offer};

/// Everything that a data directory held.
#[derive(Debug, Default)]
pub(crate) struct RestoredState {
    /// None where the directory is new.
    pub(crate) account: Option<AccountRecord>,
    pub(crate) numbers: NumbersRecord,
    pub(crate) databases: Vec<DatabaseRecord>,
    pub(crate) offers: Vec<Offer>,
    pub(crate) containers: Vec<RestoredContainer>,
    /// Containers that are gone, of which a write that ran into their deletion left something behind.
    pub(crate) leftovers: Vec<Rid>,
}

/// A container and what its partitions held.
#[derive(Debug)]
pub(crate) struct RestoredContainer {
    pub(crate) record: ContainerRecord,
    /// In the order of the key space, as in the record.
    pub(crate) partitions: Vec<RestoredPartition>,
}

/// The contents of a partition.
#[derive(Debug)]
pub(crate) struct RestoredPartition {
    pub(crate) id: PartitionKeyRangeId,
    pub(crate) range: EffectivePartitionKeyRange,
    pub(crate) parents: Vec<PartitionKeyRangeId>,
    pub(crate) generation: u64,
    pub(crate) contents: PartitionContents,
}

/// The state of a partition's replicas.
#[derive(Debug, Default)]
pub(crate) struct PartitionContents {
    pub(crate) record: PartitionRecord,
    pub(crate) items: Vec<RestoredItem>,
    /// Of a multi-write account: what decides between versions.
    pub(crate) ranks: Vec<(ItemName, Rank)>,
    /// Those of deleted items among them.
    pub(crate) tombstones: Vec<(ItemName, Rank)>,
    /// The entries that some region has still to apply, with their positions.
    pub(crate) entries: BTreeMap<u64, LoggedEntry>,
}

/// An item, and the log sequence numbers that it has in the regions.
#[derive(Debug)]
pub(crate) struct RestoredItem {
    pub(crate) item: Arc<Item>,
    /// Empty where it is the same in every region, or there is one region.
    pub(crate) lsns: Vec<u64>,
}

impl RestoredItem {
    /// The item as a region has it.
    pub(crate) fn in_region(&self, region: usize) -> Arc<Item> {
        match self.lsns.get(region) {
            Some(lsn) if *lsn != self.item.lsn => {
                Arc::new(Item { lsn: *lsn, ..Item::clone(&self.item) })
            }
            _ => Arc::clone(&self.item),
        }
    }
}

/// The errors that stop loading.
#[derive(Debug)]
struct Unreadable(String);

impl From<redb::Error> for Unreadable {
    fn from(error: redb::Error) -> Self {
        Self(format!("the file ({error})"))
    }
}

impl RestoredState {
    /// Loads everything.
    pub(crate) fn load(storage: &Storage) -> Result<Self, DataDirectoryError> {
        let mut loading = Loading::default();
        let loaded = storage.for_each(|key, value| loading.take(key, value));
        loaded.map_err(|Unreadable(what)| DataDirectoryError::Damaged { what })?;
        Ok(loading.state)
    }
}

/// Records come in the order of their keys: every container before its partitions, and those before what they
/// hold.
#[derive(Debug, Default)]
struct Loading {
    state: RestoredState,
    /// Where a container is in the list, by the bytes of its RID.
    containers: BTreeMap<[u8; 8], usize>,
}

impl Loading {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        let kind = key.first().copied().unwrap_or_default();
        let parts = KeyParts::after_kind(key);
        let is = |wanted: Kind| kind == wanted as u8;
        if is(Kind::Account) {
            self.state.account = Some(decode("the account", value)?);
        } else if is(Kind::Numbers) {
            self.state.numbers = decode("the account's numbers", value)?;
        } else if is(Kind::Database) {
            self.state.databases.push(decode("a database", value)?);
        } else if is(Kind::Offer) {
            self.state.offers.push(decode("an offer", value)?);
        } else if is(Kind::Container) {
            self.container(parts, value)?;
        } else if is(Kind::Partition) {
            let Some(partition) = self.partition_of(parts)? else { return Ok(()) };
            partition.contents.record = decode("a partition", value)?;
        } else if is(Kind::Item) {
            self.item(parts, value)?;
        } else if is(Kind::Rank) {
            self.rank(parts, value)?;
        } else if is(Kind::Entry) {
            self.entry(parts, value)?;
        } else if is(Kind::Applied) {
            self.applied(parts, value)?;
        }
        Ok(())
    }

    fn container(&mut self, mut parts: KeyParts<'_>, value: &[u8]) -> Result<(), Unreadable> {
        let record: ContainerRecord = decode("a container", value)?;
        let partitions = record.ranges.iter().map(|range| {
            let bound = EffectivePartitionKey::from_bytes;
            let bounds = EffectivePartitionKeyRange::new(bound(&range.min), bound(&range.max));
            Ok(RestoredPartition {
                id: PartitionKeyRangeId::from(range.number),
                range: bounds.map_err(|_| unreadable("a partition range"))?,
                parents: range.parents.clone(),
                generation: range.generation,
                contents: PartitionContents::default(),
            })
        });
        let partitions = partitions.collect::<Result<Vec<_>, Unreadable>>()?;
        let rid = parts.container().ok_or_else(|| unreadable("a container's key"))?;
        self.containers.insert(rid, self.state.containers.len());
        self.state.containers.push(RestoredContainer { record, partitions });
        Ok(())
    }

    fn item(&mut self, mut parts: KeyParts<'_>, value: &[u8]) -> Result<(), Unreadable> {
        let rid = parts.container().ok_or_else(|| unreadable("an item's key"))?;
        let record: ItemRecord<'_> = decode("an item", value)?;
        let item = record.to_item(0).ok_or_else(|| unreadable("an item"))?;
        let Some(partition) = self.partition_at(rid, &item.effective_key)? else { return Ok(()) };
        let lsns = if record.lsns.len() > 1 { record.lsns } else { Vec::new() };
        partition.contents.items.push(RestoredItem { item: Arc::new(item), lsns });
        Ok(())
    }

    fn rank(&mut self, mut parts: KeyParts<'_>, value: &[u8]) -> Result<(), Unreadable> {
        let rid = parts.container().ok_or_else(|| unreadable("a rank's key"))?;
        let RankRecord { rank, ordinal } = decode("a rank", value)?;
        let name = parts.name().ok_or_else(|| unreadable("a rank's key"))?;
        if let Some(partition) = self.partition_at(rid, &name.effective_key)? {
            if ordinal.is_none() {
                partition.contents.tombstones.push((name.clone(), rank));
            }
            partition.contents.ranks.push((name, rank));
        }
        Ok(())
    }

    fn entry(&mut self, mut parts: KeyParts<'_>, value: &[u8]) -> Result<(), Unreadable> {
        let Some(partition) = self.partition_of(parts)? else { return Ok(()) };
        let record: EntryRecord<'_> = decode("an entry of a log", value)?;
        let logged = record.into_logged().ok_or_else(|| unreadable("an entry of a log"))?;
        let position = parts.position().ok_or_else(|| unreadable("an entry's key"))?;
        partition.contents.entries.insert(position, logged);
        Ok(())
    }

    fn applied(&mut self, mut parts: KeyParts<'_>, value: &[u8]) -> Result<(), Unreadable> {
        let Some(partition) = self.partition_of(parts)? else { return Ok(()) };
        let lsn: u64 = decode("a region's progress", value)?;
        let position = parts.position().ok_or_else(|| unreadable("a region's progress"))?;
        let region = parts.number().and_then(|region| usize::try_from(region).ok());
        let logged = partition.contents.entries.get_mut(&position);
        if let Some((logged, region)) = logged.zip(region)
            && let Some(own) = logged.lsns.get_mut(region)
        {
            *own = lsn;
        }
        Ok(())
    }

    /// The partition that a key names by its number; none where it was split, merged or deleted meanwhile.
    fn partition_of(
        &mut self,
        mut parts: KeyParts<'_>,
    ) -> Result<Option<&mut RestoredPartition>, Unreadable> {
        let rid = parts.container().ok_or_else(|| unreadable("a partition's key"))?;
        let number = parts.partition().ok_or_else(|| unreadable("a partition's key"))?;
        let id = PartitionKeyRangeId::from(number);
        let Some(container) = self.container_of(rid) else { return Ok(None) };
        Ok(container.partitions.iter_mut().find(|partition| partition.id == id))
    }

    /// The partition that an effective partition key falls into; none where the container was deleted.
    fn partition_at(
        &mut self,
        rid: [u8; 8],
        key: &EffectivePartitionKey,
    ) -> Result<Option<&mut RestoredPartition>, Unreadable> {
        let Some(container) = self.container_of(rid) else { return Ok(None) };
        let partitions = &mut container.partitions;
        let after = partitions.partition_point(|partition| partition.range.min() <= key);
        let partition = partitions.get_mut(after.saturating_sub(1));
        partition.map(Some).ok_or_else(|| unreadable("a container without partitions"))
    }

    fn container_of(&mut self, rid: [u8; 8]) -> Option<&mut RestoredContainer> {
        let Some(index) = self.containers.get(&rid).copied() else {
            let [database, container] = [&rid[..4], &rid[4..]]
                .map(|half| half.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)));
            let rid = Rid::database(database).container(container);
            let new = rid.filter(|rid| self.state.leftovers.last() != Some(rid));
            self.state.leftovers.extend(new);
            return None;
        };
        self.state.containers.get_mut(index)
    }
}

impl ItemRecord<'_> {
    /// The item as a region has it; `None` where a part of it cannot be what was written.
    pub(super) fn to_item(&self, region: usize) -> Option<Item> {
        let key: PartitionKey = self.key.parse().ok()?;
        Some(Item::stored(
            self.id.into(),
            key,
            EffectivePartitionKey::from_bytes(self.effective_key),
            self.ordinal,
            self.lsns.get(region).copied()?,
            Etag::new(self.etag).ok()?,
            (self.written_at, self.expires_at),
            self.terms,
            self.text,
        ))
    }
}

fn decode<'a, T: Deserialize<'a>>(what: &str, value: &'a [u8]) -> Result<T, Unreadable> {
    postcard::from_bytes(value).map_err(|error| Unreadable(format!("{what} ({error})")))
}

fn unreadable(what: &str) -> Unreadable {
    Unreadable(what.to_owned())
}
