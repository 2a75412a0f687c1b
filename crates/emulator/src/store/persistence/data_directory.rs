//! The data directory: its files, and the sentences about what is wrong with it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{Database, DatabaseError};
use thiserror::Error;

use super::records::FORMAT;
use super::storage::{CACHE_BYTES, LOG_BYTES, Storage};

/// The database.
const DATABASE_FILE: &str = "account.redb";

/// The write-ahead log.
const LOG_FILE: &str = "account.log";

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
        /// The part that cannot be read.
        what: String,
    },
    /// It can be read and not written.
    #[error("{reason}: make it writable, free space, or use another directory")]
    Unwritable {
        /// The cause.
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

impl Storage {
    /// Opens the account of a directory, which is created where it does not exist.
    pub(crate) fn open(directory: &Path) -> Result<Self, DataDirectoryError> {
        let unusable =
            |reason: String| DataDirectoryError::Unusable { path: directory.to_owned(), reason };
        let failed = |error: io::Error| unusable(error.to_string());
        fs::create_dir_all(directory).map_err(failed)?;
        create_database(directory).map_err(|error| unusable(error.to_string()))?;
        // First, because opening it takes the lock that keeps other processes from the log, too.
        let mut builder = Database::builder();
        let opened = builder.set_cache_size(CACHE_BYTES).create(directory.join(DATABASE_FILE));
        let database = opened.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => {
                DataDirectoryError::InUse { path: directory.to_owned() }
            }
            error => unusable(error.to_string()),
        })?;
        let found = Self::found_log(&database, directory)?;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let log = match found {
            None => options.create(true).open(directory.join(LOG_FILE)).map_err(failed)?,
            Some(_) => options.open(directory.join(LOG_FILE)).map_err(|error| {
                DataDirectoryError::Damaged { what: format!("{LOG_FILE} ({error})") }
            })?,
        };
        let log = FileBackend::new(log).map_err(|error| unusable(error.to_string()))?;
        // Before the database says that there is a log.
        sync_directory(directory).map_err(failed)?;
        Self::attach(database, Box::new(log), found, LOG_BYTES)
    }
}

/// Creates the database under another name, and gives it its own when it is whole: redb refuses a file whose
/// creation was cut short, and the directory would stay unusable.
fn create_database(directory: &Path) -> Result<(), redb::Error> {
    let path = directory.join(DATABASE_FILE);
    if path.exists() {
        return Ok(());
    }
    let new = directory.join(format!("{DATABASE_FILE}.{}", uuid::Uuid::new_v4()));
    drop(Database::create(&new)?);
    OpenOptions::new().write(true).open(&new)?.sync_all()?;
    // A link and no rename: it fails where another process was first, rather than taking its database's place.
    // Where the file system has no links the database is created in place.
    let _ = fs::hard_link(&new, path);
    fs::remove_file(new)?;
    Ok(())
}

/// Makes the names of the files and of their directory durable: a sync of a file covers what is in it, and not every
/// file system its name (`fsync(2)`).
#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()?;
    match directory.canonicalize()?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Elsewhere a directory cannot be opened as a file, and the system keeps names by itself.
#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
