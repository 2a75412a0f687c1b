//! Replication lag of each region, learnt from reads that came too early for their session (404/1002).
//!
//! A read that is sent to a region that cannot have its session yet costs a request and a round trip, again and again
//! for as long as the application writes. What one read has met tells those after it to wait a moment, or to go where
//! the session is. Now and then a single read tries all the same, so that a region that has become faster is noticed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::exchange::MAX_ENDPOINT_SLOTS;

/// The longest lag that is kept: beyond it, replication to the region has stopped.
const LONGEST: Duration = Duration::from_secs(10);

/// The time in which a measured lag loses its weight: the older it is, the earlier a trial may come.
const DECAY: Duration = Duration::from_secs(10);

/// The least time between two trials of a region. Without it, every read that comes while a trial is under way in a slow
/// region would be one more.
const TRIAL_INTERVAL: Duration = Duration::from_secs(1);

/// Added to the measured lag, so that the next read does not come just too early.
const MARGIN: Duration = Duration::from_millis(1);

/// The lag of each region, by the slot of its endpoint.
#[derive(Debug)]
pub(crate) struct RegionLags {
    origin: Instant,
    /// Microseconds in the upper half, and when they were confirmed, in milliseconds since the origin, in the lower half:
    /// one number, so that it is replaced whole. Zero is unknown.
    lags: [AtomicU64; MAX_ENDPOINT_SLOTS],
    /// When the last trial of each was, in milliseconds since the origin.
    trials: [AtomicU32; MAX_ENDPOINT_SLOTS],
}

impl RegionLags {
    pub(crate) fn new(origin: Instant) -> Self {
        let lags = [const { AtomicU64::new(0) }; MAX_ENDPOINT_SLOTS];
        Self { origin, lags, trials: [const { AtomicU32::new(0) }; MAX_ENDPOINT_SLOTS] }
    }

    /// Records that a region did not have progress of this age: its lag is longer.
    pub(crate) fn missed(&self, slot: usize, age: Duration, now: Instant) {
        let Some(lag) = self.lags.get(slot) else { return };
        let met = age + age / 4 + MARGIN;
        if met > LONGEST {
            return;
        }
        self.store(lag, met.max(self.lag(slot)), now);
    }

    /// Records that a region had progress of this age: its lag is shorter.
    pub(crate) fn arrived(&self, slot: usize, age: Duration, now: Instant) {
        let Some(lag) = self.lags.get(slot) else { return };
        if age < self.lag(slot) {
            self.store(lag, age.max(MARGIN), now);
        }
    }

    /// The time until a region is likely to have progress of this age.
    pub(crate) fn behind(&self, slot: usize, age: Duration) -> Option<Duration> {
        let left = self.lag(slot).checked_sub(age)?;
        (!left.is_zero()).then_some(left)
    }

    /// Claims the trial of a region: a read that is sent although it is likely to come too early. One at a time, and
    /// the less likely it is to fail, the sooner after what is known was confirmed.
    pub(crate) fn claim_trial(&self, slot: usize, age: Duration, now: Instant) -> bool {
        let (Some(lag), Some(trial)) = (self.lags.get(slot), self.trials.get(slot)) else {
            return false;
        };
        // Relaxed, here and below: an estimate. Of two at once either will do.
        let known = lag.load(Ordering::Relaxed);
        let confirmed = Duration::from_millis(known & u64::from(u32::MAX));
        let since = now.saturating_duration_since(self.origin).saturating_sub(confirmed);
        let trust = DECAY.saturating_sub(since).as_secs_f64() / DECAY.as_secs_f64();
        if age < Duration::from_micros(known >> 32).mul_f64(trust) {
            return false;
        }
        let (last, now) = (trial.load(Ordering::Relaxed), self.millis(now));
        let is_due = Duration::from_millis(now.wrapping_sub(last).into()) >= TRIAL_INTERVAL;
        is_due && trial.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn lag(&self, slot: usize) -> Duration {
        let known = self.lags.get(slot).map_or(0, |lag| lag.load(Ordering::Relaxed));
        Duration::from_micros(known >> 32)
    }

    fn store(&self, lag: &AtomicU64, longest: Duration, now: Instant) {
        let micros = u64::try_from(longest.as_micros()).unwrap_or(u64::MAX);
        lag.store(micros << 32 | u64::from(self.millis(now)), Ordering::Relaxed);
    }

    fn millis(&self, now: Instant) -> u32 {
        let millis = now.saturating_duration_since(self.origin).as_millis();
        u32::try_from(millis).unwrap_or(u32::MAX)
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
        assert_eq!(lags.behind(1, Duration::ZERO), None);
        lags.missed(1, 20 * MS, origin);
        assert_eq!(lags.behind(1, 6 * MS), Some(20 * MS));
        assert_eq!(lags.behind(1, 26 * MS), None);
        assert_eq!(lags.behind(2, Duration::ZERO), None);
        lags.missed(1, 4 * MS, origin);
        assert_eq!(lags.behind(1, 6 * MS), Some(20 * MS), "a shorter one proves nothing");
    }

    #[test]
    fn an_arrival_shortens_the_lag() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        lags.arrived(1, 5 * MS, origin);
        assert_eq!(lags.behind(1, Duration::ZERO), None, "nothing was known");
        lags.missed(1, 20 * MS, origin);
        lags.arrived(1, 30 * MS, origin);
        assert_eq!(lags.behind(1, Duration::ZERO), Some(26 * MS), "a later one proves nothing");
        lags.arrived(1, 5 * MS, origin);
        assert_eq!(lags.behind(1, Duration::ZERO), Some(5 * MS));
    }

    /// Regression: every read during the trial of a slow region was one more trial, half a second for each.
    #[test]
    fn one_read_at_a_time_tries_whether_a_region_has_become_faster() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        lags.missed(1, 800 * MS, origin);
        assert!(!lags.claim_trial(1, 400 * MS, origin + DECAY / 4), "most likely still behind");
        let later = origin + DECAY * 3 / 4;
        assert!(lags.claim_trial(1, 400 * MS, later));
        assert!(!lags.claim_trial(1, 400 * MS, later + 500 * MS), "one is under way");
        assert_eq!(lags.behind(1, 400 * MS), Some(601 * MS), "the others go on as before");
        assert!(lags.claim_trial(1, 400 * MS, later + TRIAL_INTERVAL));
        lags.missed(1, 400 * MS, later + TRIAL_INTERVAL);
        assert_eq!(lags.behind(1, 400 * MS), Some(601 * MS), "confirmed");
        assert!(!lags.claim_trial(1, 400 * MS, later + 3 * TRIAL_INTERVAL));
    }

    #[test]
    fn a_region_that_is_not_replicated_to_is_not_waited_for() {
        let origin = Instant::now();
        let lags = RegionLags::new(origin);
        lags.missed(1, LONGEST, origin);
        lags.missed(MAX_ENDPOINT_SLOTS, MS, origin);
        assert_eq!(lags.behind(1, Duration::ZERO), None);
    }
}
