//! How long requests take in each region: histograms of the last minute.
//!
//! Recording is on the way of every request: one addition to an atomic bucket. Reading a percentile goes through
//! all buckets, so it is done once a second and kept.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::exchange::MAX_ENDPOINT_SLOTS;

/// The window is a minute, in parts: the oldest one is forgotten at a time.
const PARTS: usize = 12;
// Twelve fives are the minute; a part of five seconds has samples enough under a moderate load.
const PART: Duration = Duration::from_secs(5);

/// The fewest samples for a 99th percentile.
const MIN_SAMPLES: u64 = 100;

/// The fewest samples for the percentile of one part.
const MIN_SAMPLES_OF_PART: u64 = 20;

/// The parts that a recent latency is taken from: the last one that has samples.
const RECENT_PARTS: u32 = 3;

/// Four buckets for each power of two microseconds, up to two minutes.
const BUCKETS: usize = 4 * 27;

/// How often the percentile is recomputed.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// Classes of requests with comparable latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LatencyClass {
    /// Reads of one item.
    PointRead,
    /// Writes of one item: a quorum answers them, and mostly another region.
    PointWrite,
    /// Queries, feeds, batches and procedures.
    Scan,
}

/// The latencies of a driver, by class and region.
#[derive(Debug)]
pub(crate) struct LatencyTracker {
    origin: Instant,
    classes: [ClassLatencies; 3],
}

#[derive(Debug)]
struct ClassLatencies {
    /// By the slot of the endpoint; made when it is first used.
    regions: [OnceLock<Box<Histogram>>; MAX_ENDPOINT_SLOTS],
    /// The percentile of the fastest region, and the second in which it was computed: one number, so that it
    /// is replaced whole.
    kept: AtomicU64,
}

impl LatencyTracker {
    pub(crate) fn new(origin: Instant) -> Self {
        let class = || ClassLatencies {
            regions: [const { OnceLock::new() }; MAX_ENDPOINT_SLOTS],
            kept: AtomicU64::new(0),
        };
        Self { origin, classes: [class(), class(), class()] }
    }

    /// Takes in how long a request took at the endpoint of a slot.
    pub(crate) fn record(&self, class: LatencyClass, slot: usize, took: Duration, now: Instant) {
        if let Some(region) = self.classes[class as usize].regions.get(slot) {
            let histogram = region.get_or_init(Box::default);
            histogram.record(took, number_of(now, self.origin, PART));
        }
    }

    /// The 99th percentile of the fastest region that is healthy, once enough is known of one.
    ///
    /// Computed once a second; `is_healthy` is asked only then.
    pub(crate) fn percentile(
        &self,
        class: LatencyClass,
        now: Instant,
        is_healthy: impl Fn(usize) -> bool,
    ) -> Option<Duration> {
        let class = &self.classes[class as usize];
        let second = number_of(now, self.origin, KEPT_FOR);
        // Relaxed: a number by itself. Two threads may compute it in the same second.
        let kept = class.kept.load(Ordering::Relaxed);
        let micros = match (kept >> 32) as u32 == second {
            true => kept as u32,
            false => {
                let part = number_of(now, self.origin, PART);
                let micros = class.fastest(part, is_healthy);
                // One word, so that the second and its value are replaced together.
                class.kept.store(u64::from(second) << 32 | u64::from(micros), Ordering::Relaxed);
                micros
            }
        };
        (micros != 0).then(|| Duration::from_micros(micros.into()))
    }
}

impl LatencyTracker {
    /// How long requests to the endpoint of a slot have taken lately: the median of its last seconds.
    pub(crate) fn recent(
        &self,
        class: LatencyClass,
        slot: usize,
        now: Instant,
    ) -> Option<Duration> {
        let histogram = self.classes[class as usize].regions.get(slot)?.get()?;
        let part = number_of(now, self.origin, PART);
        let last = (0..RECENT_PARTS).filter_map(|age| part.checked_sub(age));
        let micros = last.filter_map(|number| histogram.median_of(number)).next()?;
        Some(Duration::from_micros(micros.into()))
    }
}

/// How many whole intervals have passed, counted from one: zero is never. Intervals are of whole seconds, so
/// that nothing wider than a machine word is divided.
fn number_of(now: Instant, origin: Instant, interval: Duration) -> u32 {
    let passed = now.saturating_duration_since(origin).as_secs() / interval.as_secs();
    u32::try_from(passed).unwrap_or(u32::MAX - 1).saturating_add(1)
}

