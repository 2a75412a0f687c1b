//! What an account keeps on disk, and how it gets there.
//!
//! Writes change memory first and put what they changed into a [`CommitQueue`], in the order in which they
//! happened. One commit takes whatever has queued (group commit) and makes it durable with a single
//! `fdatasync`. No response leaves before everything that it could have seen is durable, so a crash takes
//! nothing back that a client knows of.
//!
//! On disk is the state that every region has reached, item by item, and behind it the entries that some
//! region has still to apply. Starting is loading the one and replaying the other.

mod commit_queue;
mod keys;
mod mutation;
mod records;
mod recovery;
mod storage;

pub(crate) use commit_queue::{CommitQueue, Durability};
pub(crate) use mutation::{LogChange, Mutation, PartitionCommit};
pub(crate) use records::{
    AccountRecord, ContainerRecord, DatabaseRecord, NumbersRecord, PartitionRecord, RangeRecord,
};
pub(crate) use recovery::{
    PartitionContents, RestoredContainer, RestoredItem, RestoredPartition, RestoredState,
};
pub use storage::DataDirectoryError;
pub(crate) use storage::Storage;
