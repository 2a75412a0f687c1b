//! Queries and the feed of items.
//!
//! A query runs on one part of one partition after the other, in the order of the key space. Over more
//! than one partition only what needs no merging is served, as the service's gateway does; for the rest
//! the client asks for a plan and fans out.

use std::time::Instant;

use serde_json::{Value, json};
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, QueryRequest};
use sidereal_query::{
    Context, Flow, Parameters, PlanError, Program, Query, QueryError, Shape, parse,
};

use super::continuation::Continuation;
use super::items::Progress;
use super::page::Page;
use super::query_plan;
use super::sorted::{Boundary, SortOrder};
use super::target::{Slice, Target, check_session};
use crate::account::Account;
use crate::charge;
use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Container, Definition, OrderByRefusal, Position, Replica, Seen};

/// `POST …/docs` with a query.
pub(super) fn run(account: &Account, incoming: &Incoming, container: &Container) -> Result<Reply> {
    let request = QueryRequest::from_json(&incoming.body)?;
    let tree = parse(&request.query).map_err(|error| query_refused(&error.into()))?;
    let parameters = parameters_of(&request);
    let program = Program::new(&tree, &parameters).map_err(|error| query_refused(&error.into()))?;
    let definition = container.definition();
    check_order_by(&tree, &definition)?;
    let target = match Target::of(incoming, container, &definition)? {
        Target::Everything(slices) => {
            query_plan::narrow(incoming, container, &definition, &request, slices)?
        }
        Target::Window(slices) if slices.len() > 1 && program.shape() != Shape::Streaming => {
            return Err(query_plan::must_be_fanned_out(&request, &definition)?);
        }
        target => target,
    };
    let execution = Execution {
        program: &program,
        context: &evaluation_context(incoming.now),
        order: SortOrder::of(&tree)?,
        resume: request.resume_filter.as_ref().map(Boundary::of_filter).transpose()?,
    };
    serve(account, incoming, container, &target, Some(&execution))
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
pub(super) fn read_feed(
    account: &Account,
    incoming: &Incoming,
    container: &Container,
) -> Result<Reply> {
    let definition = container.definition();
    let target = Target::of(incoming, container, &definition)?;
    serve(account, incoming, container, &target, None)
}

/// Time and randomness of one request.
pub(super) fn evaluation_context(now: Timestamp) -> Context {
    let ticks = i64::try_from(now.millis()).unwrap_or(i64::MAX).saturating_mul(10_000);
    Context::new(ticks, now.millis())
}

/// A query that cannot be read or means nothing, in the service's shape.
pub(super) fn query_refused(error: &QueryError) -> ServiceError {
    ServiceError::bad_request(error.to_service_error().to_json())
}

pub(super) fn plan_refused(error: &PlanError) -> ServiceError {
    ServiceError::bad_request(error.to_service_error().to_json())
}

pub(super) fn parameters_of(request: &QueryRequest) -> Parameters {
    let pairs = request.parameters.iter();
    pairs.map(|parameter| (parameter.name.clone(), parameter.value.clone())).collect()
}

fn check_order_by(tree: &Query, definition: &Definition) -> Result<()> {
    let order = query_plan::order_by_paths(tree)?;
    match definition.index.serves(&order) {
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
    account: &Account,
    incoming: &Incoming,
    container: &Container,
    target: &Target,
    query: Option<&Execution<'_>>,
) -> Result<Reply> {
    let slices = target.slices();
    let Some(first) = slices.first() else {
        return Ok(Page::new(None).into_reply(container.rid));
    };
    let token = incoming.typed().continuation()?;
    let given = match token {
        Some(token) => Continuation::from_token(token)?,
        None => Continuation::start_of(first.partition.id.as_str()),
    };
    let begin = slices.iter().position(|slice| slice.partition.descends_from(&given.range));
    let begin = begin.ok_or_else(|| {
        ServiceError::bad_header(headers::CONTINUATION.as_str(), token.unwrap_or_default())
    })?;
    let page = Page::new(incoming.max_item_count()?);
    let mut serving = Serving { incoming, started: Instant::now(), page, looked_at: 0 };
    let mut from = given.for_partition(&slices[begin].partition);
    let (mut next, mut last) = (None, (first, None));
    for (index, slice) in slices.iter().enumerate().skip(begin) {
        account.admit(container, &slice.partition, incoming.now)?;
        let replica = incoming.view(&slice.partition);
        let seen = Seen::of(&replica);
        check_session(account, incoming, &slice.partition, &seen)?;
        last = (slice, Some(seen));
        next = serving.fill(slice, &replica, &from, query)?;
        let Some(following) = slices.get(index + 1).filter(|_| next.is_none()) else { break };
        from = from.for_partition(&following.partition);
        if serving.page.is_full() {
            next = Some(from);
            break;
        }
    }
    let units = serving.charge(query.is_some(), token.is_none());
    account.spend(&last.0.partition, incoming.now, units);
    let (slice, seen) = last;
    let Some(seen) = seen else { return Ok(Page::new(None).into_reply(container.rid)) };
    let progress = Progress { incoming, container, partition: &slice.partition, seen };
    let reply = progress.stamp(serving.into_reply(container)?).charged(units);
    Ok(match next {
        Some(next) => reply.with(headers::CONTINUATION, next.to_token()),
        None => reply,
    })
}

/// A page being filled, and what it took.
struct Serving<'a> {
    incoming: &'a Incoming,
    started: Instant,
    page: Page,
    looked_at: usize,
}

impl Serving<'_> {
    /// Fills the page from one slice; answers where to go on if the slice has more.
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
                self.fill_gathered(slice, replica, from, execution)
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
        for item in slice.items(replica, from.position(), self.incoming.now.seconds()) {
            if !self.page.offer(&item.document) {
                return Ok(Some(last));
            }
            self.looked_at += 1;
            last = Continuation { ordinal: Some(item.ordinal), given: 0, ..last };
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
        let mut skip = from.given;
        for item in slice.items(replica, from.position(), self.incoming.now.seconds()) {
            let before = run.progress();
            let mut rows = Vec::new();
            let flow = run.feed(&item.document, &mut rows).map_err(evaluation_refused)?;
            self.looked_at += 1;
            let window = (program.shape() == Shape::Counting).then_some((before.skip, before.take));
            for (index, row) in (0_u64..).zip(&rows) {
                if index < skip {
                    continue;
                }
                if !self.page.offer(row) {
                    // Rows of this document already given are left out when it is read again.
                    let at = Continuation {
                        ordinal: Some(item.ordinal),
                        given: index,
                        window,
                        ..last.clone()
                    };
                    return Ok(Some(if index == 0 { last } else { at }));
                }
            }
            skip = 0;
            let after = run.progress();
            let window = (program.shape() == Shape::Counting).then_some((after.skip, after.take));
            last = Continuation { ordinal: Some(item.ordinal), given: 0, window, ..last };
            if flow == Flow::Enough {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Documents are put in order first; their rows then come one document after the other.
    fn fill_sorted(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        execution: &Execution<'_>,
        order: &SortOrder,
    ) -> Result<Option<Continuation>> {
        let now = self.incoming.now.seconds();
        let items: Vec<_> = slice.items(replica, Position::Start, now).collect();
        // The work is charged once, with the first page.
        self.looked_at += if from.ordinal.is_none() { items.len() } else { 0 };
        let boundary = Boundary::of_continuation(from).or_else(|| execution.resume.clone());
        let mut last = from.clone();
        let mut skip = from.given;
        for item in order.from(&items, boundary.as_ref()) {
            let rows = execution.program.run([&item.document], execution.context)?;
            for (index, row) in
                (0_u64..).zip(&rows).skip(usize::try_from(skip).unwrap_or(usize::MAX))
            {
                if !self.page.offer(row) {
                    let at = order.place_of(item, index, from);
                    return Ok(Some(if index == 0 { last } else { at }));
                }
            }
            skip = 0;
            last = order.place_of(item, 0, from);
        }
        Ok(None)
    }

    /// Rows that had to be gathered first are counted off.
    fn fill_gathered(
        &mut self,
        slice: &Slice,
        replica: &Replica,
        from: &Continuation,
        execution: &Execution<'_>,
    ) -> Result<Option<Continuation>> {
        let items: Vec<_> =
            slice.items(replica, Position::Start, self.incoming.now.seconds()).collect();
        let documents = items.iter().map(|item| &item.document);
        let rows =
            execution.program.run(documents, execution.context).map_err(evaluation_refused)?;
        // The work is charged once, with the first page.
        self.looked_at += if from.given == 0 { items.len() } else { 0 };
        for (index, row) in (0_u64..).zip(&rows).skip(from.given as usize) {
            if !self.page.offer(row) {
                return Ok(Some(Continuation { given: index, ..from.clone() }));
            }
        }
        Ok(None)
    }

    fn charge(&self, is_query: bool, first_page: bool) -> f64 {
        if is_query {
            return charge::query(first_page, self.looked_at, self.page.bytes());
        }
        charge::read(self.page.bytes()).max(charge::MINIMUM)
    }

    fn into_reply(self, container: &Container) -> Result<Reply> {
        let metrics = self.incoming.typed().populates_query_metrics()?;
        let (looked_at, rows, bytes) = (self.looked_at, self.page.len(), self.page.bytes());
        let reply = self.page.into_reply(container.rid);
        if !metrics {
            return Ok(reply);
        }
        let millis = self.started.elapsed().as_secs_f64() * 1000.0;
        let text = format!(
            "totalExecutionTimeInMs={millis:.2};VMExecutionTimeInMs={millis:.2};\
             retrievedDocumentCount={looked_at};retrievedDocumentSize={bytes};\
             outputDocumentCount={rows};outputDocumentSize={bytes}"
        );
        Ok(reply.with(headers::QUERY_METRICS, text))
    }
}

fn evaluation_refused(error: sidereal_query::EvalError) -> ServiceError {
    ServiceError::bad_request(error.to_string())
}

/// The body of the refusal that tells a client to ask for a plan.
pub(super) fn not_servable(plan: &Value) -> ServiceError {
    let message = "The provided cross partition query can not be directly served by the gateway. \
                   This is a first chance (internal) exception that all newer clients will know how to \
                   handle gracefully. This exception is traced, but unless you see it bubble up as an \
                   exception (which only happens on older SDK clients), then you can safely ignore this message.";
    let error = ServiceError::new(CosmosStatus::CROSS_PARTITION_QUERY_NOT_SERVABLE, message);
    ServiceError { additional: Some(json!(plan.to_string())), ..error }
}
