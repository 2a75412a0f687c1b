//! How connections are made, kept and closed.
//!
//! Everything of HTTP/2 sharding is in `sharding_options.rs`; the pool here is HTTP/1.1's.

use std::time::Duration;

use crate::CosmosOptions;

/// Timeouts and the HTTP/1.1 pool.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct ConnectionOptions {
    /// The longest that one attempt at a data operation may take. An operation may make several
    /// attempts: `AvailabilityOptions::end_to_end_timeout` bounds them together.
    #[option(env = "AZURE_COSMOS_REQUEST_TIMEOUT", default = Duration::from_secs(10))]
    pub request_timeout: Option<Duration>,

    /// The longest that one attempt at a metadata operation (account, containers, ranges) may take.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_MAX_METADATA_REQUEST_TIMEOUT_MS",
        default = Duration::from_secs(65)
    )]
    pub metadata_request_timeout: Option<Duration>,

    /// The longest that a connection may take to be ready, TLS included.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_MAX_CONNECT_TIMEOUT_MS", default = Duration::from_secs(5))]
    pub connect_timeout: Option<Duration>,

    /// The age at which a connection is replaced by a new one, so that changes in DNS are followed: this, or up to
    /// twice as much, at random. Requests on it may finish.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_MAX_CONNECTION_AGE_MS",
        default = Duration::from_secs(5 * 60)
    )]
    pub max_connection_age: Option<Duration>,

    /// The HTTP/1.1 pool.
    #[option(nested)]
    pub connection_pool: Option<ConnectionPoolOptions>,
}

/// The HTTP/1.1 pool of one endpoint.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct ConnectionPoolOptions {
    /// How long a connection may be idle before it is closed.
    #[option(env = "AZURE_COSMOS_POOL_IDLE_TIMEOUT", default = Duration::from_secs(60))]
    pub idle_timeout: Option<Duration>,

    /// The most connections to one endpoint.
    #[option(env = "AZURE_COSMOS_POOL_MAX_CONNECTIONS", default = 100)]
    pub max_connections: Option<usize>,
}
