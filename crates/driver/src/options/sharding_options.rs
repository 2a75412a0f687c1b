//! How many HTTP/2 connections share the load of an endpoint, and when one is given up.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use super::Ratio;
use crate::CosmosOptions;

/// HTTP/2 connection sharding; ignored where an endpoint speaks HTTP/1.1 only.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct ShardingOptions {
    /// The most streams on one connection; the service allows 20, and its own word lowers this.
    #[option(env = "AZURE_COSMOS_MAX_STREAMS_PER_CLIENT", default = at_least_one(16))]
    pub max_streams_per_client: Option<NonZeroU32>,

    /// The most connections to one endpoint: two per processor by default.
    #[option(env = "AZURE_COSMOS_MAX_CLIENTS_PER_ENDPOINT", default = two_per_processor())]
    pub max_clients_per_endpoint: Option<NonZeroU32>,

    /// The connections kept open under any load, for a quick start of a spike.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_MIN_HTTP2_CONNECTIONS_PER_ENDPOINT",
        default = at_least_one(1)
    )]
    pub min_clients_per_endpoint: Option<NonZeroU32>,

    /// The share of connections that get new requests; the others drain. Adapts from here.
    #[option(env = "AZURE_COSMOS_SHARD_LOAD_SPREAD_RATIO", default = Ratio::constant(0.5), copy)]
    pub load_spread_ratio: Option<Ratio>,

    /// A connection is given up after this many failures in a row, if others succeed.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_CONSECUTIVE_FAILURE_THRESHOLD",
        default = at_least_one(5)
    )]
    pub consecutive_failure_threshold: Option<NonZeroU32>,

    /// How long after its last success a failing connection is kept.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_EVICTION_GRACE_PERIOD_MS",
        default = Duration::from_secs(2)
    )]
    pub eviction_grace_period: Option<Duration>,

    /// How long requests in flight on a connection that is given up may take to finish.
    #[option(env = "AZURE_COSMOS_SHARD_EVICTION_DRAIN_TIMEOUT_MS", default = Duration::from_secs(10))]
    pub eviction_drain_timeout: Option<Duration>,

    /// How long a connection above the minimum may lie unused before it is closed.
    #[option(env = "AZURE_COSMOS_SHARD_IDLE_TIMEOUT_SECS", default = Duration::from_secs(60))]
    pub idle_client_timeout: Option<Duration>,

    /// How often the health of connections is looked at.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_HEALTH_CHECK_INTERVAL_MS",
        default = Duration::from_secs(10)
    )]
    pub health_check_interval: Option<Duration>,

    /// A connection is added when more than this share of all streams is in use.
    #[option(env = "AZURE_COSMOS_SHARD_SCALE_UP_THRESHOLD_RATIO", default = Ratio::constant(0.75), copy)]
    pub scale_up_threshold_ratio: Option<Ratio>,

    /// A success within this window is proof of health.
    #[option(env = "AZURE_COSMOS_SHARD_RECENT_SUCCESS_WINDOW_MS", default = Duration::from_secs(1))]
    pub recent_success_window: Option<Duration>,

    /// Requests in flight without any success for this long mean that the connection hangs.
    #[option(env = "AZURE_COSMOS_SHARD_READ_HANG_THRESHOLD_MS", default = Duration::from_secs(15))]
    pub read_hang_threshold: Option<Duration>,

    /// Nothing is given up while the processors are busier than this: slowness is then our own.
    #[option(env = "AZURE_COSMOS_SHARD_EVICTION_CPU_LIMIT", default = Ratio::constant(0.9), copy)]
    pub eviction_cpu_limit: Option<Ratio>,

    /// The most requests that wait for a free stream of one endpoint.
    #[option(env = "AZURE_COSMOS_SHARD_MAX_QUEUED_REQUESTS", default = 1_000)]
    pub max_queued_requests: Option<usize>,
}

/// Where the number of processors cannot be read.
const CLIENTS_WITHOUT_PROCESSOR_COUNT: u32 = 32;

const fn at_least_one(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("a default that is not zero")
}

/// Reading the number of processors opens files, so it is done once.
fn two_per_processor() -> NonZeroU32 {
    static CLIENTS: LazyLock<NonZeroU32> = LazyLock::new(|| {
        let processors = std::thread::available_parallelism().ok();
        let clients = processors
            .and_then(|count| u32::try_from(count.get()).ok())
            .map_or(CLIENTS_WITHOUT_PROCESSOR_COUNT, |count| count.saturating_mul(2));
        NonZeroU32::new(clients).unwrap_or(NonZeroU32::MIN)
    });
    *CLIENTS
}