impl ClassLatencies {
    fn fastest(&self, part: u32, is_healthy: impl Fn(usize) -> bool) -> u32 {
        let known =
            self.regions.iter().enumerate().filter_map(|(slot, it)| Some((slot, it.get()?)));
        let healthy = known.filter(|(slot, _)| is_healthy(*slot));
        healthy.filter_map(|(_, histogram)| histogram.percentile(part)).min().unwrap_or(0)
    }
}

#[derive(Debug)]
struct Histogram {
    parts: [PartHistogram; PARTS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { parts: std::array::from_fn(|_| PartHistogram::new()) }
    }
}

#[derive(Debug)]
struct PartHistogram {
    /// Which part of time it is about.
    number: AtomicU32,
    buckets: [AtomicU32; BUCKETS],
}

impl PartHistogram {
    fn new() -> Self {
        Self { number: AtomicU32::new(0), buckets: [const { AtomicU32::new(0) }; BUCKETS] }
    }

    /// Makes it about a part of time, empty, unless it is already.
    fn turn_to(&self, part: u32) {
        let number = self.number.load(Ordering::Relaxed);
        if number == part {
            return;
        }
        // One thread empties it. What others add meanwhile may be lost: a few samples of a statistic.
        let turned =
            self.number.compare_exchange(number, part, Ordering::Relaxed, Ordering::Relaxed);
        if turned.is_ok() {
            self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        }
    }
}

