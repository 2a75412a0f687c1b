//! The records of an account on disk: a redb database, and before it a write-ahead log.
//!
//! A commit is a frame of the log and one `fdatasync`. A commit of redb alone writes every page on the path to
//! what it changed, eight to eleven of them, so it is kept for checkpoints: one transaction that applies the log
//! and says that the log is empty. Starting is a checkpoint of whatever the log holds.

use std::fmt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableError};
use serde::Deserialize;
use thiserror::Error;

use super::data_directory::DataDirectoryError;
use super::frame::LogDamage;
use super::keys::{Key, Kind};
use super::mutation::Mutation;
use super::operation::Operations;
use super::records::{FORMAT, FORMAT_WITHOUT_LOG, LogRecord};
use super::table::{Overlay, TABLE};
use super::write_ahead_log::{Appended, WriteAheadLog};

/// The part of the file that redb may keep in memory. The account has every item in memory anyway, so this is for the
/// upper levels of the tree; redb's own default is a gibibyte.
pub(super) const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// The size of the log's file. A checkpoint is due when half of it is used, so that commits have the other half
/// until somebody gets round to it.
///
/// It bounds what a write waits for behind a checkpoint, and the replay at the next start.
pub(super) const LOG_BYTES: usize = 4 * 1024 * 1024;

/// The records of an account on disk.
pub(crate) struct Storage {
    database: Database,
    log: WriteAheadLog,
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

impl From<std::io::Error> for CommitFailure {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the write-ahead log: {error}"))
    }
}

impl From<postcard::Error> for CommitFailure {
    fn from(error: postcard::Error) -> Self {
        Self(format!("a record cannot be encoded or decoded: {error}"))
    }
}

impl From<LogDamage> for CommitFailure {
    fn from(damage: LogDamage) -> Self {
        Self(format!("{damage} cannot be read"))
    }
}

