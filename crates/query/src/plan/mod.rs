//! Query plans: how a query that spans partitions is split up and merged.
//!
//! A plan says which ranges of the key space to ask, what to ask them, and what is left to do with
//! the results ([`merge`](crate::merge) does it). The client makes plans for itself; the emulator
//! answers plan requests with the same ones, for SDKs that do their own merging.

mod composition;
mod conditions;
mod features;
mod inspect;
mod keys;
mod rewrite;
#[cfg(test)]
mod tests;

use sidereal_protocol::{
    AggregateType, DistinctCountInfo, DistinctType, EffectivePartitionKey, PartitionKeyDefinition,
    PartitionedQueryExecutionInfo, QueryInfo, QueryRange, SortOrder,
};

pub use composition::{Composition, compose};
pub use conditions::{IndexCondition, IndexPath, KeyRange, index_condition};
pub use features::Features;
pub use inspect::OrderPath;
pub use keys::partition_keys;

use crate::error::PlanError;
use crate::eval::{Parameters, Program, Shape, count, has_aggregate, member_names};
use crate::tree::{Direction, Expr, OrderBy, OrderKey, Projection, Query};
use inspect::inner_query;

/// Plans a query.
///
/// # Errors
///
/// If the query means nothing, needs a feature that is not in `supported`, or has a shape that
/// cannot be merged from partial results.
pub fn plan(
    query: &Query,
    parameters: &Parameters,
    definition: &PartitionKeyDefinition,
    supported: Features,
) -> Result<PartitionedQueryExecutionInfo, PlanError> {
    let program = Program::for_planning(query, parameters)?;
    if !program.reads_documents() {
        return Ok(anywhere(query));
    }
    let (info, needed) = match counted_rows(query) {
        Some((rows, alias)) => count_of_distinct(rows, alias, query, parameters)?,
        None => describe(query, parameters)?,
    };
    let missing = needed.without(supported);
    if missing != Features::NONE {
        return Err(PlanError::UnsupportedFeatures(missing.names()));
    }
    let ranges = keys::query_ranges(query, parameters, definition);
    Ok(PartitionedQueryExecutionInfo::new(info, ranges))
}

/// The plan of a query that is sent as it is, to one partition that holds all it can find.
///
/// For a request that names a partition key: every shape is served, nothing is left to merge.
///
/// # Errors
///
/// If the query means nothing.
pub fn plan_within_partition(
    query: &Query,
    parameters: &Parameters,
    key: EffectivePartitionKey,
) -> Result<PartitionedQueryExecutionInfo, PlanError> {
    Program::for_planning(query, parameters)?;
    Ok(PartitionedQueryExecutionInfo::new(nothing_left(query), vec![QueryRange::from(key)]))
}

/// A query that reads no documents has the same result everywhere, so one partition is asked.
fn anywhere(query: &Query) -> PartitionedQueryExecutionInfo {
    let first = QueryRange::from(EffectivePartitionKey::MIN);
    PartitionedQueryExecutionInfo::new(nothing_left(query), vec![first])
}

/// A merge with nothing to do, of a query that is sent as it is.
fn nothing_left(query: &Query) -> QueryInfo {
    let has_select_value = matches!(query.select.projection, Projection::Value(_));
    QueryInfo { has_select_value, ..QueryInfo::default() }
}

