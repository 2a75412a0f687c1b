//! Queries on the wire: the request body and the plan the gateway answers with.
//!
//! The text of a query is opaque here; its grammar and its evaluation are a crate of their own.

mod plan;
mod range;
mod request;

pub use plan::{
    AggregateType, DistinctCountInfo, DistinctType, HybridSearchQueryInfo, PLAN_VERSION,
    PartitionedQueryExecutionInfo, QueryInfo, SortOrder,
};
pub use range::{QueryRange, QueryRangeBound};
pub use request::{QueryParameter, QueryRequest, ResumeFilter};
