//! Running a query: read it, plan it, find its ranges, combine what they give.

use serde_json::Value;
use sidereal_driver::ContainerMetadata;
use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition, QueryInfo, QueryParameter,
};
use sidereal_query::merge::{Merge, WindowLeft};

use super::ContinuationToken;
use super::builder::{Query, Scope};
use super::composed::Composed;
use super::continuation_token::{Content, QueryId, QueryState, RangeState};
use super::fan_out::FanOut;
use super::fetch::RequestFacts;
use super::limits::DEFAULT_PAGE_ROWS;
use super::merging::Merging;
use super::page::{PageFacts, RawPage, Rows};
use super::plan::{ParsedQuery, PlanSource, Planned, QueryPlan};
use super::range_reader::ReaderContext;
use super::request::{PageRequests, Start, without_placeholder};
use super::streaming::Streaming;
use super::targets::{Coverage, Target};
use super::top_rows::TopRows;
use super::windows::{ItemIn, Windows};
use crate::long_call::Call;
use crate::{Error, Result};

/// A query that runs, or is about to.
#[derive(Debug)]
pub(super) struct Engine {
    query: Query,
    /// Rows are given as soon as there are any, rather than in full pages with continuation tokens.
    at_once: bool,
    run: Option<QueryRun>,
}

/// A query under way.
#[derive(Debug)]
struct QueryRun {
    combination: Combination,
    id: QueryId,
    container: String,
    page_rows: usize,
    facts: PageFacts,
    /// To explain what the service refuses.
    parsed: ParsedQuery,
}

#[derive(Debug)]
enum Combination {
    Streaming(Streaming),
    Merging(Box<Merging>),
    TopRows(TopRows),
    Composed(Composed),
}

impl Engine {
    pub(super) fn new(query: Query, at_once: bool) -> Self {
        Self { query, at_once, run: None }
    }

    /// The next page; none after the last.
    pub(super) async fn next_page(&mut self) -> Result<Option<RawPage>> {
        let run = match &mut self.run {
            Some(run) => run,
            run @ None => run.insert(start(&self.query).await?),
        };
        let page = run.next_page(self.at_once).await;
        page.map_err(|error| run.parsed.explain(error))
    }

    pub(super) async fn explain(&self) -> Result<QueryPlan> {
        let call = self.query.call.clone().started();
        let prepared = Prepared::new(&self.query, &call).await?;
        let Planned { source, info, text, .. } = &prepared.planned;
        Ok(QueryPlan {
            source: *source,
            text: without_placeholder(text),
            ranges: prepared.targets.len(),
            is_resumable: is_resumable(info).is_ok(),
        })
    }
}

impl QueryRun {
    async fn next_page(&mut self, at_once: bool) -> Result<Option<RawPage>> {
        let facts = &mut self.facts;
        let rows = match &mut self.combination {
            Combination::Streaming(streaming) => streaming.next_page(facts).await?,
            Combination::Merging(merging) => {
                merging.next_rows(self.page_rows, at_once, facts).await?.map(Rows::Merged)
            }
            Combination::TopRows(top) => {
                top.next_rows(self.page_rows, facts).await?.map(Rows::Merged)
            }
            Combination::Composed(composed) => {
                composed.next_rows(self.page_rows, facts).await?.map(Rows::Merged)
            }
        };
        let facts = std::mem::take(&mut self.facts);
        let rows = match rows {
            Some(rows) => rows,
            // What the end cost, and what an empty result cost, is told with a page of no rows.
            None if facts.requests() > 0 => Rows::Merged(Vec::new()),
            None => return Ok(None),
        };
        let continuation = if at_once { Ok(None) } else { self.continuation() };
        Ok(Some(RawPage { rows, facts, continuation }))
    }

    fn continuation(&self) -> Result<Option<ContinuationToken>> {
        let state = match &self.combination {
            Combination::Streaming(streaming) => streaming.state(),
            Combination::Merging(merging) => merging.state()?,
            Combination::TopRows(_) => return Err(unsorted_cannot_resume()),
            Combination::Composed(_) => return Err(groups_cannot_resume()),
        };
        let content = |state| Content { query: self.id, container: self.container.clone(), state };
        state.map(|state| ContinuationToken::new(content(state))).transpose()
    }
}

