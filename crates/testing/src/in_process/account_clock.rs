//! The account's time on tokio's clock, so that a paused clock moves driver and account together.

use std::time::Duration;

use sidereal_emulator::{Clock, Timestamp};
use tokio::time::Instant;

/// Wall time that passes as tokio's time does, from a fixed moment on.
#[derive(Clone, Copy, Debug)]
pub struct TokioAccountClock {
    started: Instant,
    at: Timestamp,
}

impl TokioAccountClock {
    /// A clock that shows `at` now.
    #[must_use]
    pub fn starting_at(at: Timestamp) -> Self {
        Self { started: Instant::now(), at }
    }
}

impl Clock for TokioAccountClock {
    fn now(&self) -> Timestamp {
        let passed: Duration = self.started.elapsed();
        self.at.after(passed)
    }
}
