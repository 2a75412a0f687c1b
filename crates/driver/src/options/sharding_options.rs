//! HTTP/2 connection sharding: how many connections share the load of an endpoint, and when one is evicted.
//!
//! A *client* in the names of these settings is a shard: one HTTP/2 connection with its streams. The names
//! and variables are those of the specification.

use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use super::Ratio;
use crate::CosmosOptions;

/// HTTP/2 connection sharding; ignored where an endpoint speaks HTTP/1.1 only.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account), resolved = pub ShardingConfig)]
pub struct ShardingOptions {
    /// The most concurrent streams on one shard; the service allows 20, and its
    /// `SETTINGS_MAX_CONCURRENT_STREAMS` lowers this.
    // Headroom below the service's 20: a stream counts against its limit until the peer has seen its end.
    #[option(
        env = "AZURE_COSMOS_MAX_STREAMS_PER_CLIENT",
        default = at_least_one(16),
        resolved = u32
    )]
    pub max_streams_per_client: Option<NonZeroU32>,

    /// The most shards (HTTP/2 connections) to one endpoint. Two per processor are made as soon as streams run
    /// out, further ones while requests wait for a stream; idle ones are closed.
    #[option(
        env = "AZURE_COSMOS_MAX_CLIENTS_PER_ENDPOINT",
        default = default_max_clients(),
        resolved = u32
    )]
    pub max_clients_per_endpoint: Option<NonZeroU32>,

    /// The shards kept open under any load, so that a spike does not wait for connections.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_MIN_HTTP2_CONNECTIONS_PER_ENDPOINT",
        default = at_least_one(1),
        resolved = u32
    )]
    pub min_clients_per_endpoint: Option<NonZeroU32>,

    /// The share of shards that get new requests; the others become idle. Adapts from here.
    #[option(
        env = "AZURE_COSMOS_SHARD_LOAD_SPREAD_RATIO",
        default = Ratio::constant(0.5),
        copy,
        resolved = f64
    )]
    pub load_spread_ratio: Option<Ratio>,

    /// A shard is evicted after this many consecutive failures, if others succeed.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_CONSECUTIVE_FAILURE_THRESHOLD",
        default = at_least_one(5),
        resolved = u32
    )]
    pub consecutive_failure_threshold: Option<NonZeroU32>,

    /// How long after its last success a failing shard is kept.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_EVICTION_GRACE_PERIOD_MS",
        default = Duration::from_secs(2)
    )]
    pub eviction_grace_period: Option<Duration>,

    /// How long requests in flight on an evicted shard may take to finish (drain).
    // As long as one data request may take.
    #[option(
        env = "AZURE_COSMOS_SHARD_EVICTION_DRAIN_TIMEOUT_MS",
        default = Duration::from_secs(10)
    )]
    pub eviction_drain_timeout: Option<Duration>,

    /// How long a shard above the minimum may be idle before it is closed.
    #[option(env = "AZURE_COSMOS_SHARD_IDLE_TIMEOUT_SECS", default = Duration::from_secs(60))]
    pub idle_client_timeout: Option<Duration>,

    /// The interval of the health sweep.
    #[option(
        env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_HEALTH_CHECK_INTERVAL_MS",
        default = Duration::from_secs(10)
    )]
    pub health_check_interval: Option<Duration>,

    /// A shard is added when more than this share of all streams is in use.
    #[option(
        env = "AZURE_COSMOS_SHARD_SCALE_UP_THRESHOLD_RATIO",
        default = Ratio::constant(0.75),
        copy,
        resolved = f64
    )]
    pub scale_up_threshold_ratio: Option<Ratio>,

    /// A success within this window is proof of health.
    #[option(env = "AZURE_COSMOS_SHARD_RECENT_SUCCESS_WINDOW_MS", default = Duration::from_secs(1))]
    pub recent_success_window: Option<Duration>,

    /// Requests in flight without any success for this long mean that the shard hangs. It is never less
    /// than the longest that one of its requests may take.
    // Above the timeout of a data request (10 s), so that a slow response is not taken for a hang.
    #[option(env = "AZURE_COSMOS_SHARD_READ_HANG_THRESHOLD_MS", default = Duration::from_secs(15))]
    pub read_hang_threshold: Option<Duration>,

    /// Nothing is evicted while the processors are busier than this: slowness is then our own.
    #[option(
        env = "AZURE_COSMOS_SHARD_EVICTION_CPU_LIMIT",
        default = Ratio::constant(0.9),
        copy,
        resolved = f64
    )]
    pub eviction_cpu_limit: Option<Ratio>,

    /// The most requests that wait for a free stream of one endpoint; one more fails at once as
    /// `ErrorKind::Overloaded`. Without it, they wait up to their deadlines.
    #[option(env = "AZURE_COSMOS_SHARD_MAX_QUEUED_REQUESTS")]
    pub max_queued_requests: Option<usize>,

    /// The most memory, in bytes, of requests that wait for a free stream of one endpoint: their bodies, and 2 KB
    /// for each request.
    #[option(env = "AZURE_COSMOS_SHARD_MAX_QUEUED_BYTES", default = 256 * 1024 * 1024)]
    pub max_queued_bytes: Option<usize>,
}

/// The most shards unless a setting or the number of processors says more: with 16 streams each and answers
/// after 20 ms, 50,000 requests a second.
const MAX_CLIENTS_PER_ENDPOINT: u32 = 64;

/// The processors where their number cannot be read.
const UNKNOWN_PROCESSOR_COUNT: u32 = 16;

const fn at_least_one(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("a default that is not zero")
}

fn default_max_clients() -> NonZeroU32 {
    at_least_one(two_per_processor().max(MAX_CLIENTS_PER_ENDPOINT))
}

/// Two shards for each processor. Reading the number of processors opens files, so it is done once.
pub(crate) fn two_per_processor() -> u32 {
    static PROCESSORS: LazyLock<u32> = LazyLock::new(|| {
        let count = std::thread::available_parallelism().ok();
        count.and_then(|it| u32::try_from(it.get()).ok()).unwrap_or(UNKNOWN_PROCESSOR_COUNT)
    });
    PROCESSORS.saturating_mul(2)
}
