//! The tombstones of removed documents, and how long they live.

use std::time::Duration;

use duroxide::providers::{Provider, ScheduledActivityIdentifier};
use serde_json::Value;
use sidereal_testing::in_process::scripting::{header, refusal};

use crate::turns::{Done, ack, activity, begin, enqueue, fetch, fetch_activity, raised, start};
use crate::world::World;

const HOUR: u64 = 3600;

/// The times to live of an instance's tombstones, by what their ids begin with.
async fn tombstones(world: &World, instance: &str, begins: &str) -> Vec<u64> {
    let container = world.container();
    let query = container.query("SELECT c.id, c.ttl FROM c WHERE c.type = 'tombstone'");
    let rows: Vec<Value> = query.with_partition_key(instance).items().collect().await.unwrap();
    let those = rows.iter().filter(|row| row["id"].as_str().unwrap().starts_with(begins));
    those.map(|row| row["ttl"].as_u64().unwrap()).collect()
}

/// Each event left a document for eight days: an instance with 80 events a second filled its partition.
#[tokio::test(start_paused = true)]
async fn tombstones_live_as_long_as_their_creation_may_be_repeated() {
    let world = World::new();
    let provider = world.settled().await;
    let messages = vec![start("target"), raised("target", "1")];
    let first = Done { messages, ..Done::first("source") }.with_activities("source", 2..4);
    begin(&provider, "source", first).await;
    provider.enqueue_for_worker(activity("source", 9, None)).await.unwrap();
    for _ in 0..3 {
        let (_, token, _) = fetch_activity(&provider).await.unwrap();
        provider.ack_work_item(&token, None).await.unwrap();
    }
    enqueue(&provider, raised("source", "2")).await;
    let mut fetched = [fetch(&provider).await.unwrap(), fetch(&provider).await.unwrap()];
    fetched.sort_by_key(|(item, ..)| item.instance.clone());
    let cancelled = ScheduledActivityIdentifier {
        instance: "source".to_owned(),
        execution_id: 1,
        activity_id: 2,
    };
    let cancel = Done { cancelled: vec![cancelled], ..Done::default() };
    ack(&provider, &fetched[0].1, cancel).await.unwrap();
    ack(&provider, &fetched[1].1, Done::first("target")).await.unwrap();

    assert_eq!(tombstones(&world, "target", "outbox:").await, [8 * 24 * HOUR; 2]);
    assert_eq!(tombstones(&world, "source", "direct:").await, [HOUR; 2], "a start and an event");
    assert_eq!(tombstones(&world, "source", "source:worker:").await, [HOUR; 2]);
    tokio::time::sleep(Duration::from_secs(HOUR + 60)).await;
    assert_eq!(world.count("tombstone").await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_partition_is_told_with_what_to_do() {
    let world = World::scripted(|request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let is_full = header(request, "x-ms-documentdb-partitionkey")?.contains("full");
        is_full.then(|| refusal(403, 1014))
    });
    let provider = world.settled().await;
    let refused = provider.enqueue_for_orchestrator(raised("full", "1"), None).await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("403") && told.contains("20 GB") && told.contains("prune"), "{told}");

    let messages = vec![raised("full", "1")];
    begin(&provider, "source", Done { messages, ..Done::first("source") }).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let container = world.container();
    let query = container.query("SELECT VALUE c.lastError FROM c WHERE c.type = 'outbox_intent'");
    let noted: Option<String> = query.first().await.unwrap();
    assert!(noted.unwrap().contains("prune"), "beside the message that waits");
}
