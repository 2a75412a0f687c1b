//! The log of a partition: entries in order, each an atomic step with its log sequence number (LSN).

use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;

use super::Item;
use super::conflict::Rank;
use crate::clock::Timestamp;

/// One atomic step. All changes of a transactional batch share it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its log sequence number in the region that wrote it.
    pub(crate) lsn: u64,
    /// The region that wrote it.
    pub(crate) origin: usize,
    /// When it was written. A replica applies it when its region's replication delay has passed.
    pub(crate) at: Timestamp,
    pub(crate) changes: Vec<Change>,
    /// Of a multi-write account, the ranks of the changes, one for each.
    pub(crate) ranks: Vec<Rank>,
}

/// A change of one item.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A version was written; it supersedes the one of the same ordinal.
    Put { item: Arc<Item> },
    /// The item was deleted.
    Delete { item: Arc<Item> },
}

impl Entry {
    /// The part of it that concerns a range of the key space. Its number stays, also where nothing does: the
    /// halves of a split have no gaps in their logs.
    pub(crate) fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let inside = |change: &Change| range.contains(&change.item().effective_key);
        let kept = self.changes.iter().zip(&self.ranks).filter(|(change, _)| inside(change));
        Self {
            changes: self.changes.iter().filter(|change| inside(change)).cloned().collect(),
            ranks: kept.map(|(_, rank)| *rank).collect(),
            ..*self
        }
    }

    /// The ids of the items that it touches.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.changes.iter().map(|change| change.item().id.to_string()).collect()
    }
}

impl Change {
    /// The item that it is about.
    pub(crate) fn item(&self) -> &Item {
        match self {
            Self::Put { item } | Self::Delete { item } => item,
        }
    }
}
