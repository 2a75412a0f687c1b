//! The data directory: one redb file that holds an account, and the sentences about what is wrong with it.

use std::fmt;
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};
use serde::Serialize;
use sidereal_protocol::Rid;
use thiserror::Error;

use super::keys::{Key, Kind};
use super::mutation::{LogChange, Mutation, PartitionCommit};
use super::records::{EntryRecord, FORMAT, ItemRecord, RankRecord};
use crate::store::Change;
use crate::store::partition_state::Tombstone;
use crate::store::replication_log::SettledEntry;

/// The file in the data directory.
const FILE: &str = "account.redb";

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

/// What redb may keep of the file in memory. The account has every item in memory anyway, so this is for the
/// upper levels of the tree; redb's own default is a gibibyte.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

type Table<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// The records of an account on disk.
pub(crate) struct Storage {
    database: Database,
}

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DataDirectoryError {
    /// Another process has it open.
    #[error(
        "the data directory {} is in use by another process: stop that one, or give this one a directory of its own",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// It was written in another format.
    #[error(
        "the data directory {} is of format {found}, and this version reads format {FORMAT}: use the version that wrote it, or another directory",
        path.display()
    )]
    OtherFormat {
        /// The directory.
        path: PathBuf,
        /// The format that it is of.
        found: u32,
    },
    /// It belongs to an account with other regions.
    #[error(
        "the data directory holds an account of the regions {kept}, not of {asked}: name those regions, or use another directory"
    )]
    OtherRegions {
        /// The regions of the account that it holds.
        kept: String,
        /// The regions that were asked for.
        asked: String,
    },
    /// Something in it is not what was written.
    #[error(
        "the data directory is damaged: {what} cannot be read; restore it from a copy, or use another directory"
    )]
    Damaged {
        /// What cannot be read.
        what: String,
    },
    /// It can be read and not written.
    #[error("{reason}: make it writable, free space, or use another directory")]
    Unwritable {
        /// What went wrong.
        reason: String,
    },
    /// The system refused to create, read or write it.
    #[error("the data directory {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// Why a commit failed.
#[derive(Debug, Error)]
#[error("the data directory could not be written: {0}")]
pub(super) struct CommitFailure(String);

impl From<redb::Error> for CommitFailure {
    fn from(error: redb::Error) -> Self {
        Self(error.to_string())
    }
}

