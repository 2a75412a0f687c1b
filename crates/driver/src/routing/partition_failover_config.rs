//! The settings of partition-level failover, resolved once for a driver.

use super::window::jittered;
use crate::options::{OptionLayers, PartitionFailoverSettings, PartitionLevelFailover};

/// When a partition, or a whole endpoint, counts as failing, and when it is tried again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartitionFailoverConfig {
    /// The mechanisms in force for an account that asks for automatic partition failover.
    pub(crate) with_account_opt_in: PartitionLevelFailover,
    /// The mechanisms in force for any other account.
    pub(crate) without_account_opt_in: PartitionLevelFailover,
    /// Thresholds and windows, with their jitter applied.
    pub(crate) settings: PartitionFailoverSettings,
}

impl PartitionFailoverConfig {
    pub(crate) fn of(options: &OptionLayers) -> Self {
        let retry = options.retry();
        Self {
            with_account_opt_in: retry.partition_level_failover(true),
            without_account_opt_in: retry.partition_level_failover(false),
            settings: options.partition_failover().resolved(),
        }
    }

    /// The settings with their jitter applied: the drivers that met one outage do not probe in the same moment. `random` is
    /// a number from 0 to 1, drawn once for a driver.
    pub(crate) fn with_jitter(mut self, random: f64) -> Self {
        let settings = &mut self.settings;
        for duration in [
            &mut settings.partition_unavailability_duration,
            &mut settings.endpoint_unavailable_duration,
        ] {
            *duration = jittered(*duration, settings.unavailability_jitter, random);
        }
        self
    }
}
