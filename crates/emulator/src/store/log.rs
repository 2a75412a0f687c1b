//! The log of a partition: what happened, in order, one sequence number per atomic step.

use std::sync::Arc;

use super::Item;

/// One atomic step. All changes of a transactional batch share it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) lsn: u64,
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
