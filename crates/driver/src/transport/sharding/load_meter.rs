//! Counts the requests of an endpoint, and keeps the load spread that follows from them.

use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use super::load_spread::LoadSpread;

/// Requests per interval, and the spread in force.
#[derive(Debug)]
pub(super) struct LoadMeter {
    spread: ArcSwap<LoadSpread>,
    /// The ratio of the spread, as the bits of its number: every request reads it, and a load is all it costs.
    ratio: AtomicU64,
    requests: AtomicU64,
    requests_at_last_interval: AtomicU64,
}

impl LoadMeter {
    /// The spread of the setting, before anything was measured.
    pub(super) fn new(load_spread_ratio: f64) -> Self {
        Self {
            spread: ArcSwap::from_pointee(LoadSpread::new(load_spread_ratio)),
            ratio: AtomicU64::new(load_spread_ratio.to_bits()),
            requests: AtomicU64::new(0),
            requests_at_last_interval: AtomicU64::new(0),
        }
    }

    /// Counts a request.
    pub(super) fn record(&self) {
        // Relaxed: a statistic.
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends an interval: the spread follows the number of its requests.
    pub(super) fn end_interval(&self) {
        let requests = self.requests.load(Ordering::Relaxed);
        let before = self.requests_at_last_interval.swap(requests, Ordering::Relaxed);
        // Saturating: of two sweeps at once the slower may have read the smaller number.
        self.spread.rcu(|spread| spread.observe(requests.saturating_sub(before)));
        // Relaxed: a number by itself. Of two sweeps at once, the one that stores last may not have ended its
        // interval last; the next sweep makes up for it.
        self.ratio.store(self.spread.load().ratio().to_bits(), Ordering::Relaxed);
    }

    /// The share of shards that take new requests.
    pub(super) fn spread_ratio(&self) -> f64 {
        f64::from_bits(self.ratio.load(Ordering::Relaxed))
    }
}
