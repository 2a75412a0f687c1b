//! The log of a partition: what happened, in order, one sequence number per atomic step.

use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;

use super::Item;
use super::conflict::Rank;
use crate::clock::Timestamp;

/// One atomic step. All changes of a transactional batch share it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Its number in the region that wrote it.
    pub(crate) lsn: u64,
    /// The region that wrote it.
    pub(crate) origin: usize,
    /// When it was written: a replica applies it so much later as its region lags.
    pub(crate) at: Timestamp,
    pub(crate) changes: Vec<Change>,
    /// Of a multi-write account, the ranks of the changes, one for each.
    pub(crate) ranks: Vec<Rank>,
}

/// What happened to one item.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A version came into being; `replaced` is the one it supersedes.
    Put { item: Arc<Item>, replaced: Option<Arc<Item>> },
    /// The item ceased to exist.
    Delete { item: Arc<Item> },
}

impl Entry {
    /// What of it concerns a part of the key space; its number stays, also where nothing does.
    pub(crate) fn restricted_to(&self, range: &EffectivePartitionKeyRange) -> Self {
        let inside = |change: &Change| range.contains(&change.item().place);
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
            Self::Put { item, .. } | Self::Delete { item } => item,
        }
    }
}
