//! A query of a request, parsed once: text and parameters in; tree, program and plan out.
//!
//! Running a query, routing it and answering with its plan all begin here, so that none of them parses by
//! itself and all refuse a malformed query in the same words.

use serde_json::Value;
use sidereal_protocol::{
    CosmosStatus, DistinctType, EffectivePartitionKey, PartitionKeyDefinition,
    PartitionedQueryExecutionInfo, QueryRequest, ResumeFilter,
};
use sidereal_query::tree::Direction;
use sidereal_query::{
    Context, Features, IndexCondition, Limits, Parameters, PlanError, Program, Query, QueryError,
    index_condition, parse, plan, plan_within_partition,
};

use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::store::OrderByPath;

/// A query as a tree, with its parameters.
#[derive(Debug)]
pub(in crate::handlers) struct ParsedQuery {
    pub(in crate::handlers) tree: Query,
    pub(in crate::handlers) resume_filter: Option<ResumeFilter>,
    parameters: Parameters,
}

impl ParsedQuery {
    /// Parses the query in a request's body.
    pub(in crate::handlers) fn from_body(body: &[u8]) -> Result<Self> {
        let QueryRequest { query, parameters, resume_filter, .. } = QueryRequest::from_json(body)?;
        let tree = parse(&query).map_err(|error| query_refused(&error.into()))?;
        let pairs = parameters.into_iter().map(|parameter| (parameter.name, parameter.value));
        Ok(Self { tree, resume_filter, parameters: pairs.collect() })
    }

    /// Compiles the query.
    pub(in crate::handlers) fn compile(&self) -> Result<Program> {
        Program::new(&self.tree, &self.parameters).map_err(|error| query_refused(&error.into()))
    }

    /// Compiles the query without its ORDER BY: its documents come sorted.
    pub(in crate::handlers) fn compile_unsorted(&self) -> Result<Program> {
        let unsorted = Query { order_by: None, ..self.tree.clone() };
        Program::new(&unsorted, &self.parameters).map_err(|error| query_refused(&error.into()))
    }

    /// Plans the query over all partitions of a container.
    pub(in crate::handlers) fn plan(
        &self,
        key: &PartitionKeyDefinition,
        supported: Features,
    ) -> Result<PartitionedQueryExecutionInfo> {
        let mut plan = plan(&self.tree, &self.parameters, key, supported)
            .map_err(|error| plan_refused(&error))?;
        // As the service plans it. SDKs look at a whole row to tell whether it repeats the one before, and compare what
        // is sorted by alone where the order is said to be that of the rows.
        if let Some(info) = &mut plan.query_info
            && info.distinct_type == DistinctType::Ordered
            && !info.has_select_value
        {
            info.distinct_type = DistinctType::Unordered;
        }
        Ok(plan)
    }

    /// The conditions of the filter on single paths, which an index can be asked.
    pub(in crate::handlers) fn index_condition(&self) -> Option<IndexCondition> {
        index_condition(&self.tree, &self.parameters)
    }

    /// Plans the query within one logical partition.
    pub(in crate::handlers) fn plan_within(
        &self,
        key: EffectivePartitionKey,
    ) -> Result<PartitionedQueryExecutionInfo> {
        plan_within_partition(&self.tree, &self.parameters, key)
            .map_err(|error| plan_refused(&error))
    }

    /// The paths of the ORDER BY, for the indexing policy; a computed key has none and is refused.
    pub(in crate::handlers) fn order_by_paths(&self) -> Result<Vec<OrderByPath>> {
        let paths = self.tree.order_by_paths().into_iter().map(|key| {
            let segments = key.path.ok_or_else(|| {
                ServiceError::bad_request(
                    "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.",
                )
            })?;
            Ok(OrderByPath { segments, descending: key.direction == Direction::Descending })
        });
        paths.collect()
    }
}

/// A plan as clients read it.
pub(in crate::handlers) fn plan_to_json(plan: &PartitionedQueryExecutionInfo) -> Result<Value> {
    serde_json::to_value(plan).map_err(|error| ServiceError::bad_request(error.to_string()))
}

/// Steps of the condition of a patch. It is evaluated under the lock that writes of the partition wait for, so
/// it gets milliseconds.
const CONDITION_STEPS: u64 = 200_000;

/// The context that the condition of a patch is evaluated with.
pub(in crate::handlers) fn condition_context(now: Timestamp) -> Context {
    let limits = Limits { max_steps_per_row: CONDITION_STEPS, ..Limits::DEFAULT };
    evaluation_context(now).with_limits(limits)
}

/// The time and the seed of randomness that a request's expressions are evaluated with.
pub(in crate::handlers) fn evaluation_context(now: Timestamp) -> Context {
    // The query language counts time in ticks of 100 nanoseconds, as .NET does.
    let ticks = i64::try_from(now.millis()).unwrap_or(i64::MAX).saturating_mul(10_000);
    Context::new(ticks, now.millis())
}

/// A query that cannot be parsed or compiled, in the service's format.
fn query_refused(error: &QueryError) -> ServiceError {
    ServiceError::bad_request(error.to_service_error().to_json())
}

fn plan_refused(error: &PlanError) -> ServiceError {
    let status = match error {
        // The client is told that the gateway cannot serve the query either.
        PlanError::UnsupportedFeatures(_) => CosmosStatus::CROSS_PARTITION_QUERY_NOT_SERVABLE,
        _ => CosmosStatus::BAD_REQUEST,
    };
    ServiceError::new(status, error.to_service_error().to_json())
}
