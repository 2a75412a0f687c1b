//! How much of the load is spread, from how steady it is.
//!
//! A steady load is concentrated on as few shards as the setting says. A load that comes in bursts keeps
//! more shards in use, since a connection that was closed after one burst must be made again for the
//! next. The spread follows within a few sweeps in both directions.

/// How many intervals the spread looks back: at ten seconds a sweep, a spike is forgotten after 80 seconds.
const WINDOW: usize = 8;

/// A deviation of fewer samples than this says nothing about the load.
const MIN_SAMPLES: usize = 3;

/// The spread in force, and the numbers it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LoadSpread {
    base: f64,
    requests: [u64; WINDOW],
    seen: usize,
    ratio: f64,
}

impl LoadSpread {
    /// The spread of the setting, before anything was seen.
    pub(super) fn new(base: f64) -> Self {
        Self { base, requests: [0; WINDOW], seen: 0, ratio: base }
    }

    /// The spread after another interval with this many requests.
    pub(super) fn observe(&self, requests: u64) -> Self {
        let mut next = self.clone();
        // A ring buffer: the oldest interval is overwritten.
        next.requests[next.seen % WINDOW] = requests;
        next.seen += 1;
        next.ratio = next.base + (1.0 - next.base) * next.variation().min(1.0);
        next
    }

    /// The share of shards that take new requests: from the setting's, where the load is steady, to all,
    /// where its deviation is as large as its mean.
    pub(super) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// The coefficient of variation: the standard deviation of the load over its mean.
    fn variation(&self) -> f64 {
        let seen = self.seen.min(WINDOW);
        if seen < MIN_SAMPLES {
            return 0.0;
        }
        let samples = self.requests[..seen].iter().map(|count| *count as f64);
        let mean = samples.clone().sum::<f64>() / seen as f64;
        // No load is a steady load; the ratio below would be NaN.
        if mean == 0.0 {
            return 0.0;
        }
        let variance = samples.map(|sample| (sample - mean).powi(2)).sum::<f64>() / seen as f64;
        variance.sqrt() / mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(requests: &[u64]) -> f64 {
        requests.iter().fold(LoadSpread::new(0.5), |spread, count| spread.observe(*count)).ratio()
    }

    #[test]
    fn it_starts_at_the_setting_and_stays_there_while_the_load_is_steady() {
        assert_eq!(after(&[]), 0.5);
        assert_eq!(after(&[100; 20]), 0.5);
        assert_eq!(after(&[0; 20]), 0.5);
    }

    #[test]
    fn bursts_spread_the_load() {
        assert!(after(&[0, 1_000, 0, 1_000, 0, 1_000]) > 0.95);
        assert!(after(&[80, 120, 80, 120]) > 0.5);
    }

    #[test]
    fn it_returns_to_the_setting_once_a_spike_is_past() {
        let spike = [10, 10, 10_000, 10];
        assert!(after(&spike) > 0.9);
        let past = [spike.as_slice(), &[10; WINDOW]].concat();
        assert_eq!(after(&past), 0.5);
    }

    #[test]
    fn two_intervals_are_too_few_to_judge() {
        assert_eq!(after(&[0, 1_000]), 0.5);
    }
}
