//! A disk that loses power: of what was written since the last sync, a random part is there afterwards, in
//! whole sectors. It holds the two files of a data directory, so that they lose power in the same moment.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;
use sidereal_emulator::{Account, AccountOptions, DataDirectoryError};

/// The unit that a disk writes at once.
const SECTOR: usize = 512;

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    database: FileContents,
    log: FileContents,
    /// Actions until the power goes; `None` while it stays.
    left: Option<u32>,
}

#[derive(Clone, Debug, Default)]
struct FileContents {
    /// The contents that a reader sees.
    current: Vec<u8>,
    /// The contents that survive a loss of power.
    synced: Vec<u8>,
    /// The writes since the last sync.
    unsynced: Vec<Action>,
    /// How often it was synced.
    syncs: u32,
    /// Whether the next sync fails, and only that.
    sync_fails: bool,
    /// Whether there is no room for it to grow.
    full: bool,
}

#[derive(Clone, Debug)]
enum Action {
    Write(usize, Vec<u8>),
    SetLength(usize),
}

/// One of the two files.
#[derive(Clone, Debug)]
struct DiskFile {
    disk: Disk,
    of: fn(&mut Contents) -> &mut FileContents,
}

impl Disk {
    /// Opens the account on it, with a write-ahead log of so many bytes if there is none yet.
    pub(super) fn open(
        &self,
        options: AccountOptions,
        log_bytes: usize,
    ) -> Result<Account, DataDirectoryError> {
        let file = |of| DiskFile { disk: self.clone(), of };
        Account::open_on(options, file(|it| &mut it.database), file(|it| &mut it.log), log_bytes)
    }

    /// Lets the power go after so many more actions.
    pub(super) fn fail_after(&self, actions: u32) {
        self.lock().left = Some(actions);
    }

    /// Lets the next sync of the log fail; those after it succeed, as they do on Linux.
    pub(super) fn fail_next_sync_of_log(&self) {
        self.lock().log.sync_fails = true;
    }

    /// How often the log was synced.
    pub(super) fn syncs_of_log(&self) -> u32 {
        self.lock().log.syncs
    }

    /// Takes the room that the database has to grow, or gives it back.
    pub(super) fn set_full_for_database(&self, full: bool) {
        self.lock().database.full = full;
    }

    /// The surviving contents of the log.
    pub(super) fn set_full_for_log(&self, full: bool) {
        self.lock().log.full = full;
    }

    /// The disk as it is found after the power went: `keep` decides on each length, and on each sector that was
    /// written since the last sync.
    pub(super) fn after_power_loss(&self, mut keep: impl FnMut() -> bool) -> Self {
        let mut contents = self.lock();
        // A handle of the disk cannot reach it any more.
        contents.left = Some(0);
        let database = contents.database.after_power_loss(&mut keep);
        let log = contents.log.after_power_loss(&mut keep);
        Self(Arc::new(Mutex::new(Contents { database, log, ..Contents::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap()
    }
}

impl FileContents {
    fn after_power_loss(&self, keep: &mut impl FnMut() -> bool) -> Self {
        let mut found = self.synced.clone();
        for action in &self.unsynced {
            match action {
                Action::SetLength(length) if keep() => found.resize(*length, 0),
                Action::SetLength(_) => {}
                Action::Write(offset, data) => {
                    for (index, sector) in data.chunks(SECTOR).enumerate() {
                        let start = offset + index * SECTOR;
                        // Beyond an end that was not kept there is nothing to write to.
                        if keep() && start + sector.len() <= found.len() {
                            found[start..start + sector.len()].copy_from_slice(sector);
                        }
                    }
                }
            }
        }
        Self { current: found.clone(), synced: found, ..Self::default() }
    }
}

impl DiskFile {
    fn read<T>(&self, read: impl FnOnce(&FileContents) -> T) -> T {
        read((self.of)(&mut self.disk.lock()))
    }

    /// Does something that does not happen once the power is gone.
    fn act(&self, act: impl FnOnce(&mut FileContents) -> io::Result<()>) -> io::Result<()> {
        let mut contents = self.disk.lock();
        match &mut contents.left {
            None => {}
            Some(0) => return Err(io::Error::other("the power is gone")),
            Some(left) => *left -= 1,
        }
        act((self.of)(&mut contents))
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.read(|file| file.current.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.read(|file| {
            let part = file.current.get(start..start + out.len());
            out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        self.act(|file| {
            if file.full && length > file.current.len() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            file.current.resize(length, 0);
            file.unsynced.push(Action::SetLength(length));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.act(|file| {
            file.syncs += 1;
            if std::mem::take(&mut file.sync_fails) {
                return Err(io::Error::other("an I/O error"));
            }
            file.synced.clone_from(&file.current);
            file.unsynced.clear();
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        self.act(|file| {
            let part = file.current.get_mut(start..start + data.len());
            part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            file.unsynced.push(Action::Write(start, data.to_vec()));
            Ok(())
        })
    }
}
