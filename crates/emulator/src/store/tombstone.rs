//! Deleted items of a multi-write account.

use super::conflict::Rank;
use super::item::ItemName;

/// A deleted item of a multi-write account.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub(crate) name: ItemName,
    /// The rank of this delete. The item may have been created and deleted again since.
    pub(crate) rank: Rank,
    /// The position up to which every region has to apply the log before it can be dropped.
    pub(super) droppable_at: u64,
}