/// Starts a query: everything up to its first page.
async fn start(query: &Query) -> Result<QueryRun> {
    let call = query.call.clone().started();
    let prepared = Prepared::new(query, &call).await?;
    let Prepared { parsed, planned, container, coverage, targets, id } = prepared;
    let Planned { info, text, over_groups, response, .. } = planned;
    let resumed = match query.continuation.clone() {
        Some(token) => {
            is_resumable(&info)?;
            Some(token.into_state(id, container.rid(), &info)?)
        }
        None => None,
    };
    let link = query.container.link()?;
    let shared = ReaderContext {
        driver: std::sync::Arc::clone(query.container.driver()),
        requests: PageRequests::new(
            (link, container.rid()),
            &text,
            parsed.parameters(),
            &query.options,
        )?,
        call,
        limits: query.limits,
        windows: Windows::new(container.partition_key_definition(), item_in(&parsed, &info)),
    };
    let address = (link.clone(), container.rid().to_owned());
    let mut fan_out = FanOut::new(shared, query.parallelism, address, coverage.clone());
    let lanes = match &resumed {
        None => targets.into_iter().map(fresh).collect(),
        Some(state) => resumed_lanes(state, &coverage, &container, &targets)?,
    };
    for (state, target) in &lanes {
        fan_out.add((state.range.clone(), target.clone()), state.start.clone());
    }
    let states = lanes.into_iter().map(|(state, _)| state).collect();
    let combination = combine(fan_out, info, query, resumed.map(|state| (states, state)))?;
    let combination = match (combination, over_groups) {
        (Combination::Merging(merging), Some(program)) => {
            Combination::Composed(Composed::new(merging, program))
        }
        (combination, _) => combination,
    };
    let mut facts = PageFacts::default();
    if let Some(response) = response {
        facts.add(RequestFacts::of(&response));
    }
    let page_rows = query.options.page_size.map_or(DEFAULT_PAGE_ROWS, |size| size as usize);
    let container = container.rid().to_owned();
    Ok(QueryRun { combination, id, container, page_rows, facts, parsed })
}

/// Decides how what the ranges give becomes the result.
fn combine(
    fan_out: FanOut,
    info: QueryInfo,
    query: &Query,
    resumed: Option<(Vec<RangeState>, QueryState)>,
) -> Result<Combination> {
    if info.has_non_streaming_order_by {
        return Ok(Combination::TopRows(TopRows::new(fan_out, &info, &query.limits)));
    }
    if !is_merged(&info) {
        let all = WindowLeft { skip: info.offset.unwrap_or(0), take: info.top.or(info.limit) };
        let window = resumed.map_or(all, |(_, state)| state.window);
        return Ok(Combination::Streaming(Streaming::new(fan_out, window)));
    }
    let merging = Merging::new(fan_out, info, query.limits, resumed)?;
    Ok(Combination::Merging(Box::new(merging)))
}

/// Whether rows have to be looked at, rather than counted.
fn is_merged(info: &QueryInfo) -> bool {
    use sidereal_protocol::DistinctType;
    !info.order_by.is_empty()
        || !info.group_by_expressions.is_empty()
        || !info.aggregates.is_empty()
        || !info.group_by_alias_to_aggregate_type.is_empty()
        || info.distinct_type != DistinctType::None
        || info.d_count_info.is_some()
}

/// Where the item is in the rows that a partition range gives.
fn item_in(parsed: &ParsedQuery, info: &QueryInfo) -> ItemIn {
    let counts_rows = info.top.or(info.limit).or(info.offset).is_some();
    let combines_rows = is_merged(info) && info.order_by.is_empty();
    match parsed.selects_items() && !counts_rows && !combines_rows {
        true if info.order_by.is_empty() => ItemIn::Row,
        true => ItemIn::Payload,
        false => ItemIn::Nowhere,
    }
}

fn is_resumable(info: &QueryInfo) -> Result<()> {
    if info.has_non_streaming_order_by {
        return Err(unsorted_cannot_resume());
    }
    Merge::new(info, 0).state().map(drop).map_err(|error| {
        Error::invalid(format!("there is no continuation token for this query: {error}"))
    })
}

