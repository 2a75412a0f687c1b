//! The kills of a run, for the checks and the report.

use std::time::Duration;

/// A process that was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    /// By the name of the process.
    Worker(String),
    Emulator,
}

/// A kill, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kill {
    pub(super) victim: Victim,
    pub(super) at: u64,
    /// When another process was there in its place.
    pub(super) back_at: u64,
    /// How long the start of the emulator took, without the pause before it.
    pub(super) restart: Option<Duration>,
}
