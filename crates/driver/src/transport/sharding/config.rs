//! The settings of sharding, resolved.

use std::time::Duration;

use crate::options::{ShardingOptionsView, two_per_processor};

/// How many connections share the load of an endpoint, and when one is evicted.
///
/// The meaning and the default of each are documented at [`ShardingOptions`](crate::options::ShardingOptions).
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each field is documented where the setting is declared")]
pub struct ShardingConfig {
    pub max_streams_per_client: u32,
    pub max_clients_per_endpoint: u32,
    /// The shards that are made as soon as streams run out: two per processor. Further ones are made only
    /// while requests wait.
    pub eager_clients_per_endpoint: u32,
    pub min_clients_per_endpoint: u32,
    pub load_spread_ratio: f64,
    pub consecutive_failure_threshold: u32,
    pub eviction_grace_period: Duration,
    pub eviction_drain_timeout: Duration,
    pub idle_client_timeout: Duration,
    pub health_check_interval: Duration,
    pub scale_up_threshold_ratio: f64,
    pub recent_success_window: Duration,
    pub read_hang_threshold: Duration,
    pub eviction_cpu_limit: f64,
    pub max_queued_requests: Option<usize>,
    pub max_queued_bytes: usize,
}

impl ShardingConfig {
    /// Adapts the settings to requests whose answers may take this long: as long as an answer is not late, its
    /// connection does not hang.
    #[must_use]
    pub fn for_answers_within(self, request_timeout: Duration) -> Self {
        let read_hang_threshold = self.read_hang_threshold.max(request_timeout);
        Self { read_hang_threshold, ..self }
    }
}

impl From<ShardingOptionsView<'_>> for ShardingConfig {
    fn from(options: ShardingOptionsView<'_>) -> Self {
        let max_clients_per_endpoint = options.max_clients_per_endpoint().get();
        let min_clients_per_endpoint = options.min_clients_per_endpoint().get();
        Self {
            max_streams_per_client: options.max_streams_per_client().get(),
            max_clients_per_endpoint,
            eager_clients_per_endpoint: two_per_processor()
                .max(min_clients_per_endpoint)
                .min(max_clients_per_endpoint),
            // The maximum wins over a minimum above it: it bounds what the service is asked for.
            min_clients_per_endpoint: min_clients_per_endpoint.min(max_clients_per_endpoint),
            load_spread_ratio: options.load_spread_ratio().value(),
            consecutive_failure_threshold: options.consecutive_failure_threshold().get(),
            eviction_grace_period: options.eviction_grace_period(),
            eviction_drain_timeout: options.eviction_drain_timeout(),
            idle_client_timeout: options.idle_client_timeout(),
            health_check_interval: options.health_check_interval(),
            scale_up_threshold_ratio: options.scale_up_threshold_ratio().value(),
            recent_success_window: options.recent_success_window(),
            read_hang_threshold: options.read_hang_threshold(),
            eviction_cpu_limit: options.eviction_cpu_limit().value(),
            max_queued_requests: options.max_queued_requests(),
            max_queued_bytes: options.max_queued_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use super::*;
    use crate::options::{CosmosClientOptions, OptionLayers, ShardingOptions};

    #[test]
    fn the_defaults_are_those_of_the_specification() {
        let config = ShardingConfig::from(OptionLayers::default().sharding());
        assert_eq!((config.max_streams_per_client, config.min_clients_per_endpoint), (16, 1));
        assert_eq!((config.load_spread_ratio, config.scale_up_threshold_ratio), (0.5, 0.75));
        assert_eq!(config.consecutive_failure_threshold, 5);
        assert_eq!(config.eviction_grace_period, Duration::from_secs(2));
        assert_eq!(config.idle_client_timeout, Duration::from_secs(60));
        assert_eq!(config.health_check_interval, Duration::from_secs(10));
        assert_eq!(config.eviction_cpu_limit, 0.9);
    }

    #[test]
    fn a_connection_does_not_hang_while_its_answer_may_still_come() {
        let config = ShardingConfig::from(OptionLayers::default().sharding());
        let data = config.clone().for_answers_within(Duration::from_secs(10));
        assert_eq!(data.read_hang_threshold, config.read_hang_threshold);
        let metadata = config.for_answers_within(Duration::from_secs(65));
        assert_eq!(metadata.read_hang_threshold, Duration::from_secs(65));
    }

    #[test]
    fn a_minimum_above_the_maximum_gives_way() {
        let count = |number| NonZeroU32::new(number).unwrap();
        let sharding = ShardingOptions::default()
            .with_max_clients_per_endpoint(count(2))
            .with_min_clients_per_endpoint(count(5));
        let account = CosmosClientOptions { sharding, ..CosmosClientOptions::default() };
        let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(account));
        assert_eq!(ShardingConfig::from(layers.sharding()).min_clients_per_endpoint, 2);
    }
}
