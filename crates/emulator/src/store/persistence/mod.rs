//! The data of an account on disk, and how it gets there.
//!
//! Writes change memory first and put what they changed into a [`CommitQueue`], in the order in which they
//! happened. One commit takes whatever has queued (group commit), appends it to a write-ahead log and makes it
//! durable with a single `fdatasync`. No response leaves before everything that it could have seen is durable, so
//! a crash takes nothing back that a client knows of. From time to time a checkpoint applies the log to a redb
//! database and begins it again.
//!
//! In the database is the state that every region has reached, item by item, and behind it the entries that some
//! region has still to apply. Starting is a checkpoint, loading the one and replaying the other.

mod commit_queue;
mod data_directory;
mod frame;
mod keys;
mod mutation;
mod operation;
mod records;
mod recovery;
mod storage;
mod table;
mod write_ahead_log;

pub(crate) use commit_queue::{CommitQueue, Durability};
pub use data_directory::DataDirectoryError;
pub(crate) use mutation::{LogChange, Mutation, PartitionCommit};
pub(crate) use records::{
    AccountRecord, ContainerRecord, DatabaseRecord, NumbersRecord, PartitionRecord, RangeRecord,
};
pub(crate) use recovery::{
    PartitionContents, RestoredContainer, RestoredItem, RestoredPartition, RestoredState,
};
pub(crate) use storage::Storage;
