//! The cost of reading ten settings through a view.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use sidereal_driver::options::{
    AvailabilityOptions, ConnectionOptions, CosmosClientOptions, CosmosEnvironmentOptions,
    CosmosRuntimeOptions, OptionLayers, RequestOptions,
};
use sidereal_protocol::{ConsistencyLevel, PriorityLevel};

/// One value at each layer, the rest defaults: a typical client.
fn layers() -> OptionLayers {
    let mut environment = CosmosEnvironmentOptions::default();
    environment.runtime.request.priority = Some(PriorityLevel::Low);
    let mut runtime = CosmosRuntimeOptions::default();
    runtime.request.consistency_level = Some(ConsistencyLevel::Session);
    let account = CosmosClientOptions {
        connection: ConnectionOptions::default().with_request_timeout(Duration::from_secs(3)),
        ..Default::default()
    };
    OptionLayers::new(Arc::new(environment), Arc::new(runtime), Arc::new(account))
}

fn ten_settings(criterion: &mut Criterion) {
    let layers = layers();
    let request = RequestOptions::default().with_throughput_bucket(5);
    let availability = AvailabilityOptions::default().with_hedging_enabled(false);
    criterion.bench_function("options/ten settings through their views", |bencher| {
        bencher.iter(|| {
            let layers = black_box(&layers);
            let request = layers.request(black_box(&request));
            let availability = layers.availability(black_box(&availability));
            let connection = layers.connection();
            black_box((
                request.consistency_level(),
                request.priority(),
                request.throughput_bucket(),
                request.excluded_regions(),
                availability.hedging_enabled(),
                availability.hedging_threshold(),
                availability.end_to_end_timeout(),
                availability.max_failover_retry_count(),
                connection.request_timeout(),
                connection.connection_pool().idle_timeout(),
            ))
        });
    });
}

criterion_group!(benches, ten_settings);
criterion_main!(benches);
