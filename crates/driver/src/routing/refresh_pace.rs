//! How often the partition ranges of a container are read again while that changes nothing. Pure.

use std::time::{Duration, Instant};

use crate::retry::Backoff;

/// A region that has not finished a split, or a hash that is computed otherwise, makes every response a reason to read the
/// ranges: clients by the thousand would throttle the account's metadata.
const IN_PASSING: Backoff =
    Backoff { initial: Duration::from_millis(100), longest: Duration::from_secs(60), factor: 2.0 };

/// The longest pause for an operation that waits: it can only go on with the new ranges.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The reads of a container's ranges that changed nothing, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RefreshPace {
    unchanged: u32,
    last: Option<Instant>,
    pause: Duration,
}

impl RefreshPace {
    /// After a read. `jitter` is a random number from 0 to 1.
    #[must_use]
    pub(super) fn after(self, has_changed: bool, now: Instant, jitter: f64) -> Self {
        match has_changed {
            true => Self::default(),
            false => Self {
                unchanged: self.unchanged.saturating_add(1),
                last: Some(now),
                pause: IN_PASSING.before(self.unchanged, jitter),
            },
        }
    }

    /// Whether a read that no operation waits for may begin.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| now.saturating_duration_since(last) >= self.pause)
    }

    /// When a read that an operation waits for may begin.
    pub(super) fn awaited(&self) -> Option<Instant> {
        self.last.map(|last| last + self.pause.min(LONGEST_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_change_nothing_pause_up_to_a_minute() {
        let start = Instant::now();
        let mut pace = RefreshPace::default();
        assert!(pace.is_due(start) && pace.awaited().is_none());
        let pauses: Vec<u64> = (0..12)
            .map(|_| {
                pace = pace.after(false, start, 0.0);
                (1..).find(|n| pace.is_due(start + Duration::from_millis(100) * *n)).unwrap().into()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
        assert_eq!(pace.awaited(), Some(start + LONGEST_WAIT));
        assert!(pace.after(true, start, 0.0).is_due(start));
    }
}
