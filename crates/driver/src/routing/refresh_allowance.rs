//! How often the account may be read, however many operations ask. Pure.

use std::time::{Duration, Instant};

/// The time in which one read is earned: a failing region must not turn its load into reads of the account.
const INTERVAL: Duration = Duration::from_secs(5);

/// A token bucket that holds two reads, kept as the moment at which it is full (GCRA, the leaky bucket as a meter).
///
/// The second read is for operations that wait: a write that was refused because the write region has moved knows
/// that the account is not as it was read, even if that was a moment ago. Whoever asks in passing leaves it alone,
/// so they are an interval apart, and all reads together no more than one more than that.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefreshAllowance {
    full_at: Instant,
}

impl RefreshAllowance {
    /// Two reads, from a moment on.
    pub(super) fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// What is left after a read.
    pub(super) fn after_read(self, now: Instant) -> Self {
        Self { full_at: self.full_at.max(now) + INTERVAL }
    }

    /// When a read may begin that nobody waits for.
    pub(super) fn in_passing(&self) -> Instant {
        self.full_at
    }

    /// When a read may begin that an operation waits for.
    pub(super) fn awaited(&self) -> Instant {
        self.full_at.checked_sub(INTERVAL).unwrap_or(self.full_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn reads_in_passing_are_an_interval_apart() {
        let start = Instant::now();
        let once = RefreshAllowance::full(start).after_read(start);
        assert_eq!(once.in_passing(), start + INTERVAL);
        let late = once.after_read(start + seconds(60));
        assert_eq!(late.in_passing(), start + seconds(60) + INTERVAL);
    }

    #[test]
    fn one_read_is_left_for_those_who_wait_and_then_one_for_each_interval() {
        let start = Instant::now() + seconds(3_600);
        let once = RefreshAllowance::full(start).after_read(start);
        assert!(once.awaited() <= start);
        let twice = once.after_read(start);
        assert_eq!(twice.awaited(), start + INTERVAL);
        assert_eq!(twice.in_passing(), start + 2 * INTERVAL);
        let thrice = twice.after_read(start + INTERVAL);
        assert_eq!(thrice.awaited(), start + 2 * INTERVAL);
    }

    #[test]
    fn an_hour_without_reads_earns_no_more_than_two() {
        let start = Instant::now() + seconds(3_600);
        let later = start + seconds(3_600);
        let once = RefreshAllowance::full(start).after_read(later);
        assert!(once.awaited() <= later);
        assert_eq!(once.after_read(later).awaited(), later + INTERVAL);
    }
}
