//! The layers between the pipeline and the HTTP client, for tests and benchmarks.
//!
//! Unstable: what is here changes with any version. An application needs none of it.

pub use super::adaptive_transport::AdaptiveTransport;
pub use super::authorization_policy::AuthorizationPolicy;
pub use super::components::{
    AuthorizationContext, ThrottleRetryState, TransportOutcome, TransportRequest,
    TransportResponse, TransportResult,
};
pub use super::headers_policy::CosmosHeadersPolicy;
pub use super::sharding::{
    EndpointShardPool, EvictionReason, PoolContext, PoolKind, PoolSnapshot, SendTerms,
    ShardHealthStatus, ShardSnapshot, ShardStats, ShardingConfig, check_shard_health,
};
pub use super::transport_pipeline::TransportPipeline;
pub use super::transport_retry::{RetryContext, ThrottleAction, evaluate_transport_retry};
