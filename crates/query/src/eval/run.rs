//! One execution of a program: documents in, rows out, one at a time.
//!
//! The consumer of rows decides after each whether it wants more. A run whose rows stream can stop between any
//! two of them and be resumed by another run at the same document, at the [`position`](Run::position).

use serde_json::Value;

use super::code::RowWindow;
use super::flow::{Evaluated, Flow, Taken};
use super::loops::Loops;
use super::machine::Machine;
use super::program::{Counters, Program, Progress};
use super::row::Row;
use super::row_pipeline::RowPipeline;
use crate::context::Context;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

/// Where rows go.
type Sink<'s> = &'s mut dyn FnMut(Row<'_>) -> Taken;

/// One execution of a [`Program`].
#[derive(Debug)]
pub struct Run<'p> {
    program: &'p Program,
    inner: Option<Box<Run<'p>>>,
    pipeline: RowPipeline<'static>,
    counters: Counters,
    meter: Meter<'p>,
    /// Whether the run can stop within a document; a blocking operator cannot.
    can_pause: bool,
    position: Vec<u64>,
}

impl<'p> Run<'p> {
    pub(super) fn new(program: &'p Program, context: &'p Context, can_pause: bool) -> Self {
        let inner = program.inner.as_deref();
        Self {
            program,
            inner: inner.map(|inner| Box::new(Self::new(inner, context, can_pause))),
            pipeline: RowPipeline::new(&program.block),
            counters: Counters::default(),
            meter: Meter::new(context),
            can_pause,
            position: Vec::new(),
        }
    }

    /// Reads a document and gives its rows to `sink`, from a position on; an empty one is the beginning.
    ///
    /// [`Flow::Enough`] means that no later document can add a row. [`finish_into`](Self::finish_into) is due
    /// in any case but after [`Flow::Paused`].
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn read(
        &mut self,
        document: &Value,
        from: &[u64],
        sink: Sink<'_>,
    ) -> Result<Flow, EvalError> {
        if !self.program.reads_documents() {
            return Ok(Flow::Enough);
        }
        self.counters.documents_loaded += 1;
        let Some(mut inner) = self.inner.take() else {
            return self.read_row(document, from, sink);
        };
        let flow = self.read_through(&mut inner, document, from, sink);
        self.counters.documents_matched = inner.counters.documents_matched;
        self.inner = Some(inner);
        flow
    }

