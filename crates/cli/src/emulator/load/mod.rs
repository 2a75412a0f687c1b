//! `sidereal emulator --load`: what an account begins with.
//!
//! `file.rs` makes values of the file's text, or a sentence with the place that is wrong; `apply.rs` writes them to
//! the account, as any client would.

mod apply;
mod file;

use std::fs;
use std::path::Path;

use sidereal_emulator::Emulator;

use crate::failure::{ExitStatus, Failure};
use file::Contents;

/// No file is larger: it is in memory as a whole. More is imported line by line.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Data to load, read before anything is started.
pub(super) fn read(path: &Path) -> Result<Contents, Failure> {
    let unreadable = |error| Failure::file(path, "read", error);
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_FILE_BYTES {
        let sentence = format!(
            "{} is {length} bytes long; at most {MAX_FILE_BYTES} are loaded",
            path.display()
        );
        return Err(Failure::new(ExitStatus::InvalidInput, sentence)
            .with_hint("import large containers with `sidereal item import`"));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    Contents::parse(&text).map_err(|why| in_file(path, why))
}

/// Writes what was read to the account; databases and containers that are there stay as they are.
pub(super) async fn load(
    emulator: &Emulator,
    path: &Path,
    contents: &Contents,
) -> Result<String, Failure> {
    let counts = apply::apply(emulator, contents).await.map_err(|why| in_file(path, why))?;
    Ok(format!("Loaded {}: {counts}.", path.display()))
}

fn in_file(path: &Path, why: String) -> Failure {
    Failure::new(ExitStatus::InvalidInput, format!("{}: {why}", path.display()))
        .with_hint("`sidereal emulator --help` describes the file of --load")
}
