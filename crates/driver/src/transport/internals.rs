//! The layers between the pipeline and the HTTP client, for tests and benchmarks.
//!
//! Unstable: what is here changes with any version. An application needs none of it.

pub use super::adaptive_transport::AdaptiveTransport;
pub use super::authorization_policy::{AuthorizationOptions, AuthorizationPolicy};
pub use super::header_list::HeaderList;
pub use super::headers_policy::CosmosHeadersPolicy;
pub use super::sharding::{
    EndpointShardPool, EvictionReason, PoolContext, PoolKind, PoolSnapshot, SendTerms,
    ShardHealthStatus, ShardSnapshot, ShardStats, ShardingConfig, check_shard_health,
};
pub use super::transport_pipeline::TransportPipeline;
pub use super::transport_request::{AuthorizationContext, TransportRequest};
pub use super::transport_result::{TransportOutcome, TransportResponse, TransportResult};
pub use crate::retry::{
    AttemptOutcome, Backoff, Budget, Budgets, Circumstances, Question, RequestKind, Retries,
    ThrottleBudget, Verdict, evaluate_transport_retry,
};
