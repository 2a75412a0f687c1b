//! The start of a provider: what it creates, with which throughput, and with which rights.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use sidereal::driver::transport::{HttpRequest, HttpResponse};
use sidereal::prelude::*;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_testing::in_process::scripting::refusal;

use crate::turns::{Done, begin};
use crate::world::World;

fn config(world: &World) -> CosmosDBProviderConfig {
    CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock())
}

/// An account that is used with a key until its rights are limited.
struct Limited {
    world: World,
    is_limited: Arc<AtomicBool>,
}

impl Limited {
    /// One that refuses some requests then.
    fn to(refuse: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static) -> Self {
        let is_limited = Arc::new(AtomicBool::new(false));
        let limited = Arc::clone(&is_limited);
        let world = World::scripted_for_all(move |request| {
            // Relaxed: the test sets it between its calls.
            limited.load(Ordering::Relaxed).then(|| refuse(request)).flatten()
        });
        Self { world, is_limited }
    }

    /// One that then refuses what roles of the data plane do not allow: creating databases and containers, and throughput.
    fn to_the_data_plane() -> Self {
        Self::to(|request| {
            let path = request.uri().path();
            let is_resource = path == "/dbs" || path.ends_with("/colls") || path == "/offers";
            (is_resource && request.method() == Method::POST).then(|| refusal(403, 5300))
        })
    }

    fn limit(&self) {
        self.is_limited.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_is_created_with_the_throughput_of_the_configuration() {
    let world = World::new();
    let throughput = ThroughputProperties::autoscale(4_000, None);
    let provider = CosmosDBProvider::new(config(&world).with_throughput(throughput)).await.unwrap();
    begin(&provider, "i", Done::first("i")).await;
    let stored = world.container().read_throughput(None).await.unwrap();
    assert_eq!(stored, Some(throughput));

    let other = config(&world).with_throughput(ThroughputProperties::manual(1_000));
    CosmosDBProvider::new(other).await.unwrap();
    let stored = world.container().read_throughput(None).await.unwrap();
    assert_eq!(stored, Some(throughput), "an existing container keeps its own");
}

/// It asked for the right to create what exists.
#[tokio::test(start_paused = true)]
async fn a_role_of_the_data_plane_uses_a_container_that_exists() {
    let limited = Limited::to_the_data_plane();
    let config = config(&limited.world);
    let client = limited.world.client();
    client.create_database(&config.database, None).await.unwrap();
    let database = client.database(&config.database);
    database.create_container(config.container_properties(), None).await.unwrap();
    limited.limit();
    let provider = CosmosDBProvider::new(config).await.unwrap();
    begin(&provider, "i", Done::first("i")).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_creation_says_what_to_create() {
    let limited = Limited::to_the_data_plane();
    limited.limit();
    let config = config(&limited.world).with_database("workflows");
    let refused = CosmosDBProvider::new(config).await.unwrap_err().to_string();
    for told in ["workflows/duroxide does not exist", "403/5300", "/instanceId", "defaultTtl -1"] {
        assert!(refused.contains(told), "{refused}");
    }
    assert!(refused.contains("container_properties") && refused.contains("Entra ID"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_read_says_which_right_is_missing() {
    for path in ["/", "/dbs/duroxide/colls/duroxide"] {
        let limited =
            Limited::to(move |request| (request.uri().path() == path).then(|| refusal(403, 0)));
        drop(limited.world.provider().await);
        let config = config(&limited.world);
        limited.limit();
        let refused = CosmosDBProvider::new(config).await.unwrap_err().to_string();
        assert!(refused.contains("cannot be read") && refused.contains("Contributor"), "{refused}");
    }
}

/// Two processes that start together on an empty account both create what is missing.
#[tokio::test(start_paused = true)]
async fn processes_that_start_together_create_one_container() {
    let world = World::new();
    let (one, other) = tokio::join!(world.provider(), world.provider());
    begin(&one, "i", Done::first("i")).await;
    assert_eq!(other.slots().await.len(), 256);
}

#[tokio::test(start_paused = true)]
async fn a_container_without_a_composite_index_is_refused_with_what_to_add() {
    let world = World::new();
    let config = config(&world);
    let mut properties = config.container_properties();
    properties.indexing_policy.as_mut().unwrap().composite_indexes.truncate(3);
    let client = world.client();
    client.create_database(&config.database, None).await.unwrap();
    let database = client.database(&config.database);
    database.create_container(properties, None).await.unwrap();
    let refused = CosmosDBProvider::new(config).await.unwrap_err().to_string();
    assert!(refused.contains("compositeIndexes") && refused.contains("/status"), "{refused}");
    assert!(!refused.contains("includedPaths"), "{refused}");
}
