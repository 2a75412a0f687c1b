//! Provisioned throughput: a fixed-window rate limiter per partition, in request units per second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Timestamp;

/// The request units that a partition has spent in the current second (the window). One atomic word, so that no
/// request waits for another: the second in the upper half, hundredths of request units in the lower.
#[derive(Debug, Default)]
pub(crate) struct Budget(AtomicU64);

const HUNDREDTHS: f64 = 100.0;

impl Budget {
    /// Asks whether a request may start: refused once the second's units are spent, with the time
    /// until the next second. A request's own cost is known only after it ran, so the last one of a
    /// second may overdraw.
    pub(crate) fn admit(&self, now: Timestamp, units_per_second: f64) -> Result<(), Duration> {
        // Relaxed, here and below: the word carries all of its state, and guards no other memory.
        let (second, spent) = unpack(self.0.load(Ordering::Relaxed));
        let current = second_of(now);
        if second == current && f64::from(spent) >= units_per_second * HUNDREDTHS {
            return Err(Duration::from_millis(1000 - now.millis() % 1000));
        }
        Ok(())
    }

    /// Deducts a request's charge.
    pub(crate) fn spend(&self, now: Timestamp, units: f64) {
        let current = second_of(now);
        let cost = (units * HUNDREDTHS).round() as u32;
        let add = |word| {
            let (second, spent) = unpack(word);
            let spent = if second == current { spent.saturating_add(cost) } else { cost };
            Some(pack(current, spent))
        };
        // The closure always has a next value, so the update cannot fail.
        // Relaxed: second and amount are one word, so the update is atomic by itself and orders nothing else.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

fn second_of(now: Timestamp) -> u32 {
    // Wraps after 136 years; equal seconds are all that is asked.
    (now.seconds() % u64::from(u32::MAX)) as u32
}

fn pack(second: u32, spent: u32) -> u64 {
    u64::from(second) << 32 | u64::from(spent)
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_second_refuses_until_the_next_one() {
        let budget = Budget::default();
        let now = Timestamp::from_millis(5_250);
        assert_eq!(budget.admit(now, 10.0), Ok(()));
        budget.spend(now, 12.5);
        assert_eq!(budget.admit(now, 10.0), Err(Duration::from_millis(750)));
        assert_eq!(budget.admit(Timestamp::from_millis(6_000), 10.0), Ok(()));
    }
}
