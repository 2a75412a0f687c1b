//! The log of a partition: what happened, in order, one sequence number per atomic step.

use std::sync::Arc;

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
    /// The ids of the items that it touches.
    pub(crate) fn ids(&self) -> Vec<String> {
        let id = |change: &Change| match change {
            Change::Put { item, .. } | Change::Delete { item } => item.id.to_string(),
        };
        self.changes.iter().map(id).collect()
    }
}
