//! The time that locks and messages are judged by.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sidereal::driver::system::Clock;

/// A larger difference from the service's clock is corrected as soon as it is certain.
const TOLERATED_SKEW_MS: i64 = 2_000;

/// A smaller one is corrected once it is known to within this. The service's `Date` has a resolution of one second, so that
/// takes some dozens of responses.
const KNOWN_TO_WITHIN_MS: i64 = 250;

/// Samples that contradict each other by less are those of clocks that run at different rates.
const DRIFT_MS: i64 = 100;

/// Time stands still for as long as this instead of stepping back. A machine whose clock was set back by more would
/// otherwise hold its locks for as long.
const LONGEST_HOLD_MS: i64 = 60_000;

/// Wall time, ids and the order of what one process enqueues.
#[derive(Clone, Debug)]
pub(crate) struct ProviderClock {
    clock: Clock,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    sequence: AtomicU64,
    /// The correction of the machine's time.
    correction: AtomicI64,
    /// The latest time that was told: a correction never steps back.
    latest: AtomicI64,
    skew: Mutex<Option<Skew>>,
}

/// The offset of the service's clock from the machine's, as an interval in milliseconds: the intersection of those
/// that single responses allow (as Marzullo's algorithm does for NTP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Skew {
    least: i64,
    most: i64,
}

impl Skew {
    /// The interval that one response allows: its `Date`, a whole second, was read between the sending and the receiving.
    fn of(sent: i64, received: i64, date: i64) -> Self {
        Self { least: date - received, most: date + 999 - sent }
    }

    /// The intersection of two intervals. Clocks that drift move the interval; if they contradict each other by more, one of them was set, and
    /// the newer sample counts.
    fn and(self, newer: Self) -> Self {
        let both = Self { least: self.least.max(newer.least), most: self.most.min(newer.most) };
        let (gap, width) = (both.least - both.most, self.most - self.least);
        match gap {
            ..=0 => both,
            1..=DRIFT_MS if newer.least > self.most => {
                Self { least: newer.least, most: newer.least + width }
            }
            1..=DRIFT_MS => Self { least: newer.most - width, most: newer.most },
            _ => newer,
        }
    }

    /// The correction of the machine's time: zero unless the difference is certain to be large, or known well.
    fn correction(self) -> i64 {
        let middle = self.least + (self.most - self.least) / 2;
        let is_known = self.most - self.least <= KNOWN_TO_WITHIN_MS;
        match (self.least, self.most) {
            _ if is_known && middle.abs() > KNOWN_TO_WITHIN_MS => middle,
            _ if is_known => 0,
            (least, _) if least > TOLERATED_SKEW_MS => least,
            (_, most) if most < -TOLERATED_SKEW_MS => most,
            _ => 0,
        }
    }
}

impl ProviderClock {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// Milliseconds since 1970, as the service counts them.
    pub(crate) fn now(&self) -> i64 {
        // Relaxed: each is a number of its own.
        let now = self.machine_time() + self.shared.correction.load(Ordering::Relaxed);
        let latest = self.shared.latest.fetch_max(now, Ordering::Relaxed);
        if latest - now > LONGEST_HOLD_MS {
            self.shared.latest.store(now, Ordering::Relaxed);
            return now;
        }
        now.max(latest)
    }

    /// Milliseconds since 1970, as the machine counts them.
    pub(crate) fn machine_time(&self) -> i64 {
        millis_since_epoch(self.clock.wall())
    }

    /// Records the `Date` of a response to a request that was sent at a machine time.
    pub(crate) fn observe(&self, sent: i64, date: Option<SystemTime>) {
        let Some(date) = date else { return };
        let newer = Skew::of(sent, self.machine_time(), millis_since_epoch(date));
        let mut known = self.shared.skew.lock().unwrap_or_else(PoisonError::into_inner);
        let skew = known.map_or(newer, |known| known.and(newer));
        *known = Some(skew);
        let before = self.shared.correction.swap(skew.correction(), Ordering::Relaxed);
        if before == 0 && skew.correction() != 0 {
            tracing::warn!(
                milliseconds = skew.correction(),
                "the machine's clock differs from the service's, by which locks are judged"
            );
        }
    }

