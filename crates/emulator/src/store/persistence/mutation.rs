//! Changes of a write, as values: encoded and stored by the thread that commits, not under the lock of the write.

use std::sync::Arc;

use sidereal_protocol::Rid;

use super::records::{
    AccountRecord, ContainerRecord, DatabaseRecord, NumbersRecord, PartitionRecord,
};
use crate::store::Offer;
use crate::store::replication_log::{LoggedEntry, SettledEntry};
use crate::store::tombstone::Tombstone;

/// One change of what is on disk.
#[derive(Debug)]
pub(crate) enum Mutation {
    PutAccount(AccountRecord),
    PutNumbers(NumbersRecord),
    PutDatabase(DatabaseRecord),
    /// With every container, item and offer in it.
    DeleteDatabase(Rid),
    PutContainer(ContainerRecord),
    /// With everything in it.
    DeleteContainer(Rid),
    PutOffer(Arc<Offer>),
    DeleteOffer(Rid),
    Partition(PartitionCommit),
    /// A split or merge replaced it; its items belong to the container and stay.
    DropPartition {
        container: Rid,
        partition: u32,
    },
}

/// Changes of the log of one partition, and where its replicas are after them.
#[derive(Debug)]
pub(crate) struct PartitionCommit {
    pub(crate) container: Rid,
    pub(crate) partition: u32,
    pub(crate) changes: Vec<LogChange>,
    pub(crate) record: PartitionRecord,
}

/// One change of a partition's log.
#[derive(Clone, Debug)]
pub(crate) enum LogChange {
    /// An entry was written that some region has still to apply.
    Appended { position: u64, logged: LoggedEntry },
    /// Of a multi-write account: a region applied an entry, under this number of its replica.
    Applied { position: u64, region: usize, lsn: u64 },
    /// Every region has applied an entry.
    Settled { settled: SettledEntry, multi_write: bool },
    /// A forced failover dropped the entries from a position on.
    Truncated { from: u64 },
    /// Of a multi-write account: no version of a deleted item can arrive any more.
    TombstoneDropped(Tombstone),
}