impl Histogram {
    fn record(&self, took: Duration, part: u32) {
        let histogram = &self.parts[part as usize % PARTS];
        histogram.turn_to(part);
        // Relaxed: a statistic, as in `turn_to`.
        histogram.buckets[bucket_of(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// The 99th percentile of the last minute in microseconds, if there are enough samples: of its best part.
    ///
    /// A region that turns slow would otherwise raise the threshold by itself within a second, and be hedged no
    /// more. This way it is measured by what it could do before, for as long as it takes to leave it; one that
    /// stays slow is the new normal after a minute.
    fn percentile(&self, part: u32) -> Option<u32> {
        let oldest = part.saturating_sub(PARTS as u32 - 1);
        let is_recent = |it: &&PartHistogram| {
            let number = it.number.load(Ordering::Relaxed);
            number >= oldest && number <= part
        };
        let recent: SmallVec<[&PartHistogram; PARTS]> =
            self.parts.iter().filter(is_recent).collect();
        let total = count(&recent);
        if total < MIN_SAMPLES {
            return None;
        }
        let best = recent.chunks(1).filter(|one| count(one) >= MIN_SAMPLES_OF_PART).map(percentile);
        // Without a part that tells anything, all of them together do.
        Some(best.min().unwrap_or_else(|| percentile(&recent)))
    }
}

impl Histogram {
    /// The median of a part of time, if there are samples.
    fn median_of(&self, number: u32) -> Option<u32> {
        let part = &self.parts[number as usize % PARTS];
        let is_about_it = part.number.load(Ordering::Relaxed) == number;
        let total = if is_about_it { count(&[part]) } else { 0 };
        let mut left = total.checked_sub(1)? / 2;
        for bucket in 0..BUCKETS {
            match left.checked_sub(samples(&[part], bucket)) {
                Some(more) => left = more,
                None => return Some(upper_bound(bucket)),
            }
        }
        None
    }
}

fn count(parts: &[&PartHistogram]) -> u64 {
    (0..BUCKETS).map(|bucket| samples(parts, bucket)).sum()
}

fn samples(parts: &[&PartHistogram], bucket: usize) -> u64 {
    parts.iter().map(|it| u64::from(it.buckets[bucket].load(Ordering::Relaxed))).sum()
}

/// The 99th percentile of the samples of some parts.
fn percentile(parts: &[&PartHistogram]) -> u32 {
    let mut above = count(parts) / 100;
    for bucket in (0..BUCKETS).rev() {
        match above.checked_sub(samples(parts, bucket)) {
            Some(left) => above = left,
            None => return upper_bound(bucket),
        }
    }
    upper_bound(0)
}

/// The bucket of a latency: by its power of two, and the two bits below the highest.
fn bucket_of(took: Duration) -> usize {
    let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
    let power = micros.ilog2();
    // Log-linear, as in HdrHistogram: four buckets per power of two, an error of 25 % at most.
    let quarter = if power >= 2 { (micros >> (power - 2)) & 0b11 } else { 0 };
    (power as usize * 4 + quarter as usize).min(BUCKETS - 1)
}

/// The longest latency of a bucket, in microseconds.
fn upper_bound(bucket: usize) -> u32 {
    let (power, quarter) = (bucket / 4, bucket % 4);
    let step = (1u64 << power) as f64 / 4.0;
    ((1u64 << power) as f64 + step * (quarter + 1) as f64).ceil() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn tracker_with(origin: Instant, slot: usize, samples: &[(u32, Duration)]) -> LatencyTracker {
        let tracker = LatencyTracker::new(origin);
        for (count, took) in samples {
            (0..*count).for_each(|_| tracker.record(LatencyClass::PointRead, slot, *took, origin));
        }
        tracker
    }

    fn of_minute(tracker: &LatencyTracker, now: Instant) -> Option<Duration> {
        tracker.percentile(LatencyClass::PointRead, now, |_| true)
    }

    #[test]
    fn a_percentile_needs_a_hundred_samples_within_a_minute() {
        let origin = Instant::now();
        let few = tracker_with(origin, 1, &[(99, MILLISECOND)]);
        assert_eq!(of_minute(&few, origin), None);
        let enough = tracker_with(origin, 1, &[(100, MILLISECOND)]);
        assert!(of_minute(&enough, origin + Duration::from_secs(54)).is_some());
        assert_eq!(of_minute(&enough, origin + Duration::from_secs(61)), None);
    }

    #[test]
    fn one_in_a_hundred_may_be_slower() {
        let origin = Instant::now();
        let slow = Duration::from_secs(3);
        let one = tracker_with(origin, 1, &[(990, 10 * MILLISECOND), (10, slow)]);
        assert!(of_minute(&one, origin).unwrap() < 13 * MILLISECOND);
        let two = tracker_with(origin, 1, &[(980, 10 * MILLISECOND), (20, slow)]);
        assert!(of_minute(&two, origin).unwrap() >= slow);
    }

    #[test]
    fn the_recent_latency_is_the_median_of_the_last_part_that_has_samples() {
        let origin = Instant::now();
        let tracker = tracker_with(origin, 1, &[(60, 5 * MILLISECOND), (40, 80 * MILLISECOND)]);
        let recent = |slot, now| tracker.recent(LatencyClass::PointRead, slot, now);
        assert!(recent(1, origin).is_some_and(|it| it < 7 * MILLISECOND));
        assert!(recent(1, origin + Duration::from_secs(14)).is_some());
        assert_eq!(recent(1, origin + Duration::from_secs(15)), None);
        assert_eq!(recent(2, origin), None);
    }

    /// A region that turned slow raised the threshold by itself, and was hedged no more after a second.
    #[test]
    fn a_region_that_turns_slow_keeps_the_threshold_of_a_minute_ago() {
        let origin = Instant::now();
        let tracker = tracker_with(origin, 1, &[(1_000, 5 * MILLISECOND)]);
        let slow_from = |seconds| {
            let now = origin + Duration::from_secs(seconds);
            for _ in 0..1_000 {
                tracker.record(LatencyClass::PointRead, 1, Duration::from_millis(500), now);
            }
            of_minute(&tracker, now).unwrap()
        };
        for seconds in [5, 6, 20, 40, 55] {
            assert!(slow_from(seconds) < 7 * MILLISECOND, "after {seconds} s");
        }
        assert!(slow_from(61) >= Duration::from_millis(500), "the new normal");
    }

    #[test]
    fn the_fastest_healthy_region_counts() {
        let origin = Instant::now();
        let tracker = tracker_with(origin, 1, &[(200, 5 * MILLISECOND)]);
        for _ in 0..200 {
            tracker.record(LatencyClass::PointRead, 2, 80 * MILLISECOND, origin);
        }
        assert!(of_minute(&tracker, origin).unwrap() < 7 * MILLISECOND);
        let later = origin + Duration::from_secs(2);
        let without_it = tracker.percentile(LatencyClass::PointRead, later, |slot| slot != 1);
        assert!(without_it.unwrap() >= 80 * MILLISECOND);
        assert_eq!(tracker.percentile(LatencyClass::Scan, later, |_| true), None);
    }

    #[test]
    fn the_percentile_is_computed_once_a_second() {
        let origin = Instant::now();
        let tracker = tracker_with(origin, 1, &[(100, MILLISECOND)]);
        let before = of_minute(&tracker, origin);
        for _ in 0..1_000 {
            tracker.record(LatencyClass::PointRead, 1, Duration::from_secs(1), origin);
        }
        assert_eq!(of_minute(&tracker, origin), before);
        assert_ne!(of_minute(&tracker, origin + Duration::from_secs(1)), before);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_a_latency_within_a_quarter_of_it(micros in 1u64..60_000_000) {
            let bound = u64::from(upper_bound(bucket_of(Duration::from_micros(micros))));
            prop_assert!(bound >= micros && bound <= micros * 3 / 2 + 2, "{} for {}", bound, micros);
        }
    }

    #[test]
    fn no_latency_panics() {
        for took in [Duration::ZERO, Duration::MAX] {
            assert!(bucket_of(took) < BUCKETS);
        }
    }
}
