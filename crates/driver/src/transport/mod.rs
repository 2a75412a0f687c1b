//! Sending requests to one endpoint: the HTTP client and its replacements, sharding, and retries at the endpoint.
//!
//! Public are the seam ([`HttpClient`], [`HttpClientFactory`], their configuration and errors), what a
//! caller brings ([`Credential`], [`Endpoint`], [`ProxyConfig`]) and the client that speaks HTTP itself
//! ([`NetHttpClientFactory`], `net/`).
//!
//! Above the seam, and exported under the feature `internals` alone: `TransportPipeline` takes one attempt
//! at an operation to its end (headers, signature, sending, retries at the same endpoint; what is retried is
//! in `retry/`).
//! `AdaptiveTransport` below it follows each endpoint's version of HTTP and spreads HTTP/2 over several
//! connections (`sharding/`).
//!
//! Nothing here knows regions, sessions or partitions. Why it is not a crate: `docs/adr/0036-the-transport-stays-in-the-driver.md`.

mod adaptive_transport;
mod answer_times;
mod authorization_policy;
#[cfg(feature = "azure-core")]
mod azure_core_client;
mod claims_challenge;
mod count_guard;
mod credential;
mod header_list;
mod header_templates;
mod headers_policy;
mod http_client;
mod http_client_factory;
#[cfg(feature = "internals")]
pub mod internals;
mod net;
mod proxy_config;
mod sharding;
mod token_cache;
mod transport_pipeline;
mod transport_request;
mod transport_result;

pub use crate::exchange::{Endpoint, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
pub(crate) use adaptive_transport::AdaptiveTransport;
pub(crate) use answer_times::AnswerTimes;
pub(crate) use authorization_policy::{AuthorizationOptions, AuthorizationPolicy};
#[cfg(feature = "azure-core")]
pub use azure_core_client::AzureCoreHttpClientFactory;
pub use credential::{AccessToken, AccessTokenFuture, AccessTokenSource, Credential, TokenRequest};
pub(crate) use header_list::HeaderList;
pub(crate) use headers_policy::CosmosHeadersPolicy;
pub use http_client::{HttpClient, HttpFuture, HttpRequest, HttpResponse, StreamLimit};
#[cfg(feature = "fault-injection")]
pub(crate) use http_client_factory::ConnectGate;
pub use http_client_factory::{HttpClientConfig, HttpClientFactory, HttpVersions};
pub use net::NetHttpClientFactory;
pub use proxy_config::{InvalidProxy, ProxyConfig};
pub(crate) use sharding::{PoolContext, SendTerms, ShardingConfig};
pub(crate) use transport_pipeline::TransportPipeline;
pub(crate) use transport_request::{AuthorizationContext, TransportRequest};
pub(crate) use transport_result::{TransportOutcome, TransportResponse, TransportResult};
