//! Accounts with several write regions: a lock is granted by one of them only.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};
use sidereal::models::ConsistencyLevel;
use sidereal::options::{CosmosClientOptions, RegionOptions};
use sidereal::prelude::*;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::{AccountOptions, Emulator, Operation};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

use crate::loops::{self, Loops};
use crate::turns::{Done, ack, enqueue, fetch, start};
use crate::world::World;

/// Two regions that take writes, and are far apart.
fn multi_write() -> AccountOptions {
    AccountOptions {
        regions: vec!["West US".into(), "East US".into()],
        multi_write: true,
        replication_delay: Duration::from_secs(3),
        ..AccountOptions::default()
    }
}

fn world(options: AccountOptions) -> World {
    World::of(InProcessAccount::new(options, 1, NetworkFaults::NONE))
}

#[tokio::test(start_paused = true)]
async fn providers_near_two_write_regions_do_not_both_get_the_same_turn() {
    let world = world(multi_write());
    let (east, west) = (world.provider_in("East US").await, world.provider_in("West US").await);
    enqueue(&west, start("i")).await;
    let (_, token, _) = fetch(&east).await.expect("what the other enqueued is there at once");
    assert!(fetch(&west).await.is_none(), "its own region would have granted it too");
    ack(&east, &token, Done::first("i")).await.unwrap();
    assert_eq!(west.read("i").await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pinned_region_that_is_down_is_not_replaced_by_another() {
    let world = world(multi_write());
    let east = world.provider_in("East US").await;
    world.account.account().set_online(&"East US".into(), false).unwrap();
    let stored = east.enqueue_for_orchestrator(start("i"), None).await;
    assert!(stored.unwrap_err().is_retryable());
    let found = east.fetch_orchestration_item(Duration::from_secs(5), Duration::ZERO, None).await;
    assert!(found.unwrap_err().is_retryable());
    world.account.account().set_online(&"East US".into(), true).unwrap();
    enqueue(&east, start("i")).await;
}

#[tokio::test(start_paused = true)]
async fn a_container_without_a_region_is_refused_until_an_operator_names_one() {
    let world = world(multi_write());
    drop(world.provider_in("East US").await);
    // As a container that was made before the account took writes in several regions.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let container = world.container();
    let patch = Patch::new().remove("/region");
    container.patch_item("__sidereal__", "schema", patch, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;

    let config = || CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    let refused = CosmosDBProvider::new(config()).await.unwrap_err().to_string();
    assert!(refused.contains("does not say in which of them"), "{refused}");
    let mars = config().with_region_moved_risking_duplicates("Mars");
    let refused = CosmosDBProvider::new(mars).await.unwrap_err().to_string();
    assert!(refused.contains("West US, East US"), "{refused}");
    let moved = config().with_region_moved_risking_duplicates("West US");
    let west = CosmosDBProvider::new(moved).await.unwrap();
    let next = world.provider_in("East US").await;
    enqueue(&next, start("i")).await;
    assert!(fetch(&west).await.is_some(), "both are in West US");
}

#[tokio::test(start_paused = true)]
async fn an_account_weaker_than_session_is_refused() {
    let options =
        AccountOptions { consistency: ConsistencyLevel::ConsistentPrefix, ..Default::default() };
    let world = world(options);
    let refused = CosmosDBProvider::new(CosmosDBProviderConfig::with_client(world.client())).await;
    let sentence = refused.unwrap_err().to_string();
    assert!(sentence.contains("ConsistentPrefix") && sentence.contains("Session"), "{sentence}");
}

/// A runtime near a region, whose activities are counted.
async fn runtime(
    emulator: &Emulator,
    region: &str,
    executed: &Arc<AtomicUsize>,
) -> (Arc<Runtime>, Arc<CosmosDBProvider>) {
    let regions = RegionOptions {
        preferred_regions: Some(vec![region.to_owned().into()]),
        ..RegionOptions::default()
    };
    let options = CosmosClientOptions { regions, ..Default::default() };
    let client =
        CosmosClient::new(emulator.http_endpoint(), emulator.key().clone(), Some(options)).unwrap();
    let config = CosmosDBProviderConfig::with_client(client);
    let provider = Arc::new(CosmosDBProvider::new(config).await.unwrap());
    let executed = Arc::clone(executed);
    let activities =
        ActivityRegistry::builder().register("Count", move |_: ActivityContext, input: String| {
            let executed = Arc::clone(&executed);
            async move {
                executed.fetch_add(1, Ordering::Relaxed);
                Ok(input)
            }
        });
    let orchestrations = OrchestrationRegistry::builder().register(
        "FanOut",
        |context: OrchestrationContext, _: String| async move {
            let activities = (0..3).map(|n: u32| context.schedule_activity("Count", n.to_string()));
            let results = context.join(activities.collect()).await;
            Ok(results.into_iter().filter(Result::is_ok).count().to_string())
        },
    );
    let store = Arc::clone(&provider) as Arc<dyn Provider>;
    let runtime =
        Runtime::start_with_store(store, activities.build(), orchestrations.build()).await;
    (runtime, provider)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runtimes_in_two_regions_of_a_multi_write_account_share_the_work() {
    let emulator = Emulator::builder()
        .regions(["West US", "East US"])
        .multi_write(true)
        .replication_delay(Duration::from_millis(100))
        .start()
        .await
        .unwrap();
    let executed = Arc::new(AtomicUsize::new(0));
    let (west, near_west) = runtime(&emulator, "West US", &executed).await;
    let (east, near_east) = runtime(&emulator, "East US", &executed).await;
    let client = Client::new(Arc::clone(&near_east) as Arc<dyn Provider>);
    for number in 0..20 {
        client.start_orchestration(&format!("order-{number}"), "FanOut", "").await.unwrap();
    }
    for number in 0..20 {
        let id = format!("order-{number}");
        let status = client.wait_for_orchestration(&id, Duration::from_secs(30)).await.unwrap();
        let OrchestrationStatus::Completed { output, .. } = status else { panic!("{status:?}") };
        assert_eq!(output, "3");
    }
    assert_eq!(executed.load(Ordering::Relaxed), 60, "each activity once");
    west.shutdown(Some(1_000)).await;
    east.shutdown(Some(1_000)).await;
    near_west.shutdown().await;
    near_east.shutdown().await;
}

/// Two regions, of which the first takes writes, until the other does too.
fn single_write() -> AccountOptions {
    AccountOptions {
        regions: vec!["West US".into(), "East US".into()],
        replication_delay: Duration::from_millis(300),
        ..AccountOptions::default()
    }
}

/// Each region granted the same locks: orchestrations were stuck, and activities ran twice.
#[tokio::test(start_paused = true)]
async fn enabling_multiple_write_regions_pins_running_orchestrations_to_one() {
    const INSTANCES: usize = 30;
    let world = world(single_write());
    let near = ["West US", "East US"];
    let mut processes = Vec::new();
    for region in near {
        let mut config = world.config_in(region);
        // The driver hears of it first, which routes by what it hears at once.
        config.reconciler_scan_interval = Duration::from_secs(24 * 3600);
        let provider = Arc::new(CosmosDBProvider::new(config).await.unwrap());
        processes.push((Arc::clone(&provider), Loops::start(&provider, 2)));
    }
    let client = world.provider_in("East US").await;
    for number in 0..INSTANCES {
        if number == INSTANCES / 2 {
            world.account.account().enable_multiple_write_regions().unwrap();
        }
        enqueue(&client, loops::start(&format!("i-{number}"), 3, None)).await;
        // The driver reads the account every five minutes.
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let completed = client.list_instances_by_status("Completed").await.unwrap();
    assert_eq!(completed.len(), INSTANCES);
    for instance in completed {
        let events = client.read(&instance).await.unwrap();
        let ids: Vec<u64> = events.iter().map(duroxide::Event::event_id).collect();
        assert_eq!(ids, (1..=8).collect::<Vec<_>>(), "{instance}: nothing is there twice");
    }
    let written: Vec<String> = world
        .account
        .account()
        .counters()
        .into_iter()
        .filter(|row| row.operation == Operation::Batch && row.requests > 0)
        .map(|row| row.region.to_string())
        .collect();
    assert!(!written.contains(&"East US".to_owned()), "{written:?}");
    for (_, loops) in processes {
        loops.kill().await;
    }
}
