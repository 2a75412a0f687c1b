//! A disk that loses power: of what was written since the last sync, a random part is there afterwards, in
//! whole sectors.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

/// What a disk writes at once.
const SECTOR: usize = 512;

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Contents>>);

#[derive(Debug, Default)]
struct Contents {
    /// What a reader sees.
    current: Vec<u8>,
    /// What is there whatever happens.
    synced: Vec<u8>,
    /// What was done since the last sync.
    unsynced: Vec<Action>,
    /// Actions until the power goes; `None` while it stays.
    left: Option<u32>,
}

#[derive(Clone, Debug)]
enum Action {
    Write(usize, Vec<u8>),
    SetLength(usize),
}

impl Disk {
    /// Lets the power go after so many more actions.
    pub(super) fn fail_after(&self, actions: u32) {
        self.0.lock().unwrap().left = Some(actions);
    }

    /// The disk as it is found after the power went: `keep` decides on each length, and on each sector that was
    /// written since the last sync.
    pub(super) fn after_power_loss(&self, mut keep: impl FnMut() -> bool) -> Self {
        let mut contents = self.0.lock().unwrap();
        // Whoever still has the disk cannot reach it any more.
        contents.left = Some(0);
        let mut found = contents.synced.clone();
        for action in &contents.unsynced {
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
        let contents = Contents { current: found.clone(), synced: found, ..Contents::default() };
        Self(Arc::new(Mutex::new(contents)))
    }
}

impl Contents {
    fn act(&mut self) -> io::Result<()> {
        match &mut self.left {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.0.lock().unwrap();
        let start = usize::try_from(offset).unwrap();
        let part = contents.current.get(start..start + out.len());
        out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        contents.act()?;
        let length = usize::try_from(length).unwrap();
        contents.current.resize(length, 0);
        contents.unsynced.push(Action::SetLength(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        contents.act()?;
        contents.synced = contents.current.clone();
        contents.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut contents = self.0.lock().unwrap();
        contents.act()?;
        let start = usize::try_from(offset).unwrap();
        let part = contents.current.get_mut(start..start + data.len());
        part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        contents.unsynced.push(Action::Write(start, data.to_vec()));
        Ok(())
    }
}