impl Storage {
    /// Opens the account of a directory, which is created where it does not exist.
    pub(crate) fn open(directory: &Path) -> Result<Self, DataDirectoryError> {
        let unusable =
            |reason: String| DataDirectoryError::Unusable { path: directory.to_owned(), reason };
        std::fs::create_dir_all(directory).map_err(|error| unusable(error.to_string()))?;
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create(directory.join(FILE));
        let database = opened.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => {
                DataDirectoryError::InUse { path: directory.to_owned() }
            }
            error => unusable(error.to_string()),
        })?;
        sync_directory(directory).map_err(|error| unusable(error.to_string()))?;
        Self { database }.checked(directory)
    }

    /// Opens an account on another kind of storage, such as one that loses power.
    pub(crate) fn on_backend(backend: impl StorageBackend) -> Result<Self, DataDirectoryError> {
        let path = PathBuf::new();
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        let database = opened.map_err(|error| DataDirectoryError::Unusable {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        Self { database }.checked(&path)
    }

    /// Checks the format, or writes it where there is nothing yet.
    fn checked(self, directory: &Path) -> Result<Self, DataDirectoryError> {
        let unusable = |error: redb::Error| DataDirectoryError::Unusable {
            path: directory.to_owned(),
            reason: error.to_string(),
        };
        let key = Key::of(Kind::Format);
        let found = self.transact(|table| {
            let found = table.get(key.as_bytes())?.map(|value| value.value().to_vec());
            if found.is_none() {
                insert(table, &key, &FORMAT)?;
            }
            Ok(found)
        });
        match found.map_err(unusable)? {
            None => Ok(self),
            Some(value) => match postcard::from_bytes(&value) {
                Ok(FORMAT) => Ok(self),
                found => Err(DataDirectoryError::OtherFormat {
                    path: directory.to_owned(),
                    found: found.unwrap_or(0),
                }),
            },
        }
    }

    /// Commits groups of mutations, all of them or none.
    pub(super) fn commit(&self, groups: &[Vec<Mutation>]) -> Result<(), CommitFailure> {
        self.transact(|table| groups.iter().flatten().try_for_each(|it| store(table, it)))?;
        Ok(())
    }

    /// Calls `visit` for every record, in the order of the keys.
    pub(super) fn for_each<E: From<redb::Error>>(
        &self,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error: redb::StorageError| E::from(error.into());
        let transaction = self.database.begin_read().map_err(|error| E::from(error.into()))?;
        let table = transaction.open_table(TABLE).map_err(|error| E::from(error.into()))?;
        for record in table.iter().map_err(failed)? {
            let (key, value) = record.map_err(failed)?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }

    fn transact<T>(
        &self,
        change: impl FnOnce(&mut Table<'_>) -> Result<T, redb::Error>,
    ) -> Result<T, redb::Error> {
        // One phase, one `fdatasync`: redb tells a torn commit by its checksums. The price is that a start
        // after a crash reads the whole file, a tenth of a second per 100,000 items.
        let transaction = self.database.begin_write()?;
        let result = change(&mut transaction.open_table(TABLE)?)?;
        transaction.commit()?;
        Ok(result)
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").finish_non_exhaustive()
    }
}

/// Makes the names of the file and of its directory durable: a sync of the file covers what is in it, and not every
/// file system its name (`fsync(2)`).
#[cfg(unix)]
fn sync_directory(directory: &Path) -> std::io::Result<()> {
    std::fs::File::open(directory)?.sync_all()?;
    match directory.canonicalize()?.parent() {
        Some(parent) => std::fs::File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Elsewhere a directory cannot be opened as a file, and the system keeps names by itself.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn store(table: &mut Table<'_>, mutation: &Mutation) -> Result<(), redb::Error> {
    match mutation {
        Mutation::PutAccount(record) => insert(table, &Key::of(Kind::Account), record),
        Mutation::PutNumbers(record) => insert(table, &Key::of(Kind::Numbers), record),
        Mutation::PutDatabase(record) => {
            insert(table, &Key::resource(Kind::Database, record.rid), record)
        }
        Mutation::PutContainer(record) => {
            insert(table, &Key::resource(Kind::Container, record.rid), record)
        }
        Mutation::PutOffer(record) => {
            insert(table, &Key::resource(Kind::Offer, record.rid), &**record)
        }
        Mutation::DeleteOffer(rid) => remove(table, &Key::resource(Kind::Offer, *rid)),
        Mutation::DeleteDatabase(rid) => {
            remove(table, &Key::resource(Kind::Database, *rid))?;
            // The RID of a container begins with that of its database.
            delete_contents(table, *rid)
        }
        Mutation::DeleteContainer(rid) => delete_contents(table, *rid),
        Mutation::Partition(commit) => store_partition(table, commit),
        Mutation::DropPartition { container, partition } => {
            for kind in [Kind::Partition, Kind::Entry, Kind::Applied] {
                remove_prefixed(table, &Key::partition(kind, *container, *partition))?;
            }
            Ok(())
        }
    }
}

/// Deletes a container, or all containers of a database, with what they hold.
fn delete_contents(table: &mut Table<'_>, rid: Rid) -> Result<(), redb::Error> {
    for kind in
        [Kind::Container, Kind::Partition, Kind::Item, Kind::Rank, Kind::Entry, Kind::Applied]
    {
        remove_prefixed(table, &Key::resource(kind, rid))?;
    }
    Ok(())
}

fn store_partition(table: &mut Table<'_>, commit: &PartitionCommit) -> Result<(), redb::Error> {
    let PartitionCommit { container, partition, changes, record } = commit;
    for change in changes {
        match change {
            LogChange::Appended { position, logged } => {
                let key = Key::entry(*container, *partition, *position);
                insert(table, &key, &EntryRecord::of(logged))?;
            }
            LogChange::Applied { position, region, lsn } => {
                insert(table, &Key::applied(*container, *partition, *position, *region), lsn)?;
            }
            LogChange::Settled { settled, multi_write } => {
                remove(table, &Key::entry(*container, *partition, settled.position))?;
                match multi_write {
                    false => settle(table, *container, settled)?,
                    true => {
                        let applied = Key::partition(Kind::Applied, *container, *partition);
                        remove_prefixed(table, &applied.number(settled.position))?;
                        settle_ranked(table, *container, settled)?;
                    }
                }
            }
            LogChange::Truncated { from } => {
                let entries = Key::partition(Kind::Entry, *container, *partition);
                let range =
                    entries.clone().number(*from).as_bytes().to_vec()..entries.prefixed().end;
                table.retain_in::<&[u8], _>(
                    range.start.as_slice()..range.end.as_slice(),
                    |_, _| false,
                )?;
            }
            LogChange::TombstoneDropped(tombstone) => drop_tombstone(table, *container, tombstone)?,
        }
    }
    insert(table, &Key::partition(Kind::Partition, *container, *partition), record)
}

/// Stores what an entry did as the state that every region has.
fn settle(
    table: &mut Table<'_>,
    container: Rid,
    settled: &SettledEntry,
) -> Result<(), redb::Error> {
    for change in &settled.logged.entry.changes {
        match change {
            Change::Put { item } => {
                let key = Key::item(container, item.ordinal);
                insert(table, &key, &ItemRecord::of(item, &[]))?;
            }
            Change::Delete { item } => remove(table, &Key::item(container, item.ordinal))?,
        }
    }
    Ok(())
}

/// The same for a multi-write account: versions of a higher rank stay.
fn settle_ranked(
    table: &mut Table<'_>,
    container: Rid,
    settled: &SettledEntry,
) -> Result<(), redb::Error> {
    let entry = &settled.logged.entry;
    for (change, rank) in entry.changes.iter().zip(&entry.ranks) {
        let key = Key::rank(container, &change.item().name());
        let current = rank_of(table, &key)?;
        if current.is_some_and(|current| current.rank >= *rank) {
            continue;
        }
        if let Some(ordinal) = current.and_then(|current| current.ordinal) {
            remove(table, &Key::item(container, ordinal))?;
        }
        let ordinal = match change {
            Change::Delete { .. } => None,
            Change::Put { item } => {
                let key = Key::item(container, item.ordinal);
                insert(table, &key, &ItemRecord::of(item, &settled.logged.lsns))?;
                Some(item.ordinal)
            }
        };
        insert(table, &key, &RankRecord { rank: *rank, ordinal })?;
    }
    Ok(())
}

fn drop_tombstone(
    table: &mut Table<'_>,
    container: Rid,
    tombstone: &Tombstone,
) -> Result<(), redb::Error> {
    let key = Key::rank(container, &tombstone.name);
    match rank_of(table, &key)? {
        Some(current) if current.rank == tombstone.rank => remove(table, &key),
        _ => Ok(()),
    }
}

fn rank_of(table: &Table<'_>, key: &Key) -> Result<Option<RankRecord>, redb::Error> {
    let value = table.get(key.as_bytes())?;
    // Unreadable is as good as absent: the record is written anew.
    Ok(value.and_then(|value| postcard::from_bytes(value.value()).ok()))
}

fn insert<T: Serialize>(table: &mut Table<'_>, key: &Key, record: &T) -> Result<(), redb::Error> {
    let value = postcard::to_stdvec(record)
        .map_err(|error| redb::Error::Corrupted(format!("a record cannot be encoded: {error}")))?;
    table.insert(key.as_bytes(), value.as_slice())?;
    Ok(())
}

fn remove(table: &mut Table<'_>, key: &Key) -> Result<(), redb::Error> {
    table.remove(key.as_bytes())?;
    Ok(())
}

fn remove_prefixed(table: &mut Table<'_>, prefix: &Key) -> Result<(), redb::Error> {
    let range = prefix.prefixed();
    table.retain_in::<&[u8], _>(range.start.as_slice()..range.end.as_slice(), |_, _| false)?;
    Ok(())
}