/// The merge a query needs, and the features that takes.
fn describe(query: &Query, parameters: &Parameters) -> Result<(QueryInfo, Features), PlanError> {
    if let Some(inner) = inner_query(query)
        && Program::for_planning(inner, parameters)?.shape() != Shape::Streaming
    {
        return Err(PlanError::NotPartitionable(
            "A sub-query in 'FROM' that sorts, groups, aggregates or counts rows is unsupported \
             in a query that spans partitions.",
        ));
    }
    let mut info = nothing_left(query);
    let mut needed = Features::NONE;
    let mut rewritten = match &query.order_by {
        Some(OrderBy::Keys(keys)) if !query.group_by.is_empty() => {
            needed = describe_groups(query, &mut info).with(describe_order(keys, &mut info));
            if keys.iter().any(|key| !query.group_by.contains(&key.expression)) {
                needed = needed.with(Features::GROUP_BY_AGGREGATE_ORDER);
            }
            rewrite::sorted_groups(query, keys)?
        }
        // One row is sorted whatever it is sorted by, so an aggregate alone has no order.
        _ if is_grouped(query) => {
            needed = describe_groups(query, &mut info);
            rewrite::grouped(query)?
        }
        Some(OrderBy::Keys(keys)) => {
            needed = describe_order(keys, &mut info);
            rewrite::sorted(query, keys)?
        }
        Some(OrderBy::Rank(_)) | None => query.clone(),
    };
    // A lone aggregate is one row, which has no duplicate; groups may give equal ones.
    let one_row = query.group_by.is_empty() && !info.aggregates.is_empty();
    if query.select.distinct && !one_row {
        info.distinct_type = distinct_type(query);
        needed = needed.with(Features::DISTINCT);
    }
    needed = needed.with(describe_window(query, parameters, &mut info, &mut rewritten)?);
    // Empty where the original will do: a client then sends its own text, parameters included.
    if rewritten != *query {
        info.rewritten_query = rewritten.to_string();
    }
    Ok((info, needed))
}

fn is_grouped(query: &Query) -> bool {
    !query.group_by.is_empty() || has_aggregate(&query.select.projection)
}

fn describe_groups(query: &Query, info: &mut QueryInfo) -> Features {
    let mut needed = Features::NONE;
    let mut kinds = Vec::new();
    let mut take = |expression: &Expr| {
        let kind = rewrite::aggregate_of(expression).map(|(kind, _)| kind);
        kinds.extend(kind);
        kind
    };
    match &query.select.projection {
        Projection::All => {}
        Projection::Value(expression) => info.aggregates.extend(take(expression)),
        Projection::List(items) => {
            info.group_by_aliases = member_names(items);
            let kinds = items.iter().map(|item| take(&item.expression));
            let aliases = info.group_by_aliases.iter().cloned();
            info.group_by_alias_to_aggregate_type = aliases.zip(kinds).collect();
            if query.group_by.is_empty() {
                needed = needed.with(Features::NON_VALUE_AGGREGATE);
            }
        }
    }
    if !query.group_by.is_empty() {
        info.group_by_expressions = query.group_by.iter().map(ToString::to_string).collect();
        needed = needed.with(Features::GROUP_BY);
    }
    if kinds.len() > 1 {
        needed = needed.with(Features::MULTIPLE_AGGREGATES);
    }
    kinds.iter().fold(needed, |needed, kind| needed.with(feature_of(*kind)))
}

fn feature_of(kind: AggregateType) -> Features {
    match kind {
        AggregateType::CountIf => Features::AGGREGATE.with(Features::COUNT_IF),
        AggregateType::MakeList | AggregateType::MakeSet => {
            Features::AGGREGATE.with(Features::LIST_AND_SET_AGGREGATE)
        }
        AggregateType::Average
        | AggregateType::Count
        | AggregateType::Max
        | AggregateType::Min
        | AggregateType::Sum => Features::AGGREGATE,
    }
}

fn describe_order(keys: &[OrderKey], info: &mut QueryInfo) -> Features {
    info.order_by_expressions = keys.iter().map(|key| key.expression.to_string()).collect();
    let order = |key: &OrderKey| match key.direction {
        Direction::Ascending => SortOrder::Ascending,
        Direction::Descending => SortOrder::Descending,
    };
    info.order_by = keys.iter().map(order).collect();
    match keys.len() {
        1 => Features::ORDER_BY,
        _ => Features::ORDER_BY.with(Features::MULTIPLE_ORDER_BY),
    }
}

