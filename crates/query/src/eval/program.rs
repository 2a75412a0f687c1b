//! The evaluator's entry point: a compiled query, and one execution of it over one partition.

use serde_json::Value;

use super::code::{Block, RowWindow};
use super::compile::{self, Names, Parameters};
use super::flow::Flow;
use super::machine::Machine;
use super::reads;
use super::run::Run;
use crate::context::Context;
use crate::error::{CompileError, EvalError};
use crate::members::DocumentMembers;
use crate::meter::Meter;
use crate::tree::{Collection, Query, Source};
use crate::value::Datum;

/// A compiled query: names resolved, parameters bound.
///
/// Independent of any document; compiled once, run any number of times.
#[derive(Debug)]
pub struct Program {
    /// The query in `FROM (…)` whose rows this one reads in place of documents.
    pub(super) inner: Option<Box<Program>>,
    pub(super) block: Block,
    pub(super) slots: usize,
    pub(super) reads_documents: bool,
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

/// Counters of a run so far.
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
    /// user-defined function count as undefined, because the partitions that run it will have them.
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

    /// The members of a document that a run reads. A row that is the document whole
    /// ([`Row::is_document`](crate::Row::is_document)) is not among them if rows stream: it is taken from the
    /// document's text.
    pub fn members(&self) -> DocumentMembers {
        let Some(mut innermost) = self.inner.as_deref() else {
            return reads::of_query(&self.block, self.shape() != Shape::Buffering);
        };
        // Documents are read by the innermost query alone; the others read its rows.
        while let Some(inner) = innermost.inner.as_deref() {
            innermost = inner;
        }
        reads::of_query(&innermost.block, false)
    }

    /// The members that the filter reads, where it can be asked by itself, before a document is parsed for the
    /// rest: not where a join gives several rows, or where evaluating it twice would draw two random numbers.
    pub fn filter_members(&self) -> Option<DocumentMembers> {
        let filter = self.block.filter.as_ref().filter(|_| self.inner.is_none())?;
        if self.block.has_loops() { None } else { reads::of_filter(filter) }
    }

    /// The number of sources: the length of a whole [`position`](Run::position).
    pub(super) fn depth(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.depth()) + self.block.sources.len()
    }

    /// Starts a run.
    pub fn start<'p>(&'p self, context: &'p Context) -> Run<'p> {
        // Without documents there is none at which another run could go on.
        let can_pause = self.shape() != Shape::Buffering && self.reads_documents();
        Run::new(self, context, can_pause)
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
        let mut machine = Machine::new(Meter::new(context), self.slots, Datum::of(document));
        let flow = machine.each_row(&self.block, &mut |_| Ok(Flow::Enough))?;
        Ok(flow == Flow::Enough)
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
