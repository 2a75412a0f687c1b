//! How often the account may be read, however many operations ask. Pure.

use std::time::{Duration, Instant};

use crate::retry::Backoff;

/// The time in which one read is earned: a failing region must not turn its load into reads of the account.
const INTERVAL: Duration = Duration::from_secs(5);

/// A token bucket that holds two reads, kept as the moment at which it is full (GCRA, the leaky bucket as a meter).
///
/// The second read is for operations that wait: a write that was refused because the write region has moved knows
/// that the account is not as it was read, even if that was a moment ago. A request that does not wait leaves it alone,
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

    /// The allowance after a read.
    pub(super) fn after_read(self, now: Instant) -> Self {
        Self { full_at: self.full_at.max(now) + INTERVAL }
    }

    /// The earliest start of a read without waiters.
    pub(super) fn in_passing(&self) -> Instant {
        self.full_at
    }

    /// When a read may begin that an operation waits for.
    pub(super) fn awaited(&self) -> Instant {
        self.full_at.checked_sub(INTERVAL).unwrap_or(self.full_at)
    }
}

/// Reads while writes wait for another write region: at once, then with exponential back-off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutageReads {
    number: u32,
    last: Option<Instant>,
}

/// A region that is lost is left within seconds of the service's naming another one.
const OUTAGE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(500), longest: Duration::from_secs(2), factor: 2.0 };

impl OutageReads {
    /// The schedule after a read.
    pub(super) fn after_read(self, now: Instant) -> Self {
        Self { number: self.number.saturating_add(1), last: Some(now) }
    }

    /// When the next read is due; `jitter` is a random number from 0 to 1.
    pub(super) fn due(&self, now: Instant, jitter: f64) -> Instant {
        let (Some(last), Some(before)) = (self.last, self.number.checked_sub(1)) else {
            return now;
        };
        last + OUTAGE_BACKOFF.before(before, jitter)
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
    fn reads_of_an_outage_are_made_at_once_and_then_with_back_off() {
        let start = Instant::now();
        let mut reads = OutageReads::default();
        assert_eq!(reads.due(start, 0.5), start);
        let pauses: Vec<u128> = (0..5)
            .map(|_| {
                reads = reads.after_read(start);
                (reads.due(start, 0.0) - start).as_millis()
            })
            .collect();
        assert_eq!(pauses, [500, 1_000, 2_000, 2_000, 2_000]);
        assert!(reads.due(start, 1.0) < reads.due(start, 0.0), "jitter");
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
