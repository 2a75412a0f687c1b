//! Which failures move an operation elsewhere, and how a session's own writes are waited for.
//!
//! How *often* an operation is retried is in `availability_options.rs`; when a partition counts as
//! failing, in `partition_failover_options.rs`.

use std::time::Duration;

use crate::CosmosOptions;

/// Switches of partition-level failover and of session retries.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct RetryOptions {
    /// Retries of a read whose session has not arrived in its region.
    #[option(nested)]
    pub session_retry: Option<SessionRetryOptions>,

    /// Whether a partition that keeps failing is read elsewhere. An account that asks for automatic
    /// partition failover turns this on by itself.
    #[option(
        env = "AZURE_COSMOS_PER_PARTITION_CIRCUIT_BREAKER_ENABLED",
        alias = "AZURE_COSMOS_ENABLE_PARTITION_CIRCUIT_BREAKER",
        default = true
    )]
    pub enable_partition_level_circuit_breaker: Option<bool>,

    /// Turns automatic partition failover and the partition circuit breaker off, whatever the account
    /// says.
    #[option(env = "AZURE_COSMOS_DISABLE_PARTITION_LEVEL_FAILOVER", default = false)]
    pub disable_partition_level_failover: Option<bool>,

    /// Whether a session retry goes to another region at once. `session_retry.remote_region_preferred`
    /// wins over this twin.
    #[option(
        env = "AZURE_COSMOS_ENABLE_REMOTE_REGION_PREFERRED_FOR_SESSION_RETRY",
        default = false
    )]
    pub enable_remote_region_preferred_for_session_retry: Option<bool>,
}

/// How long and how often a region is retried until it has caught up with a session.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct SessionRetryOptions {
    /// The least time spent in a region before another one is tried.
    #[option(env = "AZURE_COSMOS_SESSION_RETRY_MIN_IN_REGION_RETRY_TIME_MS", default = Duration::from_millis(500))]
    pub min_in_region_retry_time: Option<Duration>,

    /// The most retries in one region.
    #[option(env = "AZURE_COSMOS_SESSION_RETRY_MAX_IN_REGION_RETRY_COUNT", default = 1)]
    pub max_in_region_retry_count: Option<usize>,

    /// Whether another region is tried at once.
    #[option(env = "AZURE_COSMOS_SESSION_RETRY_REMOTE_REGION_PREFERRED")]
    pub remote_region_preferred: Option<bool>,
}

/// Which mechanisms of partition-level failover are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLevelFailover {
    /// Writes of a single-write account follow a failing partition to another region.
    pub automatic_failover: bool,
    /// A partition that keeps failing is avoided for a while.
    pub circuit_breaker: bool,
}

impl RetryOptionsView<'_> {
    /// Whether a session retry goes to another region at once: the nested setting where any layer has
    /// it, the outer one otherwise.
    #[must_use]
    pub fn remote_region_preferred(&self) -> bool {
        self.session_retry()
            .remote_region_preferred()
            .unwrap_or_else(|| self.enable_remote_region_preferred_for_session_retry())
    }

    /// Which mechanisms are in force for an account that does, or does not, ask for automatic
    /// partition failover.
    #[must_use]
    pub fn partition_level_failover(&self, account_asks_for_it: bool) -> PartitionLevelFailover {
        let allowed = !self.disable_partition_level_failover();
        PartitionLevelFailover {
            automatic_failover: allowed && account_asks_for_it,
            circuit_breaker: allowed
                && (account_asks_for_it || self.enable_partition_level_circuit_breaker()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view_of(options: &RetryOptions) -> RetryOptionsView<'_> {
        static UNSET: std::sync::LazyLock<RetryOptions> =
            std::sync::LazyLock::new(RetryOptions::default);
        RetryOptionsView::new(&UNSET, &UNSET, options)
    }

    #[test]
    fn the_nested_preference_wins_over_its_outer_twin() {
        let outer =
            RetryOptions::default().with_enable_remote_region_preferred_for_session_retry(true);
        assert!(view_of(&outer).remote_region_preferred());

        let nested = SessionRetryOptions::default().with_remote_region_preferred(false);
        assert!(!view_of(&outer.with_session_retry(nested)).remote_region_preferred());
        assert!(!view_of(&RetryOptions::default()).remote_region_preferred());
    }

    #[test]
    fn the_nested_preference_of_a_lower_layer_still_wins() {
        let nested = SessionRetryOptions::default().with_remote_region_preferred(false);
        let runtime = RetryOptions::default().with_session_retry(nested);
        let account =
            RetryOptions::default().with_enable_remote_region_preferred_for_session_retry(true);
        let unset = RetryOptions::default();
        assert!(!RetryOptionsView::new(&unset, &runtime, &account).remote_region_preferred());
    }

    #[test]
    fn the_account_turns_both_mechanisms_on_and_the_switch_turns_both_off() {
        let both = PartitionLevelFailover { automatic_failover: true, circuit_breaker: true };
        let neither = PartitionLevelFailover { automatic_failover: false, circuit_breaker: false };
        let breaker = PartitionLevelFailover { circuit_breaker: true, ..neither };

        let unset = RetryOptions::default();
        assert_eq!(view_of(&unset).partition_level_failover(true), both);
        assert_eq!(view_of(&unset).partition_level_failover(false), breaker);

        let no_breaker = RetryOptions::default().with_enable_partition_level_circuit_breaker(false);
        assert_eq!(view_of(&no_breaker).partition_level_failover(true), both);
        assert_eq!(view_of(&no_breaker).partition_level_failover(false), neither);

        let disabled = RetryOptions::default().with_disable_partition_level_failover(true);
        assert_eq!(view_of(&disabled).partition_level_failover(true), neither);
        assert_eq!(view_of(&disabled).partition_level_failover(false), neither);
    }
}
