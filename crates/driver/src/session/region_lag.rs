//! How far regions are behind the writes of a session: learnt from reads that came too early (404/1002).
//!
//! A read that is sent to a region that cannot have its session yet costs a request and a round trip, again and again
//! for as long as the application writes. What one read has met tells those after it to wait a moment, or to go where
//! the session is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::transport::MAX_ENDPOINT_SLOTS;

/// A lag beyond it is not kept: the region is not behind for a moment, it is not replicated to.
const LONGEST: Duration = Duration::from_secs(10);

/// The time in which a lag is forgotten, so that a region that has become faster is asked earlier again.
const DECAY: Duration = Duration::from_secs(10);

/// Added to what was met: the next read would come too early by as little as this one.
const MARGIN: Duration = Duration::from_millis(1);

/// The lag of each region, by the slot of its endpoint.
#[derive(Debug)]
pub(crate) struct RegionLags {
    origin: Instant,
    /// Microseconds in the upper half, and when they were learnt, in milliseconds since the origin, in the lower half:
    /// one number, so that it is replaced whole. Zero is unknown.
    lags: [AtomicU64; MAX_ENDPOINT_SLOTS],
}

impl RegionLags {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, lags: [const { AtomicU64::new(0) }; MAX_ENDPOINT_SLOTS] }
    }

    /// Takes in that a region did not have what the session had seen for this long.
    pub(crate) fn missed(&self, slot: usize, age: Duration, now: Instant) {
        let Some(lag) = self.lags.get(slot) else { return };
        let met = age + age / 4 + MARGIN;
        if met > LONGEST {
            return;
        }
        let longest = met.max(self.lag(slot, now));
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        // Relaxed: an estimate. Of two at once either will do.
        lag.store(micros << 32 | self.millis(now), Ordering::Relaxed);
    }

    /// How much longer a region is likely to be without what the session has seen for this long.
    pub(crate) fn behind(&self, slot: usize, age: Duration, now: Instant) -> Option<Duration> {
        let left = self.lag(slot, now).checked_sub(age)?;
        (!left.is_zero()).then_some(left)
    }

    fn lag(&self, slot: usize, now: Instant) -> Duration {
        let known = self.lags.get(slot).map_or(0, |lag| lag.load(Ordering::Relaxed));
        if known == 0 {
            return Duration::ZERO;
        }
        let learnt = Duration::from_millis(known & u64::from(u32::MAX));
        let since = now.saturating_duration_since(self.origin).saturating_sub(learnt);
        let left = DECAY.saturating_sub(since).as_secs_f64() / DECAY.as_secs_f64();
        Duration::from_micros(known >> 32).mul_f64(left)
    }

    fn millis(&self, now: Instant) -> u64 {
        let millis = now.saturating_duration_since(self.origin).as_millis();
        u64::from(u32::try_from(millis).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_region_is_behind_by_what_reads_have_met() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        assert_eq!(lags.behind(1, Duration::ZERO, origin), None);
        lags.missed(1, 20 * MS, origin);
        assert_eq!(lags.behind(1, 6 * MS, origin), Some(20 * MS));
        assert_eq!(lags.behind(1, 26 * MS, origin), None);
        assert_eq!(lags.behind(2, Duration::ZERO, origin), None);
        lags.missed(1, 4 * MS, origin);
        assert_eq!(lags.behind(1, 6 * MS, origin), Some(20 * MS), "a shorter one proves nothing");
    }

    #[test]
    fn a_lag_is_forgotten_within_seconds() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        lags.missed(1, 20 * MS, origin);
        let half = origin + DECAY / 2;
        assert_eq!(lags.behind(1, Duration::ZERO, half), Some(13 * MS));
        assert_eq!(lags.behind(1, Duration::ZERO, origin + DECAY), None);
    }

    #[test]
    fn a_region_that_is_not_replicated_to_is_not_waited_for() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        lags.missed(1, LONGEST, origin);
        lags.missed(MAX_ENDPOINT_SLOTS, MS, origin);
        assert_eq!(lags.behind(1, Duration::ZERO, origin), None);
    }
}
