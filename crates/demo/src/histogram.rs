//! Latencies in buckets of constant relative width: bounded memory, percentiles within three per cent.

use std::time::Duration;

/// The ratio of a bucket's bounds.
const GROWTH: f64 = 1.03;

/// Buckets from one microsecond to more than two minutes.
const BUCKETS: usize = 640;

/// How many latencies fell into each bucket.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u32>,
    total: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl Histogram {
    /// Counts a latency.
    pub(crate) fn record(&mut self, took: Duration) {
        let micros = took.as_secs_f64() * 1e6;
        let bucket = (micros.max(1.0).ln() / GROWTH.ln()) as usize;
        let count = &mut self.counts[bucket.min(BUCKETS - 1)];
        *count = count.saturating_add(1);
        self.total += 1;
    }

    /// Counts what another one has.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.total += other.total;
    }

    /// How many latencies were counted.
    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// The latency that this share of all does not exceed, from 0 to 1; none if nothing was counted.
    pub(crate) fn percentile(&self, share: f64) -> Option<Duration> {
        if self.total == 0 {
            return None;
        }
        // Nearest rank: the first bucket that the wanted number of latencies fits into.
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        let middle = bucket.unwrap_or(BUCKETS - 1) as f64 + 0.5;
        Some(Duration::from_secs_f64(GROWTH.powf(middle) / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_about(found: Option<Duration>, wanted: Duration) -> bool {
        let ratio = found.unwrap().as_secs_f64() / wanted.as_secs_f64();
        (0.97..1.03).contains(&ratio)
    }

    #[test]
    fn percentiles_are_within_three_per_cent() {
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        assert!(is_about(histogram.percentile(0.5), Duration::from_millis(500)));
        assert!(is_about(histogram.percentile(0.99), Duration::from_millis(990)));
        assert_eq!(histogram.count(), 1_000);
    }

    #[test]
    fn nothing_counted_has_no_percentile_and_extremes_have_one() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), None);
        histogram.record(Duration::ZERO);
        histogram.record(Duration::from_secs(3_600));
        assert!(histogram.percentile(0.5).unwrap() < Duration::from_micros(2));
        assert!(histogram.percentile(1.0).unwrap() > Duration::from_secs(120));
    }

    #[test]
    fn two_histograms_add_up() {
        let (mut first, mut second) = (Histogram::default(), Histogram::default());
        first.record(Duration::from_millis(1));
        (0..3).for_each(|_| second.record(Duration::from_millis(100)));
        first.add(&second);
        assert_eq!(first.count(), 4);
        assert!(is_about(first.percentile(0.5), Duration::from_millis(100)));
    }
}
