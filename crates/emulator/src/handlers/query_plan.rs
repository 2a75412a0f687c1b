//! Query plans, and what the gateway makes of a query that names no partition.

use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{
    CosmosStatus, EffectivePartitionKeyRange, PartitionedQueryExecutionInfo, QueryRequest,
};
use sidereal_query::tree::Direction;
use sidereal_query::{Features, PlanError, Query, parse, plan, plan_within_partition};

use super::place_of;
use super::query::{not_servable, parameters_of, plan_refused, query_refused};
use super::target::{Slice, Target};
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Container, Definition, OrderByPath};

/// `POST …/docs` with `x-ms-cosmos-is-query-plan-request`.
pub(super) fn answer(incoming: &Incoming, container: &Container) -> Result<Reply> {
    let request = QueryRequest::from_json(&incoming.body)?;
    let definition = container.definition();
    let listed = incoming.typed().text(&headers::SUPPORTED_QUERY_FEATURES)?.unwrap_or_default();
    let plan = match incoming.partition_key()? {
        Some(key) if key.components().len() == definition.key.paths().len() => {
            let tree = parse(&request.query).map_err(|error| query_refused(&error.into()))?;
            let place = place_of(&definition, &key)?;
            plan_within_partition(&tree, &parameters_of(&request), place)
                .map_err(|error| plan_refused(&error))?
        }
        _ => plan_for(&request, &definition, Features::parse(listed))?,
    };
    Ok(Reply::json(CosmosStatus::OK, &to_json(&plan)?))
}

/// What the gateway does with a query that names neither key nor range: where its filter names one
/// partition key, it goes there; otherwise the client must have allowed it to span partitions, and it
/// must be one that needs no merging.
pub(super) fn narrow(
    incoming: &Incoming,
    container: &Container,
    definition: &Definition,
    request: &QueryRequest,
    slices: Vec<Slice>,
) -> Result<Target> {
    let tree = parse(&request.query).map_err(|error| query_refused(&error.into()))?;
    let plan = plan(&tree, &parameters_of(request), &definition.key, Features::ALL);
    let plan = plan.map_err(|error| plan_refused(&error))?;
    let windows = windows_of(&plan, definition)?;
    if let [window] = windows.as_slice()
        && is_one_key(&plan)
    {
        let partition = container.partition_at(window.min());
        return Ok(Target::Range(Slice::whole(partition)));
    }
    if !incoming.typed().enables_cross_partition_query()? {
        return Err(ServiceError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or \
             revise your query to avoid this exception.",
        ));
    }
    if !tree.is_servable_across_partitions() {
        return Err(not_servable(&to_json(&plan)?));
    }
    let touched =
        |slice: &Slice| windows.iter().any(|window| slice.partition.range.overlaps(window));
    Ok(Target::Everything(slices.into_iter().filter(touched).collect()))
}

/// The refusal of a query over several partitions that needs merging.
pub(super) fn must_be_fanned_out(
    request: &QueryRequest,
    definition: &Definition,
) -> Result<ServiceError> {
    let plan = plan_for(request, definition, Features::ALL)?;
    Ok(not_servable(&to_json(&plan)?))
}

/// The paths a query is sorted by, for the index policy; a computed key has none and is refused.
pub(super) fn order_by_paths(tree: &Query) -> Result<Vec<OrderByPath>> {
    let paths = tree.order_by_paths().into_iter().map(|key| {
        let segments = key.path.ok_or_else(|| {
            ServiceError::bad_request(
                "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.",
            )
        })?;
        Ok(OrderByPath { segments, descending: key.direction == Direction::Descending })
    });
    paths.collect()
}

fn plan_for(
    request: &QueryRequest,
    definition: &Definition,
    supported: Features,
) -> Result<PartitionedQueryExecutionInfo> {
    let tree = parse(&request.query).map_err(|error| query_refused(&error.into()))?;
    let planned = plan(&tree, &parameters_of(request), &definition.key, supported);
    planned.map_err(|error: PlanError| plan_refused(&error))
}

fn windows_of(
    plan: &PartitionedQueryExecutionInfo,
    definition: &Definition,
) -> Result<Vec<EffectivePartitionKeyRange>> {
    let resolve = |range: &sidereal_protocol::QueryRange| {
        range.resolve(&definition.key).map_err(|error| ServiceError::bad_request(error.to_string()))
    };
    plan.query_ranges.iter().map(resolve).collect()
}

/// Whether the only range of a plan is a single place.
fn is_one_key(plan: &PartitionedQueryExecutionInfo) -> bool {
    plan.query_ranges.iter().all(|range| range.min == range.max)
}

fn to_json(plan: &PartitionedQueryExecutionInfo) -> Result<Value> {
    serde_json::to_value(plan).map_err(|error| ServiceError::bad_request(error.to_string()))
}
