//! The evaluator's entry point: a compiled query, and one execution of it over one partition.

use serde_json::Value;

use super::code::{Block, RowWindow};
use super::compile::{self, Names, Parameters};
use super::context::Context;
use super::machine::{Flow, Machine};
use super::row_pipeline::RowPipeline;
use crate::error::{CompileError, EvalError};
use crate::tree::{Collection, Query, Source};
use crate::value::Datum;

/// A compiled query: names resolved, parameters bound.
///
/// Independent of any document; compiled once, run any number of times.
#[derive(Debug)]
pub struct Program {
    /// The query in `FROM (…)` whose rows this one reads in place of documents.
    inner: Option<Box<Program>>,
    block: Block,
    slots: usize,
    reads_documents: bool,
}

/// The state that a run carries from one document to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Stateless: each document gives its rows whatever came before.
    Streaming,
    /// How many rows of `TOP` or `OFFSET … LIMIT` are left: a [`Progress`].
    Counting,
    /// A blocking operator's state, too large for a continuation: sorting, grouping, aggregates, `DISTINCT`.
    Buffering,
}

/// How far a run of [`Shape::Counting`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Rows still to leave out.
    pub skip: u64,
    /// Rows still to give, if there is a limit.
    pub take: Option<u64>,
}

/// What a run has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Documents read.
    pub documents_loaded: u64,
    /// Documents that passed the filter at least once.
    pub documents_matched: u64,
    /// Rows given.
    pub rows: u64,
}

impl Program {
    /// Compiles a query to learn its shape, not to run it: a parameter without a value and a
    /// user-defined function count as undefined, because whoever runs it will have them.
    pub(crate) fn for_planning(
        query: &Query,
        parameters: &Parameters,
    ) -> Result<Self, CompileError> {
        Self::compiled(query, parameters, Names::Assumed)
    }

    /// Compiles a query with values for its parameters.
    ///
    /// # Errors
    ///
    /// If the query means nothing: an unknown name, a missing parameter, a misplaced aggregate.
    pub fn new(query: &Query, parameters: &Parameters) -> Result<Self, CompileError> {
        Self::compiled(query, parameters, Names::Required)
    }

    fn compiled(
        query: &Query,
        parameters: &Parameters,
        names: Names,
    ) -> Result<Self, CompileError> {
        let inner = match rows_of(query) {
            Some(inner) => Some(Box::new(Self::compiled(inner, parameters, names)?)),
            None => None,
        };
        let compiled = compile::compile(query, parameters, names, inner.is_some())?;
        let compile::Outcome { block, slots, reads_documents } = compiled;
        Ok(Self { inner, block, slots, reads_documents })
    }

    /// The state that a run carries from one document to the next.
    pub fn shape(&self) -> Shape {
        let inner = self.inner.as_ref().map_or(Shape::Streaming, |inner| inner.shape());
        if inner != Shape::Streaming || !self.block.streams() || self.block.distinct {
            return Shape::Buffering;
        }
        match self.block.window {
            RowWindow { skip: 0, take: None } => Shape::Streaming,
            _ => Shape::Counting,
        }
    }

    /// Whether rows depend on documents at all; `SELECT 1` has its row without any.
    pub fn reads_documents(&self) -> bool {
        match &self.inner {
            Some(inner) => inner.reads_documents(),
            None => self.reads_documents,
        }
    }

    /// Starts a run.
    pub fn start<'p>(&'p self, context: &'p Context) -> Run<'p> {
        Run {
            program: self,
            context,
            inner: self.inner.as_ref().map(|inner| Box::new(inner.start(context))),
            pipeline: RowPipeline::new(&self.block),
            counters: Counters::default(),
        }
    }

