//! When a partition, or a whole endpoint, counts as failing, and when it is tried again.

use std::time::Duration;

use super::Ratio;
use crate::CosmosOptions;

/// Thresholds and windows of the partition circuit breaker and of failback.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account), resolved = pub(crate) PartitionFailoverSettings)]
pub struct PartitionFailoverOptions {
    /// A partition's circuit opens for reads when more reads than this have failed.
    #[option(env = "AZURE_COSMOS_CIRCUIT_BREAKER_FAILURE_COUNT_FOR_READS", default = 2)]
    pub read_failure_threshold: Option<u32>,

    /// A partition's circuit opens for writes when more writes than this have failed.
    #[option(env = "AZURE_COSMOS_CIRCUIT_BREAKER_FAILURE_COUNT_FOR_WRITES", default = 5)]
    pub write_failure_threshold: Option<u32>,

    /// Failures further apart than this do not add up.
    #[option(
        env = "AZURE_COSMOS_CIRCUIT_BREAKER_TIMEOUT_COUNTER_RESET_WINDOW_IN_MINUTES",
        default = Duration::from_secs(5 * 60)
    )]
    pub counter_reset_window: Option<Duration>,

    /// How long a partition stays failed over before its own region is probed.
    #[option(
        env = "AZURE_COSMOS_ALLOWED_PARTITION_UNAVAILABILITY_DURATION_IN_SECONDS",
        default = Duration::from_secs(5)
    )]
    pub partition_unavailability_duration: Option<Duration>,

    /// How often stale entries are swept.
    #[option(
        env = "AZURE_COSMOS_PPCB_STALE_PARTITION_UNAVAILABILITY_REFRESH_INTERVAL_IN_SECONDS",
        default = Duration::from_secs(300)
    )]
    pub failback_sweep_interval: Option<Duration>,

    /// How long a probe may stay without an outcome before another request may probe.
    #[option(env = "AZURE_COSMOS_PARTITION_PROBE_LEASE_MS", default = Duration::from_secs(10))]
    pub probe_lease: Option<Duration>,

    /// This many hedges in a row that have beaten a partition's region count as one failure of the partition there.
    #[option(env = "AZURE_COSMOS_PPCB_CONSECUTIVE_HEDGE_WIN_THRESHOLD", default = 5)]
    pub consecutive_hedge_win_threshold: Option<u32>,

    /// An endpoint goes down when this share of its partitions has failed within
    /// `endpoint_failure_window`.
    #[option(
        env = "AZURE_COSMOS_ENDPOINT_FAILURE_SHARE",
        default = Ratio::constant(0.5),
        copy,
        resolved = f64
    )]
    pub endpoint_failure_share: Option<Ratio>,

    /// The window in which failures of an endpoint's partitions add up to a failure of the endpoint.
    #[option(env = "AZURE_COSMOS_ENDPOINT_FAILURE_WINDOW_MS", default = Duration::from_secs(10))]
    pub endpoint_failure_window: Option<Duration>,

    /// How long an endpoint that is down is not chosen while another one is left.
    #[option(env = "AZURE_COSMOS_ENDPOINT_UNAVAILABLE_TTL_MS", default = Duration::from_secs(60))]
    pub endpoint_unavailable_duration: Option<Duration>,

    /// The jitter of `partition_unavailability_duration` and `endpoint_unavailable_duration`: the largest share of them
    /// that is added or taken off, once for each driver.
    #[option(
        env = "AZURE_COSMOS_UNAVAILABILITY_JITTER",
        default = Ratio::constant(0.2),
        copy,
        resolved = f64
    )]
    pub unavailability_jitter: Option<Ratio>,
}
