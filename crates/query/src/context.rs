//! The environment of an evaluation: time, source of randomness, limits, and who may end it early.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::Limits;

/// The environment of one execution of a query.
///
/// Deterministic: the same context and the same documents give the same rows, because the time is
/// fixed for the execution and random numbers come from the seed.
#[derive(Debug)]
pub struct Context {
    now_ticks: i64,
    /// Atomic only so that a run may move between threads.
    random: AtomicU64,
    limits: Limits,
    watch: Option<Watch>,
}

/// Whether an evaluation should go on; asked every so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It should.
    Continue,
    /// It should pause at the next row, if its rows stream: its time is over.
    Pause,
    /// It should end at once: nobody waits for the result.
    Cancel,
}

/// A callback that is asked whether an evaluation should go on.
#[derive(Clone)]
struct Watch(Arc<dyn Fn() -> Signal + Send + Sync>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

impl Context {
    /// A context at `now_ticks`, counted in 100-nanosecond steps from the Unix epoch, with random
    /// numbers from `seed`.
    pub fn new(now_ticks: i64, seed: u64) -> Self {
        Self { now_ticks, random: AtomicU64::new(seed), limits: Limits::DEFAULT, watch: None }
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds a callback that is asked every so many steps whether to go on: a clock, or a flag that
    /// another thread sets.
    #[must_use]
    pub fn watched_by(mut self, watch: impl Fn() -> Signal + Send + Sync + 'static) -> Self {
        self.watch = Some(Watch(Arc::new(watch)));
        self
    }

    pub(crate) fn signal(&self) -> Signal {
        self.watch.as_ref().map_or(Signal::Continue, |Watch(watch)| watch())
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// 100-nanosecond steps since the Unix epoch.
    pub(crate) fn now_ticks(&self) -> i64 {
        self.now_ticks
    }

    /// The next random number in `0.0..1.0`.
    pub(crate) fn random(&self) -> f64 {
        // SplitMix64: one addition and a mix, good enough for sampling rows.
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        // Relaxed: each draw needs a number of its own and publishes nothing.
        let state = self.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bits = (mixed ^ (mixed >> 31)) >> 11;
        bits as f64 / (1_u64 << 53) as f64
    }
}
