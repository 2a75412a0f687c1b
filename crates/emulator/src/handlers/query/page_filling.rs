//! Filling a page from one slice after the other: how items become rows, and where the page ends.
//!
//! Reading stops where the page is full. A page after which no item is left to read has no continuation; what is left may
//! give no row, also the rest of an item that gives several, so a page may be empty. Results that are computed first, and windows that are used up, end with their last row.

use sidereal_protocol::CosmosStatus;
use sidereal_query::{EvalError, Flow, Row, Run, Shape, Taken};

use super::access::{self, Chosen};
use super::continuation::{Continuation, ContinuationToken, MAX_PADDING};
use super::execution::Execution;
use super::order_by::Boundary;
use super::page::Page;
use super::scan::Scan;
use crate::error::{Result, ServiceError};
use crate::grease::Latitude;
use crate::handlers::target::Slice;
use crate::request::ClassifiedRequest;
use crate::store::Item;

/// A page being filled, and what it took.
pub(super) struct PageFilling<'a> {
    pub(super) request: &'a ClassifiedRequest,
    pub(super) page: Page,
    /// Documents that were evaluated, for the charge.
    pub(super) evaluated: usize,
    /// Index ranges that were looked up, for the charge.
    pub(super) lookups: usize,
    /// Steps that were evaluated, of all slices together.
    pub(super) steps: u64,
    exhausted: bool,
    /// The most documents that are evaluated.
    max_evaluated: usize,
}

/// The most documents of a page that ends before it is full.
const MOST_OF_SHORT_PAGE: u64 = 4;

impl<'a> PageFilling<'a> {
    pub(super) fn new(request: &'a ClassifiedRequest, page: Page) -> Self {
        let max_evaluated = match &request.draw {
            Some(draw) if draw.takes(Latitude::EmptyPages) => 0,
            Some(draw) if draw.takes(Latitude::ShortPages) => {
                1 + draw.below(Latitude::ShortPages, 1, MOST_OF_SHORT_PAGE) as usize
            }
            _ => usize::MAX,
        };
        Self { request, page, evaluated: 0, lookups: 0, steps: 0, exhausted: false, max_evaluated }
    }

    /// Whether the page takes no more: it is full, or its budget is spent.
    pub(super) fn is_over(&self) -> bool {
        self.page.is_full() || self.exhausted || self.evaluated >= self.max_evaluated
    }

    /// The token of the page after this one, given the pages and rows before it.
    pub(super) fn token(
        &self,
        (pages, rows): (u64, u64),
        position: Continuation,
    ) -> ContinuationToken {
        // Saturating: a client may have put any number into its token.
        let rows = rows.saturating_add(self.page.len() as u64);
        let padding = match &self.request.draw {
            Some(draw) if draw.takes(Latitude::LongContinuations) => {
                draw.below(Latitude::LongContinuations, 0, MAX_PADDING as u64) as usize
            }
            _ => 0,
        };
        ContinuationToken { position, pages: pages.saturating_add(1), rows, padding }
    }

    /// Where to resume after an item, unless it was the last one. A page that ends before it is full does not look.
    fn unless_read(&self, items: &mut Scan<'_>, last: Continuation) -> Option<Continuation> {
        let may_look = self.max_evaluated == usize::MAX;
        (!may_look || items.next().is_some()).then_some(last)
    }

    /// Where to resume in the slices after a full page; none if they have no items.
    pub(super) fn first_with_items(
        &self,
        slices: &[Slice],
        first: Continuation,
    ) -> Option<Continuation> {
        let may_look = self.max_evaluated == usize::MAX;
        let has_items = |slice: &Slice| {
            let from = first.for_partition(&slice.partition);
            Scan::in_order(self.request, slice, from.position()).next().is_some()
        };
        (!may_look || slices.iter().any(has_items)).then_some(first)
    }

    /// Fills the page from one slice; returns where to resume if the slice may have more.
    pub(super) fn fill(
        &mut self,
        slice: &Slice,
        from: &Continuation,
        query: Option<&Execution>,
    ) -> Result<Option<Continuation>> {
        if self.is_over() {
            return Ok(Some(from.clone()));
        }
        match query {
            None => Ok(self.fill_items(slice, from)),
            Some(execution) if execution.streams() => self.fill_streaming(slice, from, execution),
            // Only a single document's rows are paged through by their numbers.
            Some(execution) if execution.is_partial && from.returned > 0 => {
                self.fill_buffered(slice, from, execution, 1)
            }
            Some(execution) if execution.is_partial => self.fill_partially(slice, from, execution),
            Some(execution) => self.fill_buffered(slice, from, execution, usize::MAX),
        }
    }

    fn fill_items(&mut self, slice: &Slice, from: &Continuation) -> Option<Continuation> {
        let mut last = from.clone();
        let mut items = Scan::in_order(self.request, slice, from.position());
        while let Some(item) = items.next() {
            if !self.page.push_item(&item) {
                return Some(last);
            }
            self.evaluated += 1;
            last = Continuation { ordinal: Some(item.ordinal), ..last };
            if self.is_over() {
                return self.unless_read(&mut items, last);
            }
        }
        None
    }

    /// Rows come document by document, so the page can end after any of them.
    fn fill_streaming(
        &mut self,
        slice: &Slice,
        from: &Continuation,
        execution: &Execution,
    ) -> Result<Option<Continuation>> {
        let mut run = execution.program.start(&execution.context).having_spent(self.steps);
        if let Some(progress) = from.progress() {
            run = run.resumed_at(progress);
        }
        let ended = self.read_all(slice, from, execution, &mut run);
        self.steps = run.steps();
        self.exhausted = run.is_exhausted();
        ended
    }

