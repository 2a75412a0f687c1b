//! Routing a query: which partitions it runs on, and whether the gateway may run it there at all.
//!
//! As on the service: one partition serves every query; over several, only what needs no merging is
//! served. For the rest the client is refused with 400/1004 and the plan, and fans out by itself.

use serde_json::{Value, json};
use sidereal_protocol::{
    CosmosStatus, EffectivePartitionKeyRange, PartitionedQueryExecutionInfo, QueryRange,
};
use sidereal_query::{Features, Shape};

use super::parsed_query::{ParsedQuery, plan_to_json};
use crate::error::{Result, ServiceError};
use crate::handlers::target::{Slice, Target};
use crate::request::ClassifiedRequest;
use crate::store::{Container, Definition};

/// The partitions that a query runs on.
pub(super) fn route(
    request: &ClassifiedRequest,
    container: &Container,
    definition: &Definition,
    query: &ParsedQuery,
    shape: Shape,
) -> Result<Target> {
    match Target::of(request, container, definition)? {
        Target::Everything(slices) => narrow(request, container, definition, query, slices),
        Target::Window(slices) if slices.len() > 1 && shape != Shape::Streaming => {
            let plan = query.plan(&definition.key, Features::ALL)?;
            Err(not_servable(&plan_to_json(&plan)?))
        }
        target => Ok(target),
    }
}

/// A query that names neither key nor range: where its filter names one partition key, it goes there;
/// otherwise the client must have allowed it to span partitions, and it must be one that needs no merging.
fn narrow(
    request: &ClassifiedRequest,
    container: &Container,
    definition: &Definition,
    query: &ParsedQuery,
    slices: Vec<Slice>,
) -> Result<Target> {
    let plan = query.plan(&definition.key, Features::ALL)?;
    let windows = windows_of(&plan, definition)?;
    if let [window] = windows.as_slice()
        && is_one_key(&plan)
    {
        let partition = container.partition_of(window.min());
        return Ok(Target::Range(Slice::within(partition, window)));
    }
    if !request.typed().enables_cross_partition_query()? {
        return Err(ServiceError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or \
             revise your query to avoid this exception.",
        ));
    }
    if !query.tree.is_servable_across_partitions() {
        return Err(not_servable(&plan_to_json(&plan)?));
    }
    let touched =
        |slice: &Slice| windows.iter().any(|window| slice.partition.range.overlaps(window));
    let touched = slices.into_iter().filter(touched);
    Ok(Target::Everything(match windows.as_slice() {
        // A prefix of a hierarchical key: only its part of each partition.
        [window] => touched.map(|slice| Slice::within(slice.partition, window)).collect(),
        _ => touched.collect(),
    }))
}

fn windows_of(
    plan: &PartitionedQueryExecutionInfo,
    definition: &Definition,
) -> Result<Vec<EffectivePartitionKeyRange>> {
    let resolve = |range: &QueryRange| {
        range.resolve(&definition.key).map_err(|error| ServiceError::bad_request(error.to_string()))
    };
    plan.query_ranges.iter().map(resolve).collect()
}

/// Whether the ranges of a plan are a single effective partition key.
fn is_one_key(plan: &PartitionedQueryExecutionInfo) -> bool {
    plan.query_ranges.iter().all(|range| range.min == range.max)
}

/// The refusal that tells a client to fan out; SDKs look for its sub-status and read the plan in it.
fn not_servable(plan: &Value) -> ServiceError {
    let message = "The provided cross partition query can not be directly served by the gateway. \
                   This is a first chance (internal) exception that all newer clients will know how to \
                   handle gracefully. This exception is traced, but unless you see it bubble up as an \
                   exception (which only happens on older SDK clients), then you can safely ignore this message.";
    let error = ServiceError::new(CosmosStatus::CROSS_PARTITION_QUERY_NOT_SERVABLE, message);
    ServiceError { additional: Some(json!(plan.to_string())), ..error }
}
