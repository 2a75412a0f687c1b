//! The nested-loop join over the sources of a query.
//!
//! Where it stands is kept in `loops.rs`, so that a run can pause in the middle of one document's rows.

use std::borrow::Cow;

use super::code::{Block, CollectionCode, SourceCode};
use super::flow::{Evaluated, Flow};
use super::loops::Loops;
use super::machine::Machine;
use crate::error::EvalError;
use crate::value::Datum;

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
            loops.row_was_taken();
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
        let first = self.loops.as_mut().map_or(0, |loops| loops.enter(level));
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
                if self.meter.is_exhausted() && loops.has_progressed() {
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
                loops.iteration_ended();
            }
        }
        Ok(Flow::More)
    }

    fn pause_here(&self) -> Evaluated<Flow> {
        match self.loops.as_ref().is_some_and(Loops::can_pause) {
            true => Ok(Flow::Paused),
            false => Err(EvalError::RunTooLong(self.meter.context().limits().max_steps)),
        }
    }
}
