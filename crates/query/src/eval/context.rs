//! The environment of an evaluation: time, source of randomness, limits.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::EvalError;
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
}

impl Context {
    /// A context at `now_ticks`, counted in 100-nanosecond steps from the Unix epoch, with random
    /// numbers from `seed`.
    pub fn new(now_ticks: i64, seed: u64) -> Self {
        Self { now_ticks, random: AtomicU64::new(seed), limits: Limits::DEFAULT }
    }

    /// The same context with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
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

/// The context together with the work done so far for the current document.
#[derive(Debug)]
pub(crate) struct Meter<'c> {
    context: &'c Context,
    steps: u64,
}

impl<'c> Meter<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self { context, steps: 0 }
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    /// Counts one unit of work.
    pub(crate) fn step(&mut self) -> Result<(), EvalError> {
        self.spend(1)
    }

    /// Counts reading or writing this many bytes.
    pub(crate) fn touch(&mut self, bytes: usize) -> Result<(), EvalError> {
        /// Bytes handled in about the time of evaluating one node.
        const BYTES_PER_STEP: u64 = 64;
        self.spend(bytes as u64 / BYTES_PER_STEP)
    }

    /// Refuses a value that is too large before it is built, and counts building it.
    pub(crate) fn build(&mut self, function: &'static str, size: usize) -> Result<(), EvalError> {
        self.fits(function, size)?;
        self.touch(size)
    }

    /// Refuses a value that is too large.
    pub(crate) fn fits(&self, function: &'static str, size: usize) -> Result<(), EvalError> {
        let limit = self.context.limits.max_value_size;
        match size > limit {
            true => Err(EvalError::ValueTooLarge { function, limit }),
            false => Ok(()),
        }
    }

    /// Counts units of work.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), EvalError> {
        self.steps = self.steps.saturating_add(steps);
        let limit = self.context.limits.max_steps_per_document;
        if self.steps > limit {
            return Err(EvalError::TooManySteps(limit));
        }
        Ok(())
    }
}
