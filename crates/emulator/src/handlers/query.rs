//! Queries and the feed of items.
//!
//! A query runs on one part of one partition after the other, in the order of the key space, until a page
//! is full. Which partitions those are is decided in `query_routing`.

use std::time::Instant;

use sidereal_protocol::headers::names as headers;
use sidereal_query::{Context, Flow, Program, Shape};

use super::continuation::{Continuation, ContinuationToken};
use super::items::PartitionHeaders;
use super::order_by::{Boundary, SortOrder};
use super::page::Page;
use super::parsed_query::{ParsedQuery, evaluation_context};
use super::query_routing;
use super::target::{Slice, Target};
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Container, Definition, OrderByRefusal, Position, Replica, ReplicaProgress};

/// `POST …/docs` with a query.
pub(crate) fn run(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let query = ParsedQuery::from_body(&request.body)?;
    let program = query.compile()?;
    check_order_by(&query, &definition)?;
    let target = query_routing::route(request, container, &definition, &query, program.shape())?;
    let execution = Execution {
        program: &program,
        context: &evaluation_context(request.now),
        order: SortOrder::of(&query)?,
        resume: query.resume_filter.as_ref().map(Boundary::of_filter).transpose()?,
    };
    serve(account, request, container, &target, Some(&execution))
}

/// A query ready to run on one part of one partition after the other.
struct Execution<'a> {
    program: &'a Program,
    context: &'a Context,
    /// Where rows follow their documents in an order, so that a page can resume at a value.
    order: Option<SortOrder>,
    /// Where the client wants the order to begin.
    resume: Option<Boundary>,
}

/// `GET …/docs`: every item, a page at a time.
pub(crate) fn read_feed(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let target = Target::of(request, container, &container.definition())?;
    serve(account, request, container, &target, None)
}

fn check_order_by(query: &ParsedQuery, definition: &Definition) -> Result<()> {
    match definition.index.serves(&query.order_by_paths()?) {
        Ok(()) => Ok(()),
        Err(OrderByRefusal::ExcludedPath) => Err(ServiceError::bad_request(
            "The index path corresponding to the specified order-by item is excluded.",
        )),
        Err(OrderByRefusal::NoCompositeIndex) => Err(ServiceError::bad_request(
            "The order by query does not have a corresponding composite index that it can be served from.",
        )),
    }
}

/// Fills one page from the slices of a target and says where the next one begins.
fn serve(
    account: &AccountState,
    request: &ClassifiedRequest,
    container: &Container,
    target: &Target,
    query: Option<&Execution<'_>>,
) -> Result<Reply> {
    let slices = target.slices();
    let Some(first) = slices.first() else {
        return Ok(Page::new(None).into_reply(container.rid));
    };
    let sent = request.typed().continuation()?;
    let token = sent.map(ContinuationToken::parse).transpose()?;
    let start = || Continuation::start_of(first.partition.id.as_str());
    let resume = token.as_ref().map_or_else(start, |token| token.position.clone());
    let begin = slices.iter().position(|slice| slice.partition.descends_from(&resume.range));
    let foreign = || ServiceError::invalid_continuation(sent.unwrap_or_default());
    let begin = begin.ok_or_else(foreign)?;
    let page = Page::new(request.max_item_count()?);
    let mut serving = Serving { request, started: Instant::now(), page, evaluated: 0 };
    let mut from = resume.for_partition(&slices[begin].partition);
    let (mut next, mut last) = (None, (first, None));
    for (index, slice) in slices.iter().enumerate().skip(begin) {
        account.admit(container, &slice.partition, request.now)?;
        // The read lock of one partition at a time, for as long as its rows are taken: a page is consistent
        // within a partition and not across them.
        let replica = request.view(&slice.partition);
        let progress = ReplicaProgress::of(&replica);
        account.check_session(request, &slice.partition, &progress)?;
        last = (slice, Some(progress));
        next = serving.fill(slice, &replica, &from, query)?;
        let Some(following) = slices.get(index + 1).filter(|_| next.is_none()) else { break };
        from = from.for_partition(&following.partition);
        if serving.page.is_full() {
            next = Some(from);
            break;
        }
    }
    let units = serving.charge(query.is_some(), token.is_none());
    account.spend(&last.0.partition, request.now, units);
    let (slice, progress) = last;
    let Some(progress) = progress else { return Ok(Page::new(None).into_reply(container.rid)) };
    let partition_headers =
        PartitionHeaders { request, container, partition: &slice.partition, progress };
    let served = token.map_or((0, 0), |token| (token.pages, token.rows));
    let next = next.map(|position| serving.token(served, position));
    let reply = partition_headers.add_to(serving.into_reply(container)?).charged(units);
    Ok(match next {
        Some(next) => {
            reply.with(headers::CONTINUATION, next_page(request, container, slices, &next)?)
        }
        None => reply,
    })
}

