//! Polling, and what it must not depend on: work that no process can handle costs next to nothing, a
//! backlog of one instance hides no other, and a question that takes long delays no timer.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, TagFilter};
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use crate::turns::{Done, LOCK, activity, begin, enqueue, fetch, raised, start};
use crate::world::World;

const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(1_250);

/// How long a process waits beside something, and how many requests that takes if there is nothing: a look a second, the
/// leases, and a few tries.
const BESIDE: Duration = Duration::from_secs(30);
const REQUESTS_BESIDE: usize = 60;

/// How many requests a dispatcher and a worker take that wait and are given nothing.
async fn requests_of_waiting(world: &World, provider: &CosmosDBProvider) -> usize {
    let waiting = async {
        let turn = provider.fetch_orchestration_item(LOCK, BESIDE, None);
        let item = provider.fetch_work_item(LOCK, BESIDE, None, &TagFilter::DefaultOnly);
        tokio::join!(turn, item)
    };
    let ((turn, item), requests) = world.requests(waiting).await;
    assert!(turn.unwrap().is_none() && item.unwrap().is_none());
    requests
}

/// An event that was raised to an instance that was never started was read twenty times a second, for ever.
#[tokio::test(start_paused = true)]
async fn an_event_of_an_instance_that_was_never_started_costs_next_to_nothing() {
    let world = World::new();
    enqueue(&world.provider().await, raised("ghost", "1")).await;
    let provider = Arc::new(world.settled().await);
    let requests = requests_of_waiting(&world, &provider).await;
    println!("{BESIDE:?} beside an event to nobody: {requests} requests");
    assert!(requests <= REQUESTS_BESIDE, "{requests}");

    // Started by another process after all, it begins with the event.
    let waiting = Arc::clone(&provider);
    let fetching = tokio::spawn(async move {
        waiting.fetch_orchestration_item(LOCK, BESIDE, None).await.unwrap().unwrap()
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    enqueue(&world.provider().await, start("ghost")).await;
    let (turn, _, attempts) = fetching.await.unwrap();
    assert_eq!((turn.messages.len(), attempts), (2, 1));
    let waited = began.elapsed();
    assert!(waited <= Duration::from_secs(5) + LONGEST_FEED_INTERVAL, "{waited:?}");
}

/// Makes the payload of documents of a kind something that nobody can read.
async fn corrupt(world: &World, kind: &str) {
    let container = world.container();
    let query =
        container.query("SELECT * FROM c WHERE c.type = @kind").with_parameter("@kind", kind);
    let documents: Vec<Value> = query.items().collect().await.unwrap();
    assert!(!documents.is_empty());
    for mut document in documents {
        document["workItem"] = Value::from("{");
        let partition = document["instanceId"].as_str().unwrap().to_owned();
        container.upsert_item(partition.as_str(), &document, None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn messages_and_activities_that_cannot_be_read_cost_next_to_nothing() {
    let world = World::new();
    let client = world.provider().await;
    begin(&client, "i", Done::first("i")).await;
    enqueue(&client, raised("i", "1")).await;
    client.enqueue_for_worker(activity("i", 2, None)).await.unwrap();
    corrupt(&world, "orch_queue").await;
    corrupt(&world, "worker_queue").await;
    drop(client);
    let provider = world.settled().await;
    let requests = requests_of_waiting(&world, &provider).await;
    println!("{BESIDE:?} beside what cannot be read: {requests} requests");
    assert!(requests <= 2 * REQUESTS_BESIDE, "{requests}");

    let client = world.provider().await;
    enqueue(&client, start("j")).await;
    let found = provider.fetch_orchestration_item(LOCK, BESIDE, None).await.unwrap();
    assert_eq!(found.unwrap().0.instance, "j", "not hidden by what cannot be read");
}

/// More messages of an instance, copies of one that waits.
async fn multiply(world: &World, instance: &str, times: usize) {
    let container = world.container();
    let waiting = "SELECT * FROM c WHERE c.type = 'orch_queue' AND IS_NULL(c.lockToken)";
    let query = container.query(waiting).with_partition_key(instance);
    let documents: Vec<Value> = query.items().collect().await.unwrap();
    let copy = |number: usize| {
        let mut copy = documents[0].clone();
        copy["id"] = Value::from(format!("copy-{number}"));
        copy
    };
    for first in (0..times).step_by(100) {
        let copies = (first..first + 100).map(copy);
        let batch = copies.fold(TransactionalBatch::new(instance), TransactionalBatch::create_item);
        container.execute_batch(batch, None).await.unwrap();
    }
}

/// How many requests a process takes that waits beside a backlog of an instance that another has locked.
async fn requests_beside_a_backlog(messages: usize) -> usize {
    const LONG_LOCK: Duration = Duration::from_secs(600);
    let world = World::new();
    let busy = world.settled().await;
    enqueue(&busy, start("i")).await;
    let locked = busy.fetch_orchestration_item(LONG_LOCK, Duration::ZERO, None).await.unwrap();
    assert!(locked.is_some());
    enqueue(&busy, raised("i", "1")).await;
    multiply(&world, "i", messages).await;
    let provider = world.settled().await;
    let requests = requests_of_waiting(&world, &provider).await;
    println!("{BESIDE:?} beside a backlog of {messages} messages: {requests} requests");

    enqueue(&world.provider().await, start("j")).await;
    let began = Instant::now();
    let found = provider.fetch_orchestration_item(LOCK, BESIDE, None).await.unwrap();
    assert_eq!(found.unwrap().0.instance, "j", "not hidden by the backlog");
    assert!(began.elapsed() <= 3 * LONGEST_FEED_INTERVAL, "{:?}", began.elapsed());
    requests
}

/// Every look read the whole backlog: at a hundred messages a page, a hundred thousand took a thousand requests.
#[tokio::test(start_paused = true)]
async fn the_backlog_of_an_instance_that_is_locked_is_not_read_through() {
    let (small, large) =
        (requests_beside_a_backlog(200).await, requests_beside_a_backlog(2_000).await);
    assert!(large <= small + 5, "{small}, {large}");
}

/// While the container is asked for work, which may take long where it is throttled or far away, timers of this process
/// were not looked at.
#[tokio::test(start_paused = true)]
async fn a_timer_fires_in_time_while_the_container_is_being_asked() {
    const SLOW: Duration = Duration::from_secs(4);
    const DUE: Duration = Duration::from_secs(3);
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    begin(&provider, "i", Done::first("i")).await;
    let waiting = Arc::clone(&provider);
    let fetching = tokio::spawn(async move {
        waiting.fetch_orchestration_item(LOCK, BESIDE, None).await.unwrap().unwrap()
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    provider.enqueue_for_orchestrator(raised("i", "1"), Some(DUE)).await.unwrap();
    world.account.network().set_faults(NetworkFaults { latency: SLOW, ..NetworkFaults::NONE });
    tokio::time::sleep(2 * LONGEST_FEED_INTERVAL).await;
    world.account.network().set_faults(NetworkFaults::NONE);
    let (turn, _, _) = fetching.await.unwrap();
    assert_eq!(turn.messages, [raised("i", "1")]);
    let late = began.elapsed().saturating_sub(DUE);
    assert!(late <= Duration::from_millis(50), "{late:?}");
    assert!(fetch(&provider).await.is_none());
}