/// Equal rows come together if the sort looks at exactly what the row is made of.
fn distinct_type(query: &Query) -> DistinctType {
    let Some(OrderBy::Keys(keys)) = &query.order_by else { return DistinctType::Unordered };
    let mut projected: Vec<&Expr> = match &query.select.projection {
        Projection::All => return DistinctType::Unordered,
        Projection::Value(expression) => vec![expression],
        Projection::List(items) => items.iter().map(|item| &item.expression).collect(),
    };
    let mut unique: Vec<&Expr> = Vec::new();
    projected.retain(|expression| {
        let new = !unique.contains(expression);
        if new {
            unique.push(expression);
        }
        new
    });
    let leading = keys.iter().take(projected.len()).map(|key| &key.expression);
    let leading: Vec<&Expr> = leading.collect();
    match projected.iter().all(|expression| leading.contains(expression)) {
        true => DistinctType::Ordered,
        false => DistinctType::Unordered,
    }
}

/// Takes the row window out of the partitions' query, or widens it to what each may have to give.
fn describe_window(
    query: &Query,
    parameters: &Parameters,
    info: &mut QueryInfo,
    rewritten: &mut Query,
) -> Result<Features, PlanError> {
    // Rows that are still to be combined must all come.
    let combined = is_grouped(query) || info.distinct_type != DistinctType::None;
    let mut needed = Features::NONE;
    if let Some(top) = &query.select.top {
        let top = count(top, "TOP", parameters)?;
        info.top = Some(top);
        rewritten.select.top = (!combined).then_some(crate::tree::Count::Number(top));
        needed = Features::TOP;
    }
    if let Some(window) = &query.window {
        let offset = count(&window.offset, "OFFSET", parameters)?;
        let limit = count(&window.limit, "LIMIT", parameters)?;
        (info.offset, info.limit) = (Some(offset), Some(limit));
        rewritten.window = None;
        if !combined {
            rewrite::first_rows(rewritten, offset, limit);
        }
        needed = needed.with(Features::OFFSET_AND_LIMIT);
    }
    Ok(needed)
}

/// The distinct rows that `query` counts, and the name of the count: empty for a bare value.
fn counted_rows(query: &Query) -> Option<(&Query, String)> {
    let rows = inner_query(query).filter(|rows| rows.select.distinct)?;
    let plain = query.filter.is_none()
        && query.group_by.is_empty()
        && query.order_by.is_none()
        && query.window.is_none()
        && query.select.top.is_none()
        && !query.select.distinct
        && query.from.as_ref().is_some_and(|from| from.joins.is_empty())
        && matches!(
            query.from.as_ref().map(|from| &from.source),
            Some(crate::tree::Source::Collection { .. })
        );
    let counts = |expression: &Expr| {
        let counted = rewrite::aggregate_of(expression);
        matches!(counted, Some((AggregateType::Count, Expr::Literal(literal)))
            if *literal != crate::tree::Literal::Undefined)
    };
    match &query.select.projection {
        _ if !plain => None,
        Projection::Value(expression) if counts(expression) => Some((rows, String::new())),
        Projection::List(items) if items.len() == 1 && counts(&items[0].expression) => {
            member_names(items).pop().map(|alias| (rows, alias))
        }
        _ => None,
    }
}

fn count_of_distinct(
    rows: &Query,
    alias: String,
    query: &Query,
    parameters: &Parameters,
) -> Result<(QueryInfo, Features), PlanError> {
    if rows.select.top.is_some() || rows.window.is_some() || is_grouped(rows) {
        return Err(PlanError::NotPartitionable(
            "Counting distinct rows of a query that groups or cuts off is unsupported across \
             partitions.",
        ));
    }
    // The order of what is only counted does not matter.
    let rows = Query { order_by: None, ..rows.clone() };
    let (mut info, needed) = describe(&rows, parameters)?;
    if info.rewritten_query.is_empty() {
        // What is sent is the query that is counted, not the one that counts.
        info.rewritten_query = rows.to_string();
    }
    info.has_select_value = matches!(query.select.projection, Projection::Value(_));
    info.d_count_info = Some(DistinctCountInfo { d_count_alias: alias });
    Ok((info, needed.with(Features::D_COUNT)))
}
