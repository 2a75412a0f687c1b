//! The work of one run, counted in steps, and the bounds that it is held against.

use crate::context::{Context, Signal};
use crate::error::EvalError;

/// Steps between two questions whether to go on: about a millisecond, so that an evaluation nobody waits for
/// ends at once by people's measure, and the question costs nothing by the evaluation's.
const STEPS_BETWEEN_CHECKS: u64 = 16 * 1024;

/// The context together with the work done so far.
#[derive(Clone, Debug)]
pub(crate) struct Meter<'c> {
    context: &'c Context,
    /// Steps of the whole run.
    steps: u64,
    /// Where the current row began.
    row_began: u64,
    /// The next number of steps at which a bound may be passed: one comparison on the way of every step.
    check_at: u64,
    exhausted: bool,
}

impl<'c> Meter<'c> {
    pub(crate) fn new(context: &'c Context) -> Self {
        Self { context, steps: 0, row_began: 0, check_at: 0, exhausted: false }
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    /// Takes over the counts of a meter that began as a copy of this one.
    pub(crate) fn go_on_from(&mut self, other: &Meter<'_>) {
        let Meter { steps, row_began, check_at, exhausted, .. } = *other;
        *self = Self { context: self.context, steps, row_began, check_at, exhausted };
    }

    /// Goes on at a number of steps that were spent before.
    pub(crate) fn go_on_at(&mut self, steps: u64) {
        (self.steps, self.row_began) = (steps, steps);
        self.exhausted = steps >= self.context.limits().max_steps;
    }

    /// The steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the run has had its steps, or its time.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Says that what follows is for another row.
    pub(crate) fn begin_row(&mut self) {
        self.row_began = self.steps;
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
        let limit = self.context.limits().max_value_size;
        match size > limit {
            true => Err(EvalError::ValueTooLarge { function, limit }),
            false => Ok(()),
        }
    }

    /// Refuses to hold so many rows of so many bytes.
    pub(crate) fn holds(&self, rows: usize, bytes: usize) -> Result<(), EvalError> {
        let limits = self.context.limits();
        if rows > limits.max_buffered_rows {
            return Err(EvalError::TooManyRows(limits.max_buffered_rows));
        }
        if bytes > limits.max_buffered_bytes {
            return Err(EvalError::TooManyBytes(limits.max_buffered_bytes));
        }
        Ok(())
    }

    /// Counts units of work.
    pub(crate) fn spend(&mut self, steps: u64) -> Result<(), EvalError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < self.check_at {
            return Ok(());
        }
        self.check()
    }

    #[cold]
    fn check(&mut self) -> Result<(), EvalError> {
        let limits = self.context.limits();
        if self.steps - self.row_began > limits.max_steps_per_row {
            return Err(EvalError::TooManySteps(limits.max_steps_per_row));
        }
        match self.context.signal() {
            Signal::Cancel => return Err(EvalError::Cancelled),
            Signal::Pause => self.exhausted = true,
            Signal::Continue => {}
        }
        self.exhausted |= self.steps >= limits.max_steps;
        let row_ends = self.row_began.saturating_add(limits.max_steps_per_row).saturating_add(1);
        let run_ends = if self.exhausted { u64::MAX } else { limits.max_steps };
        let next = self.steps.saturating_add(STEPS_BETWEEN_CHECKS);
        self.check_at = next.min(row_ends).min(run_ends);
        Ok(())
    }
}