fn unsorted_cannot_resume() -> Error {
    Error::invalid(
        "there is no continuation token for this query: its order is known only once every row has come; it \
         has to start from the beginning",
    )
}

fn groups_cannot_resume() -> Error {
    Error::invalid(
        "there is no continuation token for this query: it is computed from all of its groups; it has to start \
         from the beginning",
    )
}

fn fresh((range, target): (EffectivePartitionKeyRange, Target)) -> (RangeState, Target) {
    (RangeState::new(range, Start::Beginning), target)
}

/// The range readers of a query that goes on: what its token has left, over the partition ranges that are there now.
fn resumed_lanes(
    state: &QueryState,
    coverage: &Coverage,
    container: &ContainerMetadata,
    targets: &[(EffectivePartitionKeyRange, Target)],
) -> Result<Vec<(RangeState, Target)>> {
    if let ([left], [(range, target @ Target::Key(_))]) = (state.ranges.as_slice(), targets) {
        let state = RangeState { range: range.clone(), ..left.clone() };
        return Ok(vec![(state, target.clone())]);
    }
    let lanes = state.ranges.iter().flat_map(|left| {
        let targets = coverage.targets_within(&left.range, container.ranges());
        targets.into_iter().map(|(range, target)| (RangeState { range, ..left.clone() }, target))
    });
    Ok(lanes.collect())
}

/// A query before its first page is asked for.
struct Prepared {
    parsed: ParsedQuery,
    planned: Planned,
    container: std::sync::Arc<ContainerMetadata>,
    coverage: Coverage,
    targets: Vec<(EffectivePartitionKeyRange, Target)>,
    id: QueryId,
}

impl Prepared {
    async fn new(query: &Query, call: &Call) -> Result<Self> {
        let parameters = parameters(query)?;
        let parsed = match query.is_passed_through {
            true => ParsedQuery::passed_through(&query.text, parameters),
            false => ParsedQuery::new(&query.text, parameters)?,
        };
        let (link, driver) = (query.container.link()?, query.container.driver());
        let container = call.bounded("the container was being read", driver.container(link));
        let container = container.await??;
        let definition = container.partition_key_definition();
        let (window, key) = window_of(&query.scope, definition)?;
        let planned = match key {
            Some(_) => parsed.plan_within_key(definition, driver, link, call).await?,
            None => parsed.plan(definition, driver, link, call).await?,
        };
        let coverage = Coverage::of(&planned.ranges, window.clone(), definition)?;
        let targets = match key {
            Some(key) => vec![(window, Target::Key(key.clone()))],
            None => coverage.targets(container.ranges()),
        };
        let id = query_id(query, parsed.parameters());
        debug_assert!(planned.source != PlanSource::PartitionKey || targets.len() == 1);
        Ok(Self { parsed, planned, container, coverage, targets, id })
    }
}

fn parameters(query: &Query) -> Result<Vec<QueryParameter>> {
    let each = query
        .parameters
        .iter()
        .map(|(name, value)| Ok(QueryParameter { name: name.clone(), value: value.clone()? }));
    each.collect()
}

/// The part of the key space that a query is about, and the key if it is about one.
fn window_of<'a>(
    scope: &'a Scope,
    definition: &PartitionKeyDefinition,
) -> Result<(EffectivePartitionKeyRange, Option<&'a PartitionKey>)> {
    Ok(match scope {
        Scope::Everything => (EffectivePartitionKeyRange::FULL, None),
        Scope::Range(range) => (range.clone(), None),
        Scope::Key(key) => {
            let window = definition.effective_range(key)?;
            let is_whole = key.components().len() == definition.paths().len();
            (window, is_whole.then_some(key))
        }
    })
}

fn query_id(query: &Query, parameters: &[QueryParameter]) -> QueryId {
    let mut parameters: Vec<(&str, &Value)> =
        parameters.iter().map(|it| (it.name.as_str(), &it.value)).collect();
    parameters.sort_by_key(|(name, _)| *name);
    // Names and values that were read from JSON are written as JSON.
    let parameters = serde_json::to_string(&parameters).unwrap_or_default();
    let scope = match &query.scope {
        Scope::Everything => String::new(),
        Scope::Key(key) => key.to_header(),
        Scope::Range(range) => range.to_string(),
    };
    QueryId::of(&query.text, &parameters, &scope)
}
