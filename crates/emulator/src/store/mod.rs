//! The data of the account: the catalog of databases and containers, and the partitions with the items.
//!
//! Replicated state machines: a write is an entry in its partition's log, and a replica is the result of
//! applying the log. Nothing here knows HTTP: callers bring parsed values and get items or refusals back.

mod catalog;
mod conflict;
mod container;
mod container_storage;
mod definition;
mod etag;
mod expiry;
mod index;
mod item;
mod item_result;
mod key_index;
mod layout;
mod log;
mod offer;
mod partition;
mod partition_state;
mod patch;
pub(crate) mod persistence;
mod refusal;
mod replica;
mod replication_log;
mod tombstone;
mod transaction;
mod unique;

pub(crate) use catalog::{Catalog, Database};
pub(crate) use container::{Container, Decided, WriteContext};
pub(crate) use definition::Definition;
pub(crate) use etag::new_etag;
pub(crate) use expiry::{Expiry, parse_ttl};
pub(crate) use index::{
    IndexDefinition, IndexKey, IndexPolicy, IndexSet, OrderByPath, OrderByRefusal, PathIndex,
};
pub(crate) use item::{Item, ItemDraft, ItemName, SystemProperties};
pub(crate) use item_result::{ItemResult, Outcome};
pub(crate) use key_index::Position;
pub(crate) use layout::{Layout, RangeLookup};
pub(crate) use log::{Change, Entry};
pub(crate) use offer::Offer;
pub(crate) use partition::{Partition, ReplicaProgress, ReplicaView};
pub(crate) use partition_state::StalenessBound;
pub(crate) use refusal::Refusal;
pub(crate) use replica::Replica;
pub(crate) use transaction::{ITEM_LIMIT, PatchOf, Rules, Transaction, WriteCondition};
pub(crate) use unique::UniqueKeys;
