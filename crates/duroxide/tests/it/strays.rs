//! Thousands of messages for instances that do not exist, as late events are after old instances were deleted.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::{Interruption, NetworkFaults};
use tokio::time::Instant;

use crate::loops::{self, Loops};
use crate::turns::{enqueue, fetch, raised, start};
use crate::world::World;

/// How many instances do not exist: 5,000 if `SIDEREAL_EXHAUSTIVE` is set.
fn strays() -> usize {
    if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_some() { 5_000 } else { 1_000 }
}

const ROUND_TRIP: Duration = Duration::from_millis(5);

/// The latencies from a start by another process to the end of the orchestration, in order.
async fn latencies(client: &CosmosDBProvider, loops: &mut Loops, name: &str) -> Vec<Duration> {
    let mut latencies = Vec::new();
    for number in 0..40 {
        // At any phase of the polls.
        tokio::time::sleep(Duration::from_millis(700 + number * 37)).await;
        let (id, began) = (format!("{name}-{number}"), Instant::now());
        enqueue(client, loops::start(&id, 1, None)).await;
        loops.completed(&id).await;
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    latencies
}

#[tokio::test(start_paused = true)]
async fn work_of_others_does_not_wait_for_messages_without_an_instance() {
    let world = World::new();
    let (client, worker) = (world.provider().await, Arc::new(world.provider().await));
    let mut loops = Loops::start(&worker, 2);
    let faults = NetworkFaults { latency: ROUND_TRIP, ..NetworkFaults::NONE };
    world.account.network().set_faults(faults);
    let before = latencies(&client, &mut loops, "before").await;
    for number in 0..strays() {
        enqueue(&client, raised(&format!("stray-{number}"), "late")).await;
    }
    let beside = latencies(&client, &mut loops, "beside").await;
    let (before, beside) = (before[38], beside[38]);
    println!("p97.5 {before:?}, beside {} strays {beside:?}", strays());
    assert!(beside <= before * 3 / 2, "{before:?}, {beside:?}");
    // They cost nothing from then on.
    tokio::time::sleep(Duration::from_secs(10)).await;
    world.network.arm(usize::MAX, Interruption::StopBefore);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let requests = world.network.disarm();
    println!("{requests} requests in an idle minute");
    assert!(requests <= 120, "{requests}");
    loops.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_start_takes_the_messages_that_were_postponed() {
    let world = World::new();
    let provider = Arc::new(world.provider().await);
    let loops = Loops::start(&provider, 1);
    for number in 0..20 {
        enqueue(&provider, raised(&format!("i-{number}"), "early")).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    loops.kill().await;
    let postponed =
        "SELECT VALUE c.id FROM c WHERE c.type = 'orch_queue' AND IS_DEFINED(c.retryAt)";
    let found: Vec<String> = world.container().query(postponed).items().collect().await.unwrap();
    assert_eq!(found.len(), 20);
    let other = world.settled().await;
    assert!(fetch(&other).await.is_none(), "they are not looked at");
    enqueue(&other, start("i-7")).await;
    let (fetched, requests) = world.requests(fetch(&other)).await;
    let (item, _, _) = fetched.unwrap();
    assert_eq!(item.instance, "i-7");
    assert_eq!(item.messages.len(), 2, "the event that came before");
    assert_eq!(requests, 3, "candidates, the instance with its messages, the lock");
    let found = other.fetch_orchestration_item(Duration::from_secs(5), Duration::ZERO, None).await;
    assert!(found.unwrap().is_none());
}
