//! The settings of partition-level failover, resolved once for a driver.

use std::time::Duration;

use super::window::jittered;
use crate::options::{OptionLayers, PartitionLevelFailover};

/// When a partition, or a whole endpoint, counts as failing, and when it is tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PartitionFailoverConfig {
    /// The mechanisms in force for an account that asks for automatic partition failover.
    pub(crate) with_account_opt_in: PartitionLevelFailover,
    /// The mechanisms in force for any other account.
    pub(crate) without_account_opt_in: PartitionLevelFailover,
    /// A circuit opens for reads when more than this have failed.
    pub(crate) read_failure_threshold: u32,
    /// A circuit opens for writes when more than this have failed.
    pub(crate) write_failure_threshold: u32,
    /// Failures further apart than this do not add up.
    pub(crate) counter_reset_window: Duration,
    /// How long a partition stays failed over before its own region is probed.
    pub(crate) partition_unavailability_duration: Duration,
    /// How long a probe may stay without an outcome before another may be made.
    pub(crate) probe_lease: Duration,
    /// The share of an endpoint's partitions that must fail for the endpoint to count as failing.
    pub(crate) endpoint_failure_share: f64,
    /// The window in which their failures add up.
    pub(crate) endpoint_failure_window: Duration,
    /// How long an endpoint that does not serve is avoided before it is probed.
    pub(crate) endpoint_unavailable_duration: Duration,
    /// The largest share of the two durations that jitter adds or takes off.
    pub(crate) unavailability_jitter: f64,
    /// So many hedges won in a row count as one failure.
    pub(crate) consecutive_hedge_win_threshold: u32,
    /// How often entries are swept that nothing asks about any more.
    pub(crate) failback_sweep_interval: Duration,
}

impl PartitionFailoverConfig {
    pub(crate) fn of(options: &OptionLayers) -> Self {
        let (failover, retry) = (options.partition_failover(), options.retry());
        Self {
            with_account_opt_in: retry.partition_level_failover(true),
            without_account_opt_in: retry.partition_level_failover(false),
            read_failure_threshold: failover.read_failure_threshold(),
            write_failure_threshold: failover.write_failure_threshold(),
            counter_reset_window: failover.counter_reset_window(),
            partition_unavailability_duration: failover.partition_unavailability_duration(),
            probe_lease: failover.probe_lease(),
            endpoint_failure_share: failover.endpoint_failure_share().value(),
            endpoint_failure_window: failover.endpoint_failure_window(),
            endpoint_unavailable_duration: failover.endpoint_unavailable_duration(),
            unavailability_jitter: failover.unavailability_jitter().value(),
            consecutive_hedge_win_threshold: failover.consecutive_hedge_win_threshold(),
            failback_sweep_interval: failover.failback_sweep_interval(),
        }
    }

    /// The settings with their jitter applied: the drivers that met one outage do not probe in the same moment. `random` is
    /// a number from 0 to 1, drawn once for a driver.
    pub(crate) fn with_jitter(self, random: f64) -> Self {
        let jittered = |duration| jittered(duration, self.unavailability_jitter, random);
        Self {
            partition_unavailability_duration: jittered(self.partition_unavailability_duration),
            endpoint_unavailable_duration: jittered(self.endpoint_unavailable_duration),
            ..self
        }
    }
}