/// The token of the next page, in the form that the request's way of naming its range asks for.
fn next_page(
    request: &ClassifiedRequest,
    container: &Container,
    slices: &[Slice],
    token: &ContinuationToken,
) -> Result<String> {
    let mut partitions = slices.iter().map(|slice| &slice.partition);
    let partition = partitions.find(|it| it.id.as_str() == token.position.range);
    let names_range = request.typed().text(&headers::PARTITION_KEY_RANGE_ID)?.is_some();
    Ok(match partition.filter(|_| !names_range) {
        Some(partition) => token.to_list(container.rid, &partition.range),
        None => token.to_text(container.rid),
    })
}

/// A page being filled, and what it took.
struct Serving<'a> {
    request: &'a ClassifiedRequest,
    started: Instant,
    page: Page,
    /// Documents that were evaluated, for the charge.
    evaluated: usize,
}

impl Serving<'_> {
    /// The token of the page after this one, given the pages and rows before it.
    fn token(&self, (pages, rows): (u64, u64), position: Continuation) -> ContinuationToken {
        // Saturating: a client may have put any number into its token.
        let rows = rows.saturating_add(self.page.len() as u64);
        ContinuationToken { position, pages: pages.saturating_add(1), rows }
    }

    /// Fills the page from one slice; returns where to resume if the slice may have more.
    ///
    /// As on the service, reading stops where the page is full. Whether there is more only the next page
    /// tells, and it may be empty. Results that are computed first, and windows that are used up, end with
    /// their last row.
    fn fill(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        query: Option<&Execution<'_>>,
    ) -> Result<Option<Continuation>> {
        let Some(execution) = query else { return self.fill_items(slice, replica, from) };
        let program = execution.program;
        match &execution.order {
            Some(order) => self.fill_sorted(slice, replica, from, execution, order),
            None if program.shape() == Shape::Buffering || !program.reads_documents() => {
                self.fill_buffered(slice, replica, from, execution)
            }
            None => self.fill_streaming(slice, replica, from, execution),
        }
    }

    fn fill_items(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
    ) -> Result<Option<Continuation>> {
        let mut last = from.clone();
        for item in slice.items(replica, from.position(), self.request.now.seconds()) {
            if !self.page.push(&item.document) {
                return Ok(Some(last));
            }
            self.evaluated += 1;
            last = Continuation { ordinal: Some(item.ordinal), returned: 0, ..last };
            if self.page.is_full() {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// Rows come document by document, so the page can end after any of them.
    fn fill_streaming(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        execution: &Execution<'_>,
    ) -> Result<Option<Continuation>> {
        let program = execution.program;
        let mut run = program.start(execution.context);
        if let Some(progress) = from.progress() {
            run = run.resumed_at(progress);
        }
        let mut last = from.clone();
        let mut skip = from.returned;
        for item in slice.items(replica, from.position(), self.request.now.seconds()) {
            let before = run.progress();
            let mut rows = Vec::new();
            let flow = run.feed(&item.document, &mut rows).map_err(evaluation_refused)?;
            self.evaluated += 1;
            let window = (program.shape() == Shape::Counting).then_some((before.skip, before.take));
            for (index, row) in (0_u64..).zip(&rows) {
                if index < skip {
                    continue;
                }
                if !self.page.push(row) {
                    // The next page reads this document again and skips the rows already returned.
                    let at = Continuation {
                        ordinal: Some(item.ordinal),
                        returned: index,
                        window,
                        ..last.clone()
                    };
                    return Ok(Some(if index == 0 { last } else { at }));
                }
            }
            skip = 0;
            let after = run.progress();
            let window = (program.shape() == Shape::Counting).then_some((after.skip, after.take));
            last = Continuation { ordinal: Some(item.ordinal), returned: 0, window, ..last };
            if flow == Flow::Enough {
                return Ok(None);
            }
            if self.page.is_full() {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// Documents are sorted first; their rows then come one document after the other (keyset pagination).
    fn fill_sorted(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        execution: &Execution<'_>,
        order: &SortOrder,
    ) -> Result<Option<Continuation>> {
        let now = self.request.now.seconds();
        let items: Vec<_> = slice.items(replica, Position::Start, now).collect();
        // The work is charged once, with the first page.
        self.evaluated += if from.ordinal.is_none() { items.len() } else { 0 };
        let boundary = Boundary::of_continuation(from).or_else(|| execution.resume.clone());
        let mut last = from.clone();
        let mut skip = from.returned;
        for item in order.from(&items, boundary.as_ref()) {
            let rows = execution.program.run([&item.document], execution.context)?;
            for (index, row) in
                (0_u64..).zip(&rows).skip(usize::try_from(skip).unwrap_or(usize::MAX))
            {
                if !self.page.push(row) {
                    let at = order.continuation_at(item, index, from);
                    return Ok(Some(if index == 0 { last } else { at }));
                }
            }
            skip = 0;
            last = order.continuation_at(item, 0, from);
            if self.page.is_full() {
                return Ok(Some(last));
            }
        }
        Ok(None)
    }

    /// All rows are computed for every page, and those already returned are skipped by number: offset
    /// pagination, the only kind that aggregates and DISTINCT allow.
    fn fill_buffered(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        execution: &Execution<'_>,
    ) -> Result<Option<Continuation>> {
        let items: Vec<_> =
            slice.items(replica, Position::Start, self.request.now.seconds()).collect();
        let documents = items.iter().map(|item| &item.document);
        let rows =
            execution.program.run(documents, execution.context).map_err(evaluation_refused)?;
        // The work is charged once, with the first page.
        self.evaluated += if from.returned == 0 { items.len() } else { 0 };
        for (index, row) in (0_u64..).zip(&rows).skip(from.returned as usize) {
            if !self.page.push(row) {
                return Ok(Some(Continuation { returned: index, ..from.clone() }));
            }
        }
        Ok(None)
    }

    fn charge(&self, is_query: bool, first_page: bool) -> f64 {
        if is_query {
            return charge::query(first_page, self.evaluated, self.page.bytes());
        }
        charge::read(self.page.bytes()).max(charge::MINIMUM)
    }

    fn into_reply(self, container: &Container) -> Result<Reply> {
        let metrics = self.request.typed().populates_query_metrics()?;
        let (evaluated, rows, bytes) = (self.evaluated, self.page.len(), self.page.bytes());
        let reply = self.page.into_reply(container.rid);
        if !metrics {
            return Ok(reply);
        }
        let millis = self.started.elapsed().as_secs_f64() * 1000.0;
        let text = format!(
            "totalExecutionTimeInMs={millis:.2};VMExecutionTimeInMs={millis:.2};\
             retrievedDocumentCount={evaluated};retrievedDocumentSize={bytes};\
             outputDocumentCount={rows};outputDocumentSize={bytes}"
        );
        Ok(reply.with(headers::QUERY_METRICS, text))
    }
}

fn evaluation_refused(error: sidereal_query::EvalError) -> ServiceError {
    ServiceError::bad_request(error.to_string())
}