    /// A pause with jitter subtracted, so that processes do not poll in step.
    pub(crate) fn jittered(&self, pause: Duration) -> Duration {
        // Up to a twentieth of the pause, by a random byte.
        let jitter = u32::from(self.clock.new_id().as_bytes()[15]);
        pause - pause * jitter / (255 * 20)
    }

    /// A pause before something is tried again, of half to all of a time: those who failed together do not come back together.
    pub(crate) fn backoff(&self, pause: Duration) -> Duration {
        let jitter = u32::from(self.clock.new_id().as_bytes()[15]);
        pause - pause * jitter / (255 * 2)
    }

    /// The difference from the service's clock that is corrected, in milliseconds.
    #[cfg(feature = "otel")]
    pub(crate) fn correction(&self) -> i64 {
        self.shared.correction.load(Ordering::Relaxed)
    }

    /// The first of as many numbers as this process enqueues.
    pub(crate) fn next_sequences(&self, count: usize) -> u64 {
        // Relaxed: only the number itself is shared.
        self.shared.sequence.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// A unique text.
    pub(crate) fn new_id(&self) -> String {
        self.clock.new_id().simple().to_string()
    }
}

/// A duration in milliseconds, the unit of all times in documents.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn millis_since_epoch(time: SystemTime) -> i64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(count)
    }

    #[test]
    fn a_clock_within_two_seconds_of_the_service_s_is_left_alone() {
        for date in [8_001, 9_000, 10_000, 11_000, 12_000] {
            assert_eq!(Skew::of(10_000, 10_050, date).correction(), 0, "{date}");
        }
    }

    #[test]
    fn a_clock_that_is_certainly_wrong_is_corrected_by_what_is_certain() {
        assert_eq!(Skew::of(10_000, 10_100, 20_000).correction(), 9_900, "it is slow");
        assert_eq!(Skew::of(20_000, 20_100, 10_000).correction(), -9_001, "it is fast");
        assert_eq!(
            Skew::of(10_000, 25_000, 20_000).correction(),
            0,
            "the response took too long to tell"
        );
    }

    #[test]
    fn samples_narrow_the_interval_until_one_contradicts_it() {
        let known = Skew::of(10_000, 10_100, 20_000);
        let narrowed = known.and(Skew::of(10_900, 10_950, 21_000));
        assert_eq!(narrowed, Skew { least: 10_050, most: 10_999 });
        let set = Skew::of(50_000, 50_010, 50_000);
        assert_eq!(narrowed.and(set), set, "the machine's clock was set");
    }

    #[test]
    fn clocks_that_drift_move_the_interval() {
        let known = Skew { least: 900, most: 1_000 };
        let faster = known.and(Skew { least: 1_020, most: 1_900 });
        assert_eq!(faster, Skew { least: 1_020, most: 1_120 });
        assert_eq!(faster.and(Skew { least: 0, most: 1_000 }), known);
    }

    /// Two machines that differed by less than four seconds judged each other's locks by that much.
    #[test]
    fn a_difference_that_is_known_well_is_corrected_by_the_middle() {
        for offset in [-1_500, -400, 0, 100, 700, 1_900] {
            // Responses at any fraction of the service's second.
            let samples = (0..60).map(|number| {
                let at = 1_000_000 + number * 1_017;
                Skew::of(at, at + 10, (at + offset).div_euclid(1_000) * 1_000)
            });
            let skew = samples.reduce(Skew::and).unwrap();
            let left = offset - skew.correction();
            assert!(left.abs() <= KNOWN_TO_WITHIN_MS, "{offset}: {skew:?}");
        }
    }

    #[test]
    fn time_does_not_step_back_when_a_fast_clock_is_corrected() {
        let clock = ProviderClock::new(Clock::simulated(1, seconds(100)));
        let before = clock.now();
        clock.observe(clock.machine_time(), Some(seconds(50)));
        assert_eq!(clock.now(), before);
        let slow = ProviderClock::new(Clock::simulated(1, seconds(100)));
        slow.observe(slow.machine_time(), Some(seconds(160)));
        assert_eq!(slow.now(), 160_000);
    }
}
