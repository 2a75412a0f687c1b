//! How far an operation goes to get a response: hedging, the deadline, and the retry budgets.

use std::time::Duration;

use super::{AmbiguousWriteRetry, Factor, HedgingThreshold, Ratio};
use crate::CosmosOptions;

/// Hedging, the deadline and the budgets of retries; at every layer down to one call.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account, operation))]
pub struct AvailabilityOptions {
    /// Whether operations fail while the account has several write regions, and nothing is sent: for applications whose
    /// conditional writes must be judged by one region.
    #[option(env = "AZURE_COSMOS_SINGLE_WRITE_REGION_ONLY", default = false)]
    pub single_write_region_only: Option<bool>,

    /// The longest that an operation may take, with all its attempts, waits and hedges.
    #[option(env = "AZURE_COSMOS_END_TO_END_TIMEOUT_MS")]
    pub end_to_end_timeout: Option<Duration>,

    /// Whether a slow attempt is joined by a second one in another region.
    #[option(env = "AZURE_COSMOS_HEDGING_ENABLED", default = true)]
    pub hedging_enabled: Option<bool>,

    /// Whether slow writes are hedged too, on accounts with several write regions. The attempt that loses may be
    /// applied after the call has returned, and then undoes a later write of the same item.
    // Off, where the specification has it on: docs/adr/0021.
    #[option(env = "AZURE_COSMOS_HEDGE_WRITES", default = false)]
    pub hedge_writes: Option<bool>,

    /// Which writes are sent again when an earlier attempt may have been applied: `idempotent`, `conditional` or
    /// `never`.
    #[option(env = "AZURE_COSMOS_RETRY_AMBIGUOUS_WRITES", default = AmbiguousWriteRetry::Idempotent, copy)]
    pub retry_ambiguous_writes: Option<AmbiguousWriteRetry>,

    /// The latency beyond which an attempt is hedged.
    #[option(env = "AZURE_COSMOS_HEDGING_THRESHOLD_MS", default = HedgingThreshold::default(), copy)]
    pub hedging_threshold: Option<HedgingThreshold>,

    /// The most hedges in the long run, as a share of all requests.
    #[option(env = "AZURE_COSMOS_HEDGING_BUDGET_RATIO", default = Ratio::constant(0.1), copy)]
    pub hedging_budget_ratio: Option<Ratio>,

    /// Hedges allowed at once on top of the share, so that a quiet application can hedge at all.
    #[option(env = "AZURE_COSMOS_HEDGING_BUDGET_BURST", default = 10)]
    pub hedging_budget_burst: Option<u32>,

    /// The most retries in other regions. `0` turns failover off.
    #[option(env = "AZURE_COSMOS_MAX_FAILOVER_RETRY_COUNT", default = 3)]
    pub max_failover_retry_count: Option<u32>,

    /// How long a write waits for the account to name another write region, or for its own to serve again, if the
    /// operation has no deadline. `0` turns waiting off.
    #[option(env = "AZURE_COSMOS_MAX_WRITE_REGION_WAIT_MS", default = Duration::from_secs(60))]
    pub max_write_region_wait: Option<Duration>,

    /// The most retries of a read whose session has not arrived.
    #[option(env = "AZURE_COSMOS_MAX_SESSION_RETRY_COUNT", default = 3)]
    pub max_session_retry_count: Option<u32>,

    /// The most retries over another connection, at the same endpoint, of a request whose connection failed.
    // Once: a second failure is the endpoint's, and the retry belongs elsewhere.
    #[option(env = "AZURE_COSMOS_MAX_CONNECTION_RETRY_COUNT", default = 1)]
    pub max_connection_retry_count: Option<u32>,

    /// The first wait before a retry in place.
    #[option(env = "AZURE_COSMOS_RETRY_INITIAL_BACKOFF_MS", default = Duration::from_millis(100))]
    pub retry_initial_backoff: Option<Duration>,

    /// The longest wait before a retry in place.
    #[option(env = "AZURE_COSMOS_RETRY_MAX_BACKOFF_MS", default = Duration::from_secs(5))]
    pub retry_max_backoff: Option<Duration>,

    /// The factor by which the wait grows from one retry to the next.
    #[option(env = "AZURE_COSMOS_RETRY_BACKOFF_FACTOR", default = Factor::constant(2.0), copy)]
    pub retry_backoff_factor: Option<Factor>,

    /// The most retries of a throttled attempt.
    #[option(env = "AZURE_COSMOS_MAX_THROTTLE_RETRY_COUNT", default = 9)]
    pub max_throttle_retry_count: Option<u32>,

    /// The longest that an attempt may spend waiting out throttling, all waits together.
    #[option(env = "AZURE_COSMOS_MAX_THROTTLE_WAIT_MS", default = Duration::from_secs(30))]
    pub max_throttle_wait: Option<Duration>,
}
