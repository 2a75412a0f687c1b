//! The log of a partition: what happened, in order, one sequence number per atomic step.

use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;

use super::Item;
use crate::clock::Timestamp;

/// One atomic step. All changes of a transactional batch share it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) lsn: u64,
    /// When it was written: a replica applies it so much later as its region lags.
    pub(crate) at: Timestamp,
    pub(crate) changes: Vec<Change>,
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
        let inside = |change: &&Change| range.contains(&change.item().place);
        Self { changes: self.changes.iter().filter(inside).cloned().collect(), ..*self }
    }

    /// The ids of the items that it touches.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.changes.iter().map(|change| change.item().id.to_string()).collect()
    }
}

impl Change {
    /// The item that it is about.
    fn item(&self) -> &Item {
        match self {
            Self::Put { item, .. } | Self::Delete { item } => item,
        }
    }
}
