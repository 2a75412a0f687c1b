//! The records on disk, in postcard's encoding. A change of any of them, or of an [`Operation`] of the log, is a
//! new [`FORMAT`].
//!
//! [`Operation`]: super::operation::Operation

use serde::{Deserialize, Serialize};
use sidereal_protocol::{Etag, PartitionKeyRangeId, RegionName, Rid};

use crate::clock::Timestamp;
use crate::store::conflict::Rank;
use crate::store::replication_log::LoggedEntry;
use crate::store::{Change, Entry, Item};
use crate::topology::TopologyRecord;

/// The version of everything here.
pub(super) const FORMAT: u32 = 2;

/// The format of these records without a write-ahead log: upgraded when it is opened.
pub(super) const FORMAT_WITHOUT_LOG: u32 = 1;

/// A checkpoint: up to where the database has what went through the write-ahead log, and which frames follow.
///
/// It is written in the transaction that applies them, so that the two never disagree and the log needs no write
/// to be empty again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogRecord {
    /// A random number of the account: its frames are no other account's.
    pub(super) identity: u64,
    /// Counts the checkpoints. Frames carry it, so that those before the last one are told from those after it.
    pub(super) generation: u64,
    /// The number of the last commit that the database has.
    pub(super) sequence: u64,
    /// The length of the log's file.
    pub(super) capacity: u64,
}

/// The account: its regions, and what became of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AccountRecord {
    pub(crate) regions: Vec<RegionName>,
    pub(crate) multi_write: bool,
    pub(crate) topology: TopologyRecord,
}

/// The numbers of the catalog that are not given twice.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NumbersRecord {
    /// The last number given to a database, container or offer.
    pub(crate) last_number: u32,
    /// The next etag's number.
    pub(crate) next_version: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DatabaseRecord {
    pub(crate) rid: Rid,
    pub(crate) id: String,
    pub(crate) etag: Etag,
    pub(crate) created_at: u64,
}

/// A container: its definition and its layout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) rid: Rid,
    pub(crate) created_at: u64,
    /// The definition as JSON, without system properties.
    pub(crate) properties: String,
    pub(crate) etag: Etag,
    pub(crate) changed_at: u64,
    pub(crate) ranges: Vec<RangeRecord>,
    pub(crate) generation: u64,
    pub(crate) next_range: u32,
    /// Retired ranges, and when the split or merge that replaced them completes, in milliseconds.
    pub(crate) gone: Vec<(PartitionKeyRangeId, u64)>,
}

/// A partition range.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RangeRecord {
    pub(crate) number: u32,
    pub(crate) min: Vec<u8>,
    pub(crate) max: Vec<u8>,
    pub(crate) parents: Vec<PartitionKeyRangeId>,
    pub(crate) generation: u64,
}

/// How far a partition's replicas have come.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PartitionRecord {
    /// By region: the log sequence number of its replica.
    pub(crate) lsns: Vec<u64>,
    /// By region, of a multi-write account: how many entries of each region were applied.
    pub(crate) progress: Vec<Vec<u64>>,
    /// By region: the position that it applies next.
    pub(crate) cursors: Vec<u64>,
    /// The position of the next entry.
    pub(crate) end: u64,
    pub(crate) write_override: Option<u32>,
    /// The container's next ordinal and next version, of which no smaller one is free.
    pub(crate) next_ordinal: u64,
    pub(crate) next_version: u64,
}

/// One version of an item; borrowed from where it is encoded or decoded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ItemRecord<'a> {
    pub(super) id: &'a str,
    /// The partition key in its header form.
    pub(super) key: std::borrow::Cow<'a, str>,
    pub(super) effective_key: &'a [u8],
    pub(super) ordinal: u64,
    /// By region, of a multi-write account; elsewhere one for all regions.
    pub(super) lsns: Vec<u64>,
    pub(super) etag: &'a str,
    pub(super) written_at: u64,
    pub(super) expires_at: Option<u64>,
    pub(super) terms: u32,
    /// The document.
    pub(super) text: &'a str,
}

/// The ranks that decide between the versions of an item, and which of them won.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RankRecord {
    pub(super) rank: Rank,
    /// The item's ordinal; none for a tombstone.
    pub(super) ordinal: Option<u64>,
}

/// An entry of the log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EntryRecord<'a> {
    pub(super) lsn: u64,
    pub(super) origin: u32,
    pub(super) at: u64,
    #[serde(borrow)]
    pub(super) changes: Vec<ChangeRecord<'a>>,
    pub(super) ranks: Vec<Rank>,
    pub(super) lsns: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ChangeRecord<'a> {
    #[serde(borrow)]
    Put(ItemRecord<'a>),
    Delete(ItemRecord<'a>),
}

impl<'a> ItemRecord<'a> {
    pub(super) fn of(item: &'a Item, lsns: &[u64]) -> Self {
        let lsns = if lsns.is_empty() { vec![item.lsn] } else { lsns.to_vec() };
        Self {
            id: &item.id,
            key: item.key.to_header().into(),
            effective_key: item.effective_key.as_bytes(),
            ordinal: item.ordinal,
            lsns,
            etag: item.etag.as_str(),
            written_at: item.written_at,
            expires_at: item.expires_at,
            terms: item.terms,
            // The store made the text from a JSON value, so it is UTF-8.
            text: std::str::from_utf8(&item.text).unwrap_or_default(),
        }
    }
}

impl<'a> EntryRecord<'a> {
    pub(super) fn of(logged: &'a LoggedEntry) -> Self {
        let LoggedEntry { entry, lsns } = logged;
        let change = |change: &'a Change| match change {
            Change::Put { item } => ChangeRecord::Put(ItemRecord::of(item, &[])),
            Change::Delete { item } => ChangeRecord::Delete(ItemRecord::of(item, &[])),
        };
        Self {
            lsn: entry.lsn,
            origin: entry.origin as u32,
            at: entry.at.millis(),
            changes: entry.changes.iter().map(change).collect(),
            ranks: entry.ranks.clone(),
            lsns: lsns.clone(),
        }
    }

    /// The entry; `None` where a part of it cannot be what was written.
    pub(super) fn into_logged(self) -> Option<LoggedEntry> {
        let change = |change: ChangeRecord<'_>| {
            Some(match change {
                ChangeRecord::Put(item) => Change::Put { item: item.to_item(0)?.into() },
                ChangeRecord::Delete(item) => Change::Delete { item: item.to_item(0)?.into() },
            })
        };
        let entry = Entry {
            lsn: self.lsn,
            origin: self.origin as usize,
            at: Timestamp::from_millis(self.at),
            changes: self.changes.into_iter().map(change).collect::<Option<_>>()?,
            ranks: self.ranks,
        };
        Some(LoggedEntry { entry: entry.into(), lsns: self.lsns })
    }
}
