//! A query ready to run on one part of one partition after the other, and the budget it runs with.

use serde_json::Value;
use sidereal_query::{
    Context, DocumentMembers, EvalError, IndexCondition, Limits, Program, Run, Shape,
};

use super::order_by::{Boundary, SortOrder};
use super::parsed_query::{ParsedQuery, evaluation_context};
use crate::error::Result;
use crate::grease::Latitude;
use crate::request::ClassifiedRequest;
use crate::store::{Definition, Item};

/// The steps of a page whose rows stream: at their end it is cut, with a continuation. A second or two of work,
/// where the service cuts at five seconds: less than clients wait, and others of the same threads wait less.
const PAGE_STEPS: u64 = 20_000_000;

/// The steps of a query that needs every document before its first row. It cannot be cut, only refused, so it
/// gets more: enough to count the items of the largest partition that fits into memory.
const BLOCKING_STEPS: u64 = 200_000_000;

/// The most that such a query may hold, in bytes of JSON: several times as much in memory, for each of the queries that
/// are worked on at once.
const HELD_BYTES: usize = 32 * 1024 * 1024;

/// A query ready to run.
pub(super) struct Execution {
    pub(super) program: Program,
    pub(super) context: Context,
    /// Where rows follow their documents in an order, so that a page can resume at a value. The program then
    /// leaves the order to the scan that brings the documents.
    pub(super) order: Option<SortOrder>,
    /// Where the client wants the order to begin.
    pub(super) resume: Option<Boundary>,
    /// The conditions of the filter on paths, as far as the container indexes them.
    pub(super) condition: Option<IndexCondition>,
    /// The result of a page may be that of the documents that the page has read: the client merges.
    pub(super) is_partial: bool,
    /// The members of a document that the program reads.
    members: DocumentMembers,
    /// The members of a document that the filter reads, where those are fewer and the filter can be asked first.
    filter_members: Option<DocumentMembers>,
}

impl Execution {
    pub(super) fn new(
        request: &ClassifiedRequest,
        query: &ParsedQuery,
        program: Program,
        definition: &Definition,
    ) -> Result<Self> {
        let (program, order) = match SortOrder::of(query)? {
            Some(order) => (query.compile_unsorted()?, Some(order)),
            None => (program, None),
        };
        let max_steps = if streams(&program) { PAGE_STEPS } else { BLOCKING_STEPS };
        let limits = Limits { max_steps, max_buffered_bytes: HELD_BYTES, ..Limits::DEFAULT };
        let mut context = evaluation_context(request.now).with_limits(limits);
        if let Some(interruption) = request.interruption.clone() {
            context = context.watched_by(move || interruption.signal());
        }
        let resume = query.resume_filter.as_ref().map(Boundary::of_filter).transpose()?;
        let condition = query.index_condition().and_then(|told| definition.index.narrow(told));
        let members = program.members();
        let filter_members = program.filter_members().filter(|filter| *filter != members);
        let is_partial = request.takes(Latitude::PartialResults)
            && program.reads_documents()
            && query.tree.has_partial_results();
        Ok(Self { program, context, order, resume, condition, is_partial, members, filter_members })
    }

    /// The part of an item's document that the program reads; `None` if its filter leaves the item out.
    pub(super) fn document(
        &self,
        item: &Item,
        run: &mut Run<'_>,
    ) -> Result<Option<Value>, EvalError> {
        run.count_text(item.size())?;
        if let Some(members) = &self.filter_members
            && !run.passes_filter(&item.members(members))?
        {
            return Ok(None);
        }
        Ok(Some(item.members(&self.members)))
    }

    /// Whether rows come document by document, so that a page can end after any of them.
    pub(super) fn streams(&self) -> bool {
        streams(&self.program)
    }
}

fn streams(program: &Program) -> bool {
    program.shape() != Shape::Buffering && program.reads_documents()
}
