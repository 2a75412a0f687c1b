//! The directory of a run, with data and logs, and the port of its emulator.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use fastrand::Rng;

use crate::failure::{ExitStatus, Failure};

/// Below the ports that systems give to connections: one of those could take the emulator's port while it is down.
const PORTS: std::ops::Range<u16> = 15_000..30_000;

/// How many ports are tried.
const TRIES: usize = 100;

/// The directory of a run.
#[derive(Debug)]
pub(super) struct Site {
    directory: PathBuf,
    /// Removed after a run that found nothing wrong.
    is_temporary: bool,
}

impl Site {
    /// A directory that is named, which must be empty, or a temporary one.
    pub(super) fn create(named: Option<&Path>, seed: u64) -> Result<Self, Failure> {
        let directory = named.map_or_else(
            || {
                let unique = format!("sidereal-soak-{seed}-{}", uuid::Uuid::new_v4().simple());
                std::env::temp_dir().join(unique)
            },
            Path::to_path_buf,
        );
        let unwritable = |error| Failure::file(&directory, "written", error);
        fs::create_dir_all(&directory).map_err(unwritable)?;
        if fs::read_dir(&directory).map_err(unwritable)?.next().is_some() {
            let sentence = format!("{} is not empty", directory.display());
            return Err(Failure::new(ExitStatus::Usage, sentence)
                .with_hint("a run begins with an account of its own: name a new directory"));
        }
        // Children may have other working directories in their messages; this one is for people.
        let directory = fs::canonicalize(&directory).map_err(unwritable)?;
        Ok(Self { directory, is_temporary: named.is_none() })
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory of the emulator's data.
    pub(super) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The file with the standard error of a process.
    pub(super) fn log(&self, process: &str) -> PathBuf {
        self.directory.join(format!("{process}.log"))
    }

    /// Removes a temporary directory.
    pub(super) fn remove(self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.directory); // Best effort: the system empties its own.
        }
    }
}

/// A port that is free now, and that no connection is given.
pub(super) fn free_port() -> Result<u16, Failure> {
    let mut rng = Rng::new();
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let found = (0..TRIES).map(|_| rng.u16(PORTS)).find(is_free);
    found.ok_or_else(|| {
        let sentence = format!("no port from {} to {} is free", PORTS.start, PORTS.end);
        Failure::new(ExitStatus::Failed, sentence)
    })
}
