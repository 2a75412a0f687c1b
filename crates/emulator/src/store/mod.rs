//! What the account holds: the catalog of databases and containers, and the partitions with the items.
//!
//! Replicated state machines: a write is an entry in its partition's log, and a replica is the result of
//! applying the log. Nothing here knows HTTP: callers bring parsed values and get items or refusals back.

mod catalog;
mod conflict;
mod container;
mod container_storage;
mod definition;
mod expiry;
mod index;
mod item;
mod key_index;
mod layout;
mod log;
mod partition;
mod partition_state;
mod patch;
pub(crate) mod persistence;
mod replica;
mod replication_log;
mod transaction;
mod unique;

pub(crate) use catalog::{Catalog, Database, Offer};
pub(crate) use container::{Container, Decided, WriteContext};
pub(crate) use definition::Definition;
pub(crate) use expiry::{Expiry, parse_ttl};
pub(crate) use index::{
    IndexDefinition, IndexKey, IndexPolicy, IndexSet, OrderByPath, OrderByRefusal, PathIndex,
};
pub(crate) use item::{Item, ItemDraft, SystemProperties};
pub(crate) use layout::{Layout, RangeLookup};
pub(crate) use log::{Change, Entry};
pub(crate) use partition::{Partition, ReplicaProgress, ReplicaView};
pub(crate) use partition_state::StalenessBound;
pub(crate) use replica::{Position, Replica};
pub(crate) use transaction::{
    ITEM_LIMIT, ItemName, Outcome, PatchOf, Refusal, Rules, Transaction, WriteCondition, Written,
    new_etag,
};
pub(crate) use unique::UniqueKeys;
