//! Outages, as this process sees them: a holder cannot renew its lock while the account does not answer, so locks that expire
//! meanwhile are not taken from their holders until those had time to renew them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long holders have after an outage to renew their locks: longer than their retries pause.
const GRACE_MS: i64 = 2_000;

/// However long an outage is, a lock that has expired for longer is free.
const LONGEST_MS: i64 = 60_000;

/// Whether requests fail, and since when. All times are milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Up,
    /// Requests fail that were sent since then.
    Down { since: i64 },
    /// A request has succeeded, and holders may renew their locks until then.
    Recovering { since: i64, until: i64 },
}

impl State {
    fn failed(self, sent: i64, now: i64) -> Self {
        match self {
            Self::Down { since } => Self::Down { since },
            Self::Recovering { since, until } if now < until => Self::Down { since },
            Self::Up | Self::Recovering { .. } => Self::Down { since: sent },
        }
    }

    fn succeeded(self, now: i64) -> Self {
        match self {
            Self::Down { since } => Self::Recovering { since, until: now.saturating_add(GRACE_MS) },
            Self::Recovering { until, .. } if now >= until => Self::Up,
            other => other,
        }
    }

    /// The time by which the locks of others are judged: it stands still during an outage.
    fn lock_time(self, now: i64) -> i64 {
        match self {
            Self::Down { since } => since.clamp(now.saturating_sub(LONGEST_MS), now),
            Self::Recovering { since, until } if now < until => {
                since.clamp(now.saturating_sub(LONGEST_MS), now)
            }
            Self::Up | Self::Recovering { .. } => now,
        }
    }
}

/// The outage that a process is in, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    /// Whether the state is other than `Up`: a success is then recorded without the mutex.
    is_active: AtomicBool,
    state: Mutex<State>,
}

impl Outages {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request that failed for the account's or the network's reasons.
    pub(crate) fn failed(&self, sent: i64, now: i64) {
        let mut state = self.state();
        *state = state.failed(sent, now);
        // Relaxed here and below: the flag only saves the mutex; a success that misses it is followed by others.
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Records a request that was answered.
    pub(crate) fn succeeded(&self, now: i64) {
        if !self.is_active.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state();
        *state = state.succeeded(now);
        self.is_active.store(*state != State::Up, Ordering::Relaxed);
    }

    /// The time by which the locks of others are judged.
    pub(crate) fn lock_time(&self, now: i64) -> i64 {
        match self.is_active.load(Ordering::Relaxed) {
            true => self.state().lock_time(now),
            false => now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_time_stands_still_until_holders_could_renew() {
        let outages = Outages::default();
        assert_eq!(outages.lock_time(1_000), 1_000);
        outages.failed(1_000, 1_500);
        assert_eq!(outages.lock_time(20_000), 1_000);
        outages.succeeded(20_000);
        assert_eq!(outages.lock_time(21_999), 1_000);
        assert_eq!(outages.lock_time(22_000), 22_000);
        outages.succeeded(22_000);
        outages.failed(30_000, 30_100);
        assert_eq!(outages.lock_time(30_100), 30_000, "another outage");
    }

    #[test]
    fn a_failure_within_the_grace_goes_on_with_the_same_outage() {
        let outages = Outages::default();
        outages.failed(1_000, 1_100);
        outages.succeeded(5_000);
        outages.failed(5_500, 6_000);
        assert_eq!(outages.lock_time(9_000), 1_000);
        outages.succeeded(9_000);
        outages.failed(12_000, 12_000);
        assert_eq!(outages.lock_time(12_500), 12_000, "the grace was over");
    }

    #[test]
    fn a_lock_that_expired_long_ago_is_free_in_any_outage() {
        let outages = Outages::default();
        outages.failed(1_000, 1_100);
        assert_eq!(outages.lock_time(200_000), 140_000);
        outages.failed(300_000, 150_000);
        assert_eq!(outages.lock_time(500), 500, "never later than now");
    }
}