    /// Runs over all the documents of a partition, in RID order.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn run<'d>(
        &self,
        documents: impl IntoIterator<Item = &'d Value>,
        context: &Context,
    ) -> Result<Vec<Value>, EvalError> {
        let mut rows = Vec::new();
        let mut run = self.start(context);
        for document in documents {
            if run.feed(document, &mut rows)? == Flow::Enough {
                break;
            }
        }
        run.finish(&mut rows)?;
        Ok(rows)
    }

    /// Whether a document gives at least one row: its `FROM` and `WHERE` accept it.
    pub(crate) fn accepts(&self, document: &Value, context: &Context) -> Result<bool, EvalError> {
        if self.inner.is_some() {
            return self.run([document], context).map(|rows| !rows.is_empty());
        }
        let mut machine = Machine::new(context, self.slots, Datum::of(document));
        let flow = machine.each_row(&self.block, &mut |_| Ok(Flow::Enough))?;
        Ok(flow == Flow::Enough)
    }
}

/// One execution of a [`Program`]: documents in, rows out.
#[derive(Debug)]
pub struct Run<'p> {
    program: &'p Program,
    context: &'p Context,
    inner: Option<Box<Run<'p>>>,
    pipeline: RowPipeline<'static>,
    counters: Counters,
}

impl Run<'_> {
    /// Reads the next document, appending the rows that are ready.
    ///
    /// [`Flow::Enough`] means that no later document can add a row. [`finish`](Self::finish) is
    /// due in any case.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn feed(&mut self, document: &Value, rows: &mut Vec<Value>) -> Result<Flow, EvalError> {
        if !self.program.reads_documents() {
            return Ok(Flow::Enough);
        }
        self.counters.documents_loaded += 1;
        let Some(inner) = &mut self.inner else { return self.read(document, rows) };
        let mut between = Vec::new();
        let flow = inner.feed(document, &mut between)?;
        self.counters.documents_matched = inner.counters.documents_matched;
        let own = self.read_all(&between, rows)?;
        Ok(if own == Flow::Enough { own } else { flow })
    }

    /// Appends the rows of blocking operators, which need every document first.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn finish(&mut self, rows: &mut Vec<Value>) -> Result<(), EvalError> {
        if let Some(mut inner) = self.inner.take() {
            let mut between = Vec::new();
            inner.finish(&mut between)?;
            self.read_all(&between, rows)?;
        } else if !self.program.reads_documents {
            self.read(&Value::Null, rows)?;
        }
        let program = self.program;
        let mut machine = Machine::new(self.context, program.slots, Datum::Undefined);
        let last = self.pipeline.finish(&mut machine, &program.block, Datum::into_owned)?;
        self.give(last, rows);
        Ok(())
    }

    /// How far a run of [`Shape::Counting`] has come.
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

    /// What the run has done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn read_all(&mut self, inputs: &[Value], rows: &mut Vec<Value>) -> Result<Flow, EvalError> {
        for input in inputs {
            if self.read(input, rows)? == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    fn read(&mut self, document: &Value, rows: &mut Vec<Value>) -> Result<Flow, EvalError> {
        if self.pipeline.window().take == Some(0) {
            return Ok(Flow::Enough);
        }
        let program = self.program;
        let mut machine = Machine::new(self.context, program.slots, Datum::of(document));
        self.pipeline.next_document();
        let pipeline = &mut self.pipeline;
        let mut matched = false;
        let flow = machine.each_row(&program.block, &mut |machine| {
            matched = true;
            pipeline.row(machine, &program.block, Datum::into_owned)
        })?;
        if self.inner.is_none() {
            self.counters.documents_matched += u64::from(matched);
        }
        if program.block.streams() {
            let ready: Vec<_> = self.pipeline.drain().collect();
            self.give(ready, rows);
        }
        Ok(flow)
    }

    fn give(&mut self, ready: Vec<Datum<'static>>, rows: &mut Vec<Value>) {
        self.counters.rows += ready.len() as u64;
        rows.extend(ready.into_iter().filter_map(Datum::into_value));
    }
}

/// The query whose rows the first source of `query` reads.
fn rows_of(query: &Query) -> Option<&Query> {
    match &query.from.as_ref()?.source {
        Source::Collection { collection: Collection::Subquery(inner), .. }
        | Source::Elements { collection: Collection::Subquery(inner), .. } => Some(inner),
        _ => None,
    }
}
