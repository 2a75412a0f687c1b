//! One endpoint, as fast and as sturdy as HTTP allows.
//!
//! [`TransportPipeline`] takes one attempt at an operation to its end: it adds headers and a signature,
//! sends, and repeats what may be repeated at the same endpoint. [`AdaptiveTransport`] below it follows
//! each endpoint's version of HTTP and spreads HTTP/2 over several connections (`sharding/`). Below
//! those is the seam, [`HttpClient`] and [`HttpClientFactory`]; `net/` is the client behind it that speaks
//! HTTP itself.
//!
//! Nothing here knows regions, sessions or partitions.

mod adaptive_transport;
mod authorization_policy;
#[cfg(feature = "azure-core")]
mod azure_core_client;
mod components;
mod counted;
mod endpoint;
mod headers_policy;
mod http_client;
mod http_client_factory;
mod http_error;
mod net;
mod proxy_config;
mod sharding;
mod transport_pipeline;
mod transport_retry;

pub use adaptive_transport::AdaptiveTransport;
pub use authorization_policy::{
    AccessToken, AccessTokenFuture, AccessTokenSource, AuthorizationPolicy, Credential,
};
#[cfg(feature = "azure-core")]
pub use azure_core_client::AzureCoreHttpClientFactory;
pub use components::{
    AuthorizationContext, ThrottleRetryState, TransportOutcome, TransportRequest,
    TransportResponse, TransportResult,
};
pub use endpoint::Endpoint;
pub use headers_policy::CosmosHeadersPolicy;
pub use http_client::{
    HttpClient, HttpFuture, HttpProtocol, HttpRequest, HttpResponse, StreamLimit,
};
pub use http_client_factory::{HttpClientConfig, HttpClientFactory, HttpVersions};
pub use http_error::{HttpError, HttpErrorKind, RequestSentStatus};
pub use net::NetHttpClientFactory;
pub use proxy_config::{InvalidProxy, ProxyConfig};
pub use sharding::{
    EndpointShardPool, EvictionReason, PoolContext, PoolKind, PoolSnapshot, SendTerms,
    ShardHealthStatus, ShardSnapshot, ShardStats, ShardingConfig, check_shard_health,
};
pub use transport_pipeline::TransportPipeline;
pub use transport_retry::{RetryContext, ThrottleAction, evaluate_transport_retry};
