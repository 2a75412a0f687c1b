//! Queries and the feed of items.
//!
//! A query runs on one part of one partition after the other, in the order of the key space, until a page
//! is full or its budget is spent. Which partitions those are is decided in `routing`, how a part is read
//! in `page_filling`.

use std::time::Instant;

use sidereal_protocol::headers::names as headers;

use super::continuation::{Continuation, ContinuationToken};
use super::execution::Execution;
use super::index_metrics;
use super::page::Page;
use super::page_filling::PageFilling;
use super::parsed_query::ParsedQuery;
use super::routing;
use crate::charge::{self, QueryWork};
use crate::error::{Result, ServiceError};
use crate::grease::Latitude;
use crate::handlers::items::PartitionHeaders;
use crate::handlers::target::{Slice, Target};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Container, Definition, OrderByRefusal, ReplicaProgress};

/// `POST …/docs` with a query.
pub(crate) fn run(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let query = ParsedQuery::from_body(&request.body)?;
    let program = query.compile()?;
    check_order_by(&query, &definition)?;
    let target = routing::route(request, container, &definition, &query, program.shape())?;
    let execution = Execution::new(request, &query, program, &definition)?;
    let reply = serve(account, request, container, &target, Some(&execution))?;
    let text = if request.typed().populates_index_metrics_v2()? {
        index_metrics::percent_encoded(&query, &definition)?
    } else if request.typed().populates_index_metrics()? {
        index_metrics::in_base64(&query, &definition)?
    } else {
        return Ok(reply);
    };
    Ok(reply.with(headers::INDEX_UTILIZATION, text))
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
    query: Option<&Execution>,
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
    let started = Instant::now();
    let mut filling = PageFilling::new(request, Page::new(request.page_items()?));
    let mut from = resume.for_partition(&slices[begin].partition);
    let (mut next, mut last) = (None, (first, None));
    for (index, slice) in slices.iter().enumerate().skip(begin) {
        account.admit(request, container, &slice.partition)?;
        // What the client's session advances to: items are read after this, so none of them is older.
        let progress = ReplicaProgress::of(&request.view(&slice.partition));
        account.check_session(request, &slice.partition, &progress)?;
        last = (slice, Some(progress));
        next = filling.fill(slice, &from, query)?;
        let Some(following) = slices.get(index + 1).filter(|_| next.is_none()) else { break };
        from = from.for_partition(&following.partition);
        if filling.is_over() {
            next = filling.first_with_items(&slices[index + 1..], from);
            break;
        }
    }
    let units = filling.charge(query.is_some(), token.is_none());
    account.spend(&last.0.partition, request.now, units);
    let (slice, progress) = last;
    let Some(progress) = progress else { return Ok(Page::new(None).into_reply(container.rid)) };
    let partition_headers =
        PartitionHeaders { request, container, partition: &slice.partition, progress };
    let served = token.map_or((0, 0), |token| (token.pages, token.rows));
    let next = next.map(|position| filling.token(served, position));
    let has_read = filling.evaluated > 0;
    let reply = into_reply(filling, started, container)?;
    let mut reply = partition_headers.add_to(reply).charged(units);
    if !has_read && request.takes(Latitude::EmptySessions) {
        reply.headers.remove(headers::SESSION_TOKEN);
    }
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

fn into_reply(filling: PageFilling<'_>, started: Instant, container: &Container) -> Result<Reply> {
    let metrics = filling.request.typed().populates_query_metrics()?;
    let PageFilling { evaluated, page, .. } = filling;
    let (rows, bytes) = (page.len(), page.bytes());
    let reply = page.into_reply(container.rid);
    if !metrics {
        return Ok(reply);
    }
    let millis = started.elapsed().as_secs_f64() * 1000.0;
    let text = format!(
        "totalExecutionTimeInMs={millis:.2};VMExecutionTimeInMs={millis:.2};\
         retrievedDocumentCount={evaluated};retrievedDocumentSize={bytes};\
         outputDocumentCount={rows};outputDocumentSize={bytes}"
    );
    Ok(reply.with(headers::QUERY_METRICS, text))
}

impl PageFilling<'_> {
    /// The charge of the page.
    fn charge(&self, is_query: bool, first_page: bool) -> f64 {
        if is_query {
            let work = QueryWork {
                lookups: self.lookups,
                loaded: self.evaluated,
                steps: self.steps,
                bytes: self.page.bytes(),
            };
            return charge::query(first_page, work).max(charge::LEAST_OF_PAGE);
        }
        charge::read(self.page.bytes()).max(charge::MINIMUM)
    }
}
