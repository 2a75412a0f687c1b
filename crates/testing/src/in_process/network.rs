//! The simulated network: what becomes of each request on its way, decided from a seed.
//!
//! The decision for the n-th request depends on the seed and n alone, so a run repeats exactly as long as
//! requests are made in the same order, which a single-threaded runtime on a paused clock guarantees.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

/// The faults of a network. Shares are between 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkFaults {
    /// The least time of a round trip.
    pub latency: Duration,
    /// By how much a round trip may be longer.
    pub latency_spread: Duration,
    /// The share of requests that are lost before the account does anything.
    pub lost_before: f64,
    /// The share of requests whose response is lost after the account has processed them.
    pub lost_after: f64,
}

impl NetworkFaults {
    /// A network without faults and without latency.
    pub const NONE: Self = Self {
        latency: Duration::ZERO,
        latency_spread: Duration::ZERO,
        lost_before: 0.0,
        lost_after: 0.0,
    };
}

/// A network between drivers and one account.
#[derive(Debug)]
pub struct SimulatedNetwork {
    seed: u64,
    requests: AtomicU64,
    faults: ArcSwap<NetworkFaults>,
}

/// The fate of one request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The time to the account.
    pub there: Duration,
    /// The time back.
    pub back: Duration,
    /// Where it is lost, if it is.
    pub lost: Option<Lost>,
}

/// Where a request is lost. A client cannot tell the two apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// On its way to the account, which does not see it.
    Before,
    /// On its way back: the account has processed it.
    After,
}

impl SimulatedNetwork {
    /// A network whose decisions follow from a seed.
    #[must_use]
    pub fn new(seed: u64, faults: NetworkFaults) -> Self {
        Self { seed, requests: AtomicU64::new(0), faults: ArcSwap::from_pointee(faults) }
    }

    /// Changes what happens to the requests that follow.
    pub fn set_faults(&self, faults: NetworkFaults) {
        self.faults.store(faults.into());
    }

    /// How many requests have been made.
    #[must_use]
    pub fn requests(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        self.requests.load(Ordering::Relaxed)
    }

    /// Decides what becomes of the next request.
    pub(super) fn next_delivery(&self) -> Delivery {
        // Relaxed: each request needs a number of its own, and orders nothing else.
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        decide(&self.faults.load(), self.seed, number)
    }
}

/// The fate of the request with this number.
fn decide(faults: &NetworkFaults, seed: u64, number: u64) -> Delivery {
    let mut random = SplitMix64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let trip = faults.latency + faults.latency_spread.mul_f64(random.fraction());
    let there = trip.mul_f64(random.fraction());
    let draw = random.fraction();
    let lost = if draw < faults.lost_before {
        Some(Lost::Before)
    } else if draw < faults.lost_before + faults.lost_after {
        Some(Lost::After)
    } else {
        None
    };
    Delivery { there, back: trip.saturating_sub(there), lost }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): a few operations a number, and any seed will do.
struct SplitMix64(u64);

impl SplitMix64 {
    /// The next number in `0.0..1.0`.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        // A double has 53 bits of fraction.
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