    /// Whether the filter lets a document pass, of which the
    /// [members of the filter](Program::filter_members) are enough.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn passes_filter(&mut self, document: &Value) -> Result<bool, EvalError> {
        let Program { slots, block, .. } = self.program;
        let mut machine = Machine::new(self.meter.clone(), *slots, Datum::of(document));
        machine.meter.begin_row();
        let flow = machine.each_row(block, &mut |_| Ok(Flow::Enough))?;
        self.meter.go_on_from(&machine.meter);
        Ok(flow == Flow::Enough)
    }

    /// Gives the rows of blocking operators, which need every document first.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn finish_into(&mut self, sink: Sink<'_>) -> Result<Flow, EvalError> {
        if let Some(mut inner) = self.inner.take() {
            let mut outcome = Ok(Flow::More);
            inner.finish_into(&mut |row| {
                outcome = self.read_row(&row.into_value(), &[], sink);
                taken_by(&outcome)
            })?;
            if outcome? == Flow::Paused {
                return Ok(Flow::Paused);
            }
        } else if !self.program.reads_documents {
            let flow = self.read_row(&Value::Null, &[], sink)?;
            if flow == Flow::Paused {
                return Ok(flow);
            }
        }
        let Program { slots, block, .. } = self.program;
        let mut machine = Machine::new(self.meter.clone(), *slots, Datum::Undefined);
        let (pipeline, counters) = (&mut self.pipeline, &mut self.counters);
        let out = &mut give_to(sink, &Value::Null, counters);
        let flow = pipeline.finish(&mut machine, block, Datum::into_owned, out)?;
        self.meter.go_on_from(&machine.meter);
        Ok(flow)
    }

    /// Reads the next document, appending the rows that are ready.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn feed(&mut self, document: &Value, rows: &mut Vec<Value>) -> Result<Flow, EvalError> {
        let flow = self.read(document, &[], &mut |row| {
            rows.push(row.into_value());
            Taken::More
        })?;
        // A caller that takes the rows of a document at once cannot resume between them.
        if flow == Flow::Paused || self.is_exhausted() {
            return Err(self.too_long());
        }
        Ok(flow)
    }

    /// Appends the rows of blocking operators, which need every document first.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn finish(&mut self, rows: &mut Vec<Value>) -> Result<(), EvalError> {
        self.finish_into(&mut |row| {
            rows.push(row.into_value());
            Taken::More
        })?;
        Ok(())
    }

    /// After [`Flow::Paused`], where in the rows of its document the run stopped: one index per source.
    pub fn position(&self) -> &[u64] {
        &self.position
    }

    /// Counts the steps of an earlier run of the same request as this one's.
    #[must_use]
    pub fn having_spent(mut self, steps: u64) -> Self {
        self.meter.go_on_at(steps);
        self
    }

    /// Whether the run has had its steps, or its time: it should not be given another document.
    pub fn is_exhausted(&self) -> bool {
        self.meter.is_exhausted() || self.inner.as_ref().is_some_and(|inner| inner.is_exhausted())
    }

    /// The work done so far, in steps.
    pub fn steps(&self) -> u64 {
        self.meter.steps() + self.inner.as_ref().map_or(0, |inner| inner.steps())
    }

    /// Counts the reading of a document's text as work of the run.
    ///
    /// # Errors
    ///
    /// If the run was cancelled, or a query that cannot stream has passed its limit.
    pub fn count_text(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.meter.begin_row();
        self.meter.touch(bytes)?;
        match self.is_exhausted() && !self.can_pause {
            true => Err(self.too_long()),
            false => Ok(()),
        }
    }

    /// How far a run of [`Shape::Counting`](crate::Shape::Counting) has come.
    pub fn progress(&self) -> Progress {
        let RowWindow { skip, take } = self.pipeline.window();
        Progress { skip, take }
    }

    /// Continues where an earlier run left off.
    #[must_use]
    pub fn resumed_at(mut self, progress: Progress) -> Self {
        self.pipeline.set_window(RowWindow { skip: progress.skip, take: progress.take });
        self
    }

    /// Counters of the run so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Reads the rows that the inner query makes of a document.
    fn read_through(
        &mut self,
        inner: &mut Self,
        document: &Value,
        from: &[u64],
        sink: Sink<'_>,
    ) -> Result<Flow, EvalError> {
        let (inner_from, mut own_from) = from.split_at(inner.program.depth().min(from.len()));
        let mut outcome = Ok(Flow::More);
        let flow = inner.read(document, inner_from, &mut |row| {
            // A position within the rows of a row is one of the first row alone.
            outcome = self.read_row(&row.into_value(), std::mem::take(&mut own_from), sink);
            taken_by(&outcome)
        })?;
        match outcome? {
            Flow::Enough => Ok(Flow::Enough),
            Flow::Paused => {
                // Refused by this run, the inner one stands at the row that this one is within.
                self.position.splice(..0, inner.position.iter().copied());
                Ok(Flow::Paused)
            }
            Flow::More => {
                self.position.clone_from(&inner.position);
                Ok(flow)
            }
        }
    }

    /// Reads a document, or a row of the inner query.
    fn read_row(
        &mut self,
        document: &Value,
        from: &[u64],
        sink: Sink<'_>,
    ) -> Result<Flow, EvalError> {
        if self.pipeline.window().take == Some(0) {
            return Ok(Flow::Enough);
        }
        if self.meter.is_exhausted() && !self.can_pause {
            return Err(self.too_long());
        }
        let Program { slots, block, .. } = self.program;
        let mut machine = Machine::new(self.meter.clone(), *slots, Datum::of(document));
        machine.loops = Some(Loops::new(block.sources.len(), from, self.can_pause));
        self.pipeline.next_document();
        let (pipeline, counters) = (&mut self.pipeline, &mut self.counters);
        let mut matched = false;
        let flow = machine.each_row(block, &mut |machine| {
            matched = true;
            let out = &mut give_to(sink, document, counters);
            pipeline.row(machine, block, Datum::into_owned, out)
        })?;
        if self.inner.is_none() {
            self.counters.documents_matched += u64::from(matched);
        }
        let loops = machine.loops.take().unwrap_or_default();
        self.meter.go_on_from(&machine.meter);
        // A document without joins has one row at most: taken, it is over.
        let is_over = flow == Flow::Paused && loops.was_taken() && !block.has_loops();
        let flow = if is_over { Flow::More } else { flow };
        if flow == Flow::Paused {
            self.position = loops.into_position();
        }
        Ok(flow)
    }

    fn too_long(&self) -> EvalError {
        EvalError::RunTooLong(self.meter.context().limits().max_steps)
    }
}

/// Gives the rows of a pipeline to the consumer of a run.
fn give_to<'a, 's>(
    sink: Sink<'s>,
    document: &'s Value,
    counters: &'s mut Counters,
) -> impl FnMut(&Meter<'_>, Datum<'a>) -> Evaluated<Taken> + 's {
    move |_, value| {
        let taken = sink(Row::new(value, document));
        counters.rows += u64::from(taken != Taken::Refused);
        Ok(taken)
    }
}

/// The answer of a run to a row of its inner one.
fn taken_by(outcome: &Result<Flow, EvalError>) -> Taken {
    match outcome {
        Ok(Flow::More) => Taken::More,
        Ok(Flow::Enough) => Taken::Last,
        Ok(Flow::Paused) | Err(_) => Taken::Refused,
    }
}
