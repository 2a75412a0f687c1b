//! Where this user's programs keep what outlives a run.

use std::env;
use std::path::PathBuf;

/// The variable that names the emulator's certificate, where it is not in its usual place.
const CERTIFICATE: &str = "SIDEREAL_EMULATOR_CERTIFICATE";

/// The command's directory.
pub(crate) fn directory() -> Option<PathBuf> {
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("state")))
        // Windows sets neither of the two.
        .or_else(|| variable("LOCALAPPDATA"));
    state.map(|directory| directory.join("sidereal"))
}

/// The certificate of the emulator on this machine.
pub(crate) fn certificate_path() -> Option<PathBuf> {
    variable(CERTIFICATE).or_else(|| Some(directory()?.join("certificate.pem")))
}

fn variable(name: &str) -> Option<PathBuf> {
    // An empty variable counts as unset (XDG Base Directory Specification).
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
