//! The nested loops over the sources of a query, and where in them an evaluation stands.
//!
//! A position is one index per source: how many of the source's values were passed. With it a run resumes in
//! the middle of one document's rows without producing those before again, however many there are.

use std::borrow::Cow;

use smallvec::{SmallVec, smallvec};

use super::code::{Block, CollectionCode, SourceCode};
use super::machine::{Evaluated, Flow, Machine};
use crate::error::EvalError;
use crate::value::Datum;

/// An index for each loop; a document without many joins takes no allocation for them.
type Indexes = SmallVec<[u64; 4]>;

/// The loops of the outermost query over one document.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    /// Where the loops begin; an index is used up when its loop is entered, so that later rounds begin at 0.
    begin: Indexes,
    /// The index of each loop now.
    at: Indexes,
    /// Whether an iteration was completed: a run may pause only after some progress, or it would never end.
    progressed: bool,
    /// Whether the row that the loops are at was given to the consumer.
    taken: bool,
    /// Whether a pause is possible at all. A blocking operator loses its state in one.
    can_pause: bool,
}

impl Loops {
    /// Loops over `sources` sources that begin at a position; what the position does not tell begins at 0.
    pub(crate) fn new(sources: usize, position: &[u64], can_pause: bool) -> Self {
        let begin = (0..sources).map(|level| position.get(level).copied().unwrap_or(0)).collect();
        Self { begin, at: smallvec![0; sources], progressed: false, taken: false, can_pause }
    }

    /// Where the loops resume: at the current row, or after it if it was given to the consumer.
    pub(crate) fn into_position(mut self) -> Vec<u64> {
        if let Some(last) = self.at.last_mut().filter(|_| self.taken) {
            *last += 1;
        }
        self.at.into_vec()
    }

    /// Whether the current row was given to the consumer, who wants no more for now.
    pub(crate) fn was_taken(&self) -> bool {
        self.taken
    }

    /// Moves the loop of a level; the loops inside it have not begun.
    fn move_to(&mut self, level: usize, index: u64) {
        self.at[level] = index;
        self.at[level + 1..].fill(0);
    }
}

/// How far the loop over one source has come.
struct Progress {
    level: usize,
    /// The first index that is wanted.
    first: u64,
    index: u64,
}

impl<'a> Machine<'a> {
    /// Says that the consumer took the current row and wants no more for now.
    pub(super) fn row_was_taken(&mut self) {
        if let Some(loops) = &mut self.loops {
            loops.taken = true;
        }
    }

    /// Calls `row` for each row the block's sources and filter give.
    pub(crate) fn each_row(
        &mut self,
        block: &'a Block,
        row: &mut dyn FnMut(&mut Self) -> Evaluated<Flow>,
    ) -> Evaluated<Flow> {
        self.join(block, &block.sources, row)
    }

    fn join(
        &mut self,
        block: &'a Block,
        sources: &'a [SourceCode],
        row: &mut dyn FnMut(&mut Self) -> Evaluated<Flow>,
    ) -> Evaluated<Flow> {
        self.meter.step()?;
        let Some((source, rest)) = sources.split_first() else {
            if self.loops.is_some() {
                self.meter.begin_row();
            }
            return match &block.filter {
                Some(filter) if !self.is_true(filter)? => Ok(Flow::More),
                _ => row(self),
            };
        };
        let level = block.sources.len() - sources.len();
        let first = self.loops.as_mut().map_or(0, |loops| std::mem::take(&mut loops.begin[level]));
        let mut progress = Progress { level, first, index: 0 };
        match &source.collection {
            CollectionCode::Value(code) => {
                let value = self.eval(code)?;
                self.bind(block, (source, rest), value, &mut progress, row)
            }
            CollectionCode::Block(inner) => {
                for value in self.rows_of(inner, None)? {
                    let flow = self.bind(block, (source, rest), value, &mut progress, row)?;
                    if flow != Flow::More {
                        return Ok(flow);
                    }
                }
                Ok(Flow::More)
            }
        }
    }

    /// Nested-loop join: continues with the value, or with each of its elements, in the slot of `source`.
    fn bind(
        &mut self,
        block: &'a Block,
        sources: (&SourceCode, &'a [SourceCode]),
        value: Datum<'a>,
        progress: &mut Progress,
        row: &mut dyn FnMut(&mut Self) -> Evaluated<Flow>,
    ) -> Evaluated<Flow> {
        match value {
            Datum::Undefined => Ok(Flow::More),
            value if !sources.0.elements => {
                self.iterate(block, sources, std::iter::once(value), progress, row)
            }
            Datum::Array(Cow::Borrowed(items)) => {
                self.iterate(block, sources, items.iter().map(Datum::of), progress, row)
            }
            Datum::Array(Cow::Owned(items)) => {
                self.iterate(block, sources, items.into_iter().map(Datum::owned), progress, row)
            }
            _ => Ok(Flow::More),
        }
    }

    fn iterate(
        &mut self,
        block: &'a Block,
        (source, rest): (&SourceCode, &'a [SourceCode]),
        mut values: impl ExactSizeIterator<Item = Datum<'a>>,
        progress: &mut Progress,
        row: &mut dyn FnMut(&mut Self) -> Evaluated<Flow>,
    ) -> Evaluated<Flow> {
        // What a run before this one has passed; `nth` skips the elements of a borrowed array at once.
        let passed = progress.first.saturating_sub(progress.index).min(values.len() as u64);
        if passed > 0 {
            values.nth(passed as usize - 1);
            progress.index += passed;
        }
        for value in values {
            if let Some(loops) = &mut self.loops {
                loops.move_to(progress.level, progress.index);
                if self.meter.is_exhausted() && loops.progressed {
                    return self.pause_here();
                }
            }
            self.frame[source.slot] = value;
            let flow = self.join(block, rest, row)?;
            if flow != Flow::More {
                return Ok(flow);
            }
            progress.index += 1;
            if let Some(loops) = &mut self.loops {
                loops.progressed = true;
            }
        }
        Ok(Flow::More)
    }

    fn pause_here(&self) -> Evaluated<Flow> {
        match self.loops.as_ref().is_some_and(|loops| loops.can_pause) {
            true => Ok(Flow::Paused),
            false => Err(EvalError::RunTooLong(self.meter.context().limits().max_steps)),
        }
    }
}
