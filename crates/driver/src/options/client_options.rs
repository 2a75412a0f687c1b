//! The client's own behaviour on the wire, and what one call can ask for beside its request.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::CosmosOptions;

/// Transport, user agent and tracing.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct ClientOptions {
    /// Text at the end of the user agent.
    #[option(env = "AZURE_COSMOS_USER_AGENT_SUFFIX")]
    pub user_agent_suffix: Option<String>,

    /// Whether operations and attempts are traced.
    #[option(env = "AZURE_COSMOS_TRACING_ENABLED", default = true)]
    pub tracing_enabled: Option<bool>,

    /// Whether HTTP/2 is offered.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_IS_HTTP2_ALLOWED", default = true)]
    pub is_http2_allowed: Option<bool>,

    /// Whether the proxy of the environment (`HTTPS_PROXY`, `NO_PROXY`) is used.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_IS_PROXY_ALLOWED", default = false)]
    pub is_proxy_allowed: Option<bool>,

    /// The local address that connections start from.
    #[option(env = "AZURE_COSMOS_LOCAL_ADDRESS")]
    pub local_address: Option<IpAddr>,

    /// Accepts any certificate of an emulator, which may have one of its own. Certificates of hosts that are
    /// neither this machine nor among `emulator_hosts` are checked all the same.
    #[option(env = "AZURE_COSMOS_EMULATOR_SERVER_CERT_VALIDATION_DISABLED", default = false)]
    pub accept_invalid_certs: Option<bool>,

    /// Names of emulators on other hosts, such as that of a container: for the setting above, and for account keys, which
    /// are used over `http://` on this machine and there alone.
    #[option(env = "AZURE_COSMOS_EMULATOR_HOSTS")]
    pub emulator_hosts: Option<BTreeSet<String>>,

    /// How often a silent TCP connection is probed.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_TCP_KEEPALIVE_INTERVAL_MS", default = Duration::from_secs(30))]
    pub tcp_keepalive_interval: Option<Duration>,

    /// How often an HTTP/2 connection is pinged.
    // With the timeout below, a dead connection is found within the read-hang threshold.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_KEEP_ALIVE_INTERVAL_MS", default = Duration::from_secs(10))]
    pub http2_keep_alive_interval: Option<Duration>,

    /// How long a PING may stay unacknowledged before the connection counts as lost.
    #[option(env = "AZURE_COSMOS_CONNECTION_POOL_HTTP2_KEEP_ALIVE_TIMEOUT_MS", default = Duration::from_secs(5))]
    pub http2_keep_alive_timeout: Option<Duration>,

    /// How often the load of the processors and the memory is read.
    #[option(env = "AZURE_COSMOS_CPU_REFRESH_INTERVAL_MS", default = Duration::from_secs(5))]
    pub cpu_refresh_interval: Option<Duration>,

    /// An operation on one item that takes this long is logged as slow, with its diagnostics.
    #[option(env = "AZURE_COSMOS_SLOW_POINT_OPERATION_THRESHOLD_MS", default = Duration::from_secs(1))]
    pub slow_point_operation_threshold: Option<Duration>,

    /// Any other operation that takes this long is logged as slow, with its diagnostics.
    #[option(env = "AZURE_COSMOS_SLOW_OPERATION_THRESHOLD_MS", default = Duration::from_secs(3))]
    pub slow_operation_threshold: Option<Duration>,

    /// An operation that costs this many request units is logged as expensive, with its diagnostics.
    #[option(env = "AZURE_COSMOS_REQUEST_CHARGE_THRESHOLD", default = 1_000)]
    pub request_charge_threshold: Option<u32>,
}

/// Deadline, activity id and cancellation of one call.
#[derive(Clone, Debug, Default)]
pub struct ClientMethodOptions<'a> {
    /// The moment at which the call ends, answered or not. The earlier of this and
    /// `AvailabilityOptions::end_to_end_timeout` counts.
    pub deadline: Option<Instant>,

    /// The activity id sent with the request; a fresh one where this is not set.
    pub activity_id: Option<Uuid>,

    /// Ends the call when cancelled.
    pub cancellation: Option<&'a CancellationToken>,
}
