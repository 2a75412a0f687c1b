//! The settings of sharding, resolved and adjusted to each other.

use std::time::Duration;

use crate::options::sharding_options::ShardingConfig;
use crate::options::{ShardingOptionsView, two_per_processor};

impl ShardingConfig {
    /// Adapts the settings to requests whose answers may take this long: as long as an answer is not late, its
    /// connection does not hang.
    #[must_use]
    pub fn for_answers_within(self, request_timeout: Duration) -> Self {
        let read_hang_threshold = self.read_hang_threshold.max(request_timeout);
        Self { read_hang_threshold, ..self }
    }

    /// The shards that are made as soon as streams run out: two per processor. Further ones are made only
    /// while requests wait.
    #[must_use]
    pub fn eager_clients(&self) -> u32 {
        let bounds = (self.min_clients_per_endpoint, self.max_clients_per_endpoint);
        two_per_processor().max(bounds.0).min(bounds.1)
    }
}

impl From<ShardingOptionsView<'_>> for ShardingConfig {
    fn from(options: ShardingOptionsView<'_>) -> Self {
        let resolved = options.resolved();
        // The maximum wins over a minimum above it: it bounds what the service is asked for.
        let min_clients_per_endpoint =
            resolved.min_clients_per_endpoint.min(resolved.max_clients_per_endpoint);
        Self { min_clients_per_endpoint, ..resolved }
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