impl Storage {
    /// Opens an account on other kinds of storage, such as those that lose power.
    pub(crate) fn on_backends(
        database: impl StorageBackend,
        log: impl StorageBackend,
        log_bytes: usize,
    ) -> Result<Self, DataDirectoryError> {
        let path = PathBuf::new();
        let opened = Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(database);
        let database = opened.map_err(|error| DataDirectoryError::Unusable {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let found = Self::found_log(&database, &path)?;
        Self::attach(database, Box::new(log), found, log_bytes)
    }

    /// The database's record of its log; `None` where it is new, or of a format that had no log.
    pub(super) fn found_log(
        database: &Database,
        directory: &Path,
    ) -> Result<Option<LogRecord>, DataDirectoryError> {
        let unusable = |error: redb::Error| DataDirectoryError::Unusable {
            path: directory.to_owned(),
            reason: error.to_string(),
        };
        let [format, log] = [Kind::Format, Kind::Log].map(|kind| value_of(database, kind));
        match format.map_err(unusable)?.map(|value| decode(&value)) {
            None | Some(Some(FORMAT_WITHOUT_LOG)) => Ok(None),
            Some(Some(FORMAT)) => match log.map_err(unusable)?.and_then(|value| decode(&value)) {
                Some(record) => Ok(Some(record)),
                None => Err(DataDirectoryError::Damaged { what: "the last checkpoint".to_owned() }),
            },
            Some(found) => Err(DataDirectoryError::OtherFormat {
                path: directory.to_owned(),
                found: found.unwrap_or(0),
            }),
        }
    }

    /// Puts the log before the database: a new one, or the one that was found, with what it still holds.
    pub(super) fn attach(
        database: Database,
        file: Box<dyn StorageBackend>,
        found: Option<LogRecord>,
        log_bytes: usize,
    ) -> Result<Self, DataDirectoryError> {
        match found {
            None => Self::with_new_log(database, file, log_bytes)
                .map_err(|failure| DataDirectoryError::Unwritable { reason: failure.to_string() }),
            Some(record) => Self::with_log(database, file, record),
        }
    }

    fn with_new_log(
        database: Database,
        file: Box<dyn StorageBackend>,
        log_bytes: usize,
    ) -> Result<Self, CommitFailure> {
        WriteAheadLog::allocate(&*file, log_bytes)?;
        let (identity, _) = uuid::Uuid::new_v4().as_u64_pair();
        let record = LogRecord { identity, generation: 1, sequence: 0, capacity: log_bytes as u64 };
        let storage = Self { database, log: WriteAheadLog::new(file, record) };
        // Only now: a start that finds this record may rely on a log that is whole.
        storage.transact(|table| {
            table.put(Key::of(Kind::Format).into_bytes(), &FORMAT)?;
            Ok(table.put(Key::of(Kind::Log).into_bytes(), &record)?)
        })?;
        Ok(storage)
    }

    fn with_log(
        database: Database,
        file: Box<dyn StorageBackend>,
        record: LogRecord,
    ) -> Result<Self, DataDirectoryError> {
        let damaged = |what: String| DataDirectoryError::Damaged { what };
        let length =
            file.len().map_err(|error| damaged(format!("the write-ahead log ({error})")))?;
        if length != record.capacity {
            let what = format!("the write-ahead log, of which {length} bytes are left,");
            return Err(damaged(what));
        }
        let mut storage = Self { database, log: WriteAheadLog::new(file, record) };
        let contents = storage.log.whole_file();
        let contents =
            contents.map_err(|error| damaged(format!("the write-ahead log ({error})")))?;
        let payloads =
            storage.log.replay(&contents).map_err(|damage| damaged(damage.to_string()))?;
        // Also where there is nothing to apply: a torn frame may be there, and the frames of a generation are
        // those of one process.
        let applied = storage.apply_all(&payloads);
        applied
            .map_err(|failure| DataDirectoryError::Unwritable { reason: failure.to_string() })?;
        Ok(storage)
    }

    /// Commits groups of mutations, all of them or none.
    pub(super) fn commit(&mut self, groups: &[Vec<Mutation>]) -> Result<(), CommitFailure> {
        let operations = Operations::of(groups)?;
        if self.log.append(operations.as_bytes())? == Appended::Durable {
            return Ok(());
        }
        // What does not fit is its own checkpoint, with the rest of the log: one transaction, durable too.
        self.apply_log_and(Some(operations.as_bytes()))
    }

    /// Whether the log should be applied soon.
    pub(super) fn checkpoint_is_due(&self) -> bool {
        self.log.is_half_full()
    }

    /// Applies the log to the database, and empties it.
    pub(super) fn checkpoint(&mut self) -> Result<(), CommitFailure> {
        if self.log.is_empty() { Ok(()) } else { self.apply_log_and(None) }
    }

    fn apply_log_and(&mut self, commit: Option<&[u8]>) -> Result<(), CommitFailure> {
        let contents = self.log.frames()?;
        let mut payloads = self.log.replay(&contents)?;
        self.log.check_count(payloads.len())?;
        payloads.extend(commit);
        self.apply_all(&payloads)
    }

    /// Applies commits, and says that the log is empty after them.
    fn apply_all(&mut self, payloads: &[&[u8]]) -> Result<(), CommitFailure> {
        let checkpoint = self.log.checkpoint_after(payloads.len());
        self.transact(|table| {
            for payload in payloads {
                Operations::for_each::<CommitFailure>(payload, |it| Ok(table.apply(it)?))?;
            }
            Ok(table.put(Key::of(Kind::Log).into_bytes(), &checkpoint)?)
        })?;
        self.log.reset(checkpoint);
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

    fn transact<'a>(
        &self,
        change: impl FnOnce(&mut Overlay<'a, '_, '_>) -> Result<(), CommitFailure>,
    ) -> Result<(), CommitFailure> {
        let failed = |error: redb::Error| CommitFailure::from(error);
        // With quick repair a transaction commits in two phases and stores which pages are free. A start after a
        // crash would have to read the whole file otherwise, a tenth of a second per 100,000 items; nobody waits
        // for a second `fdatasync` here.
        let mut transaction = self.database.begin_write().map_err(|error| failed(error.into()))?;
        transaction.set_quick_repair(true);
        {
            let mut table = transaction.open_table(TABLE).map_err(|error| failed(error.into()))?;
            let mut overlay = Overlay::new(&mut table);
            change(&mut overlay)?;
            overlay.flush()?;
        }
        transaction.commit().map_err(|error| failed(error.into()))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").finish_non_exhaustive()
    }
}

/// The record of which there is one; none in a new database.
fn value_of(database: &Database, kind: Kind) -> Result<Option<Vec<u8>>, redb::Error> {
    let table = match database.begin_read()?.open_table(TABLE) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        table => table?,
    };
    let value = table.get(Key::of(kind).as_bytes())?;
    Ok(value.map(|value| value.value().to_vec()))
}

fn decode<'a, T: Deserialize<'a>>(value: &'a [u8]) -> Option<T> {
    postcard::from_bytes(value).ok()
}