    fn read_all(
        &mut self,
        slice: &Slice,
        from: &Continuation,
        execution: &Execution,
        run: &mut Run<'_>,
    ) -> Result<Option<Continuation>> {
        let ended = |item: &Item, run: &Run<'_>, within: &[u64]| Continuation {
            ordinal: Some(item.ordinal),
            within: within.to_vec(),
            keys: execution.order.as_ref().map(|order| order.keys_to_json(item)),
            window: (execution.program.shape() == Shape::Counting)
                .then(|| (run.progress().skip, run.progress().take)),
            ..from.clone()
        };
        let mut items = self.items(slice, from, execution);
        while let Some(item) = items.next() {
            self.evaluated += 1;
            // Only of the document that it was interrupted in: another partition may have it since a split, or
            // nobody since a delete.
            let is_interrupted = Some(item.ordinal) == from.ordinal;
            let within = if is_interrupted { from.within.as_slice() } else { &[] };
            let document = execution.document(&item, run).map_err(evaluation_refused)?;
            let page = &mut self.page;
            let mut take = |row: Row<'_>| match page.push_row(&row, Some(&item)) {
                false => Taken::Refused,
                true if page.is_full() => Taken::Last,
                true => Taken::More,
            };
            let flow = match document {
                Some(document) => run.read(&document, within, &mut take),
                None => Ok(Flow::More),
            };
            match flow.map_err(evaluation_refused)? {
                Flow::Enough => return Ok(None),
                // The next page reads this document again, from the row after the last one on.
                Flow::Paused => return Ok(Some(ended(&item, run, run.position()))),
                Flow::More if self.is_over() || run.is_exhausted() => {
                    let last = ended(&item, run, &[]);
                    return Ok(self.unless_read(&mut items, last));
                }
                Flow::More => {}
            }
        }
        Ok(None)
    }

    /// The items of a slice from a continuation on, in the order of the query.
    fn items<'s>(
        &mut self,
        slice: &'s Slice,
        from: &Continuation,
        execution: &'s Execution,
    ) -> Scan<'s>
    where
        'a: 's,
    {
        let position = from.position();
        let Chosen { access, lookups } = access::choose(self.request, slice, execution, position);
        self.lookups += lookups;
        let Some(order) = &execution.order else {
            return Scan::by(self.request, slice, access, position);
        };
        let boundary = Boundary::of_continuation(from).or_else(|| execution.resume.clone());
        Scan::sorted(self.request, slice, access, order, order.bound_at(boundary.as_ref()))
    }

    /// The result of the next documents alone, as many as the page reads and as its rows have room for.
    fn fill_partially(
        &mut self,
        slice: &Slice,
        from: &Continuation,
        execution: &Execution,
    ) -> Result<Option<Continuation>> {
        let mut most = self.max_evaluated.saturating_sub(self.evaluated);
        let (filled, evaluated) = (self.page.filled(), self.evaluated);
        loop {
            let next = self.fill_buffered(slice, from, execution, most)?;
            let is_cut = next.as_ref().is_some_and(|next| next.returned > 0);
            if !is_cut || most == 1 || self.evaluated == evaluated {
                return Ok(next);
            }
            most = ((self.evaluated - evaluated) / 2).max(1);
            self.page.back_to(filled);
            self.evaluated = evaluated;
        }
    }

    /// All rows of `most` documents are computed for every page, and those already returned are skipped by number:
    /// offset pagination, the only kind that aggregates and DISTINCT allow. Reading stops as soon as a row does not
    /// fit.
    fn fill_buffered(
        &mut self,
        slice: &Slice,
        from: &Continuation,
        execution: &Execution,
        most: usize,
    ) -> Result<Option<Continuation>> {
        let start = from.position();
        let Chosen { access, lookups } = access::choose(self.request, slice, execution, start);
        let mut run = execution.program.start(&execution.context);
        let mut rows = 0;
        let page = &mut self.page;
        let mut take = |row: Row<'_>| {
            if rows < from.returned || page.push_row(&row, None) {
                rows += 1;
                return Taken::More;
            }
            Taken::Refused
        };
        let mut flow = Flow::More;
        // The work is charged once, with the first page.
        let charged = usize::from(from.returned == 0);
        let (mut read, mut last) = (0, None);
        for item in Scan::by(self.request, slice, access, start) {
            if read == most {
                break;
            }
            (read, last) = (read + 1, Some(item.ordinal));
            self.evaluated += charged;
            let document = execution.document(&item, &mut run).map_err(evaluation_refused)?;
            let Some(document) = document else { continue };
            flow = run.read(&document, &[], &mut take).map_err(evaluation_refused)?;
            if flow != Flow::More {
                break;
            }
        }
        self.lookups += charged * lookups;
        if flow != Flow::Paused {
            flow = run.finish_into(&mut take).map_err(evaluation_refused)?;
        }
        self.steps += charged as u64 * run.steps();
        if flow == Flow::Paused {
            return Ok(Some(Continuation { returned: rows, ..from.clone() }));
        }
        let after_last =
            |ordinal| Continuation { ordinal: Some(ordinal), returned: 0, ..from.clone() };
        Ok(last.filter(|_| read == most).map(after_last))
    }
}

fn evaluation_refused(error: EvalError) -> ServiceError {
    match error {
        EvalError::Cancelled => ServiceError::new(
            CosmosStatus::SERVICE_UNAVAILABLE,
            "The query was cancelled: its client is gone, or the account is shutting down.",
        ),
        error => ServiceError::bad_request(error.to_string()),
    }
}
