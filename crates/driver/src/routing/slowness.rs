//! How often a partition is slower in its region than another region would have been.
//!
//! Two signs count as one failure of the partition there: so many slow requests in a row, and a share of slow ones among
//! many requests (a gray failure: some requests hang, the others are served in time).

use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

/// Of the requests in time, one in this many is counted, so that requests on several cores seldom contend for the count.
const SAMPLE: u32 = 16;

/// Fewer sampled requests than this say nothing of a share.
const MIN_SAMPLED: u32 = 16;

/// With so many sampled requests, what was counted is forgotten by half: a share of long ago says nothing of now.
const MAX_SAMPLED: u32 = 64;

/// The share of slow requests, in percent, that counts as a failure. One in a hundred is slower than the 99th percentile
/// by definition.
const GRAY_PERCENT: u32 = 5;

/// Counts of slow requests among the reads, or the writes, of one partition.
#[derive(Debug, Default)]
pub(crate) struct Slowness {
    in_a_row: AtomicU32,
    slow: AtomicU32,
    sampled: AtomicU32,
}

impl Slowness {
    /// Notes a slow request. Says whether it is the last of `threshold` in a row, or makes the share one too large; then
    /// counting starts over.
    pub(crate) fn slow(&self, threshold: u32) -> bool {
        // Relaxed, here and below: counts by themselves. Exactly one thread brings this one to the number, and resets it.
        // Relaxed, here and below: each counter is a statistic by itself. A count that is lost between two threads
        // delays the verdict by one request.
        let in_a_row = self.in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let slow = self.slow.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let sampled = self.sampled.load(Ordering::Relaxed);
        let is_gray = sampled >= MIN_SAMPLED && is_gray(slow, sampled);
        let is_failure = in_a_row == threshold.max(1) || is_gray;
        if is_failure {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        if is_gray {
            self.slow.store(0, Ordering::Relaxed);
            self.sampled.store(0, Ordering::Relaxed);
        } else if sampled >= MAX_SAMPLED {
            self.slow.store(slow / 2, Ordering::Relaxed);
            self.sampled.store(sampled / 2, Ordering::Relaxed);
        }
        is_failure
    }

    /// Whether it matters that a request was answered in time: few do, so that most cost a load.
    pub(crate) fn heeds_in_time(&self, activity_id: Uuid) -> bool {
        is_sampled(activity_id) || self.in_a_row.load(Ordering::Relaxed) != 0
    }

    /// Notes a request that was answered in time. Its random id decides whether it is counted.
    pub(crate) fn in_time(&self, activity_id: Uuid) {
        if self.in_a_row.load(Ordering::Relaxed) != 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
        }
        if is_sampled(activity_id) {
            let sampled = self.sampled.load(Ordering::Relaxed);
            // Without slow ones the count need not grow.
            if sampled < MAX_SAMPLED {
                self.sampled.store(sampled + 1, Ordering::Relaxed);
            }
        }
    }
}

fn is_sampled(activity_id: Uuid) -> bool {
    // The low bits of a version 4 UUID are random; no random number is drawn for it.
    (activity_id.as_u128() as u32).is_multiple_of(SAMPLE)
}

/// Whether the share of slow requests is a failure.
fn is_gray(slow: u32, sampled: u32) -> bool {
    let all = sampled.saturating_mul(SAMPLE).saturating_add(slow);
    slow.saturating_mul(100) >= all.saturating_mul(GRAY_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids as the requests of a driver have them.
    fn id(number: u32) -> Uuid {
        Uuid::from_u128(number.into())
    }

    /// The failures among a thousand requests of which one in `n` is slow.
    fn failures_of_a_thousand(one_in: u32) -> usize {
        let slowness = Slowness::default();
        let slow = |number: &u32| match number % one_in {
            0 => slowness.slow(5),
            _ => {
                slowness.in_time(id(*number));
                false
            }
        };
        (1..=1_000).filter(slow).count()
    }

    #[test]
    fn slow_requests_in_a_row_are_a_failure_unless_one_is_in_time() {
        let slowness = Slowness::default();
        let failures: Vec<bool> = (0..10).map(|_| slowness.slow(5)).collect();
        assert_eq!(failures.iter().filter(|it| **it).count(), 2);
        (0..4).for_each(|_| assert!(!slowness.slow(5)));
        slowness.in_time(id(1));
        (0..4).for_each(|_| assert!(!slowness.slow(5)));
        assert!(slowness.slow(5));
    }

    #[test]
    fn a_tenth_of_slow_requests_is_a_failure_again_and_again() {
        assert!((2..=4).contains(&failures_of_a_thousand(10)));
    }

    #[test]
    fn a_few_slow_requests_are_none() {
        for one_in in [33, 50, 100] {
            assert_eq!(failures_of_a_thousand(one_in), 0, "one in {one_in}");
        }
    }
}
