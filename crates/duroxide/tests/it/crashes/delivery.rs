//! Messages to other instances, interrupted between the commit that remembers them and the end of their delivery: each
//! arrives once, whichever process delivers it, and whether or not it was handled meanwhile.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, ProviderError, WorkItem};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_testing::in_process::Interruption;

use super::{IN_PARTS, Points, every_point, points};
use crate::turns::{Done, LOCK, ack, begin, enqueue, fetch, raised, start};
use crate::world::World;

/// The message to an instance; one of them is stored in parts.
fn message(target: &str) -> WorkItem {
    let data = if target == "large" { "x".repeat(IN_PARTS) } else { target.to_owned() };
    raised(target, &data)
}

/// Takes the turn of the source, if it is not taken already.
async fn send_to(
    targets: &[&str],
    provider: &CosmosDBProvider,
    token: &str,
) -> Result<(), ProviderError> {
    let messages = targets.iter().map(|target| message(target)).collect();
    ack(provider, token, Done { messages, ..Done::default() }).await
}

async fn prepare(world: &World, targets: &[&str]) {
    let provider = world.settled().await;
    for instance in targets.iter().copied().chain(["source"]) {
        begin(&provider, instance, Done::first(instance)).await;
    }
    enqueue(&provider, raised("source", "go")).await;
    provider.shutdown().await;
}

/// Takes every turn that there is, and notes who was sent to.
async fn take_all(provider: &CosmosDBProvider, targets: &[&str], received: &mut Vec<String>) {
    while let Some((item, token, _)) = fetch(provider).await {
        if item.instance == "source" {
            send_to(targets, provider, &token).await.unwrap();
            continue;
        }
        let is_right = item.messages == [message(&item.instance)];
        assert!(is_right, "{} is sent its message and no other", item.instance);
        received.push(item.instance.clone());
        ack(provider, &token, Done::default()).await.unwrap();
    }
}

async fn interrupt_each(targets: &[&str], points: Points) -> usize {
    let send = async |provider: &CosmosDBProvider| {
        let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        if let Ok(Some((_, token, _))) = fetched {
            // An error means that it is to be sent again.
            let _ = send_to(targets, provider, &token).await;
        }
    };
    let world = World::new();
    prepare(&world, targets).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, send).await;
    let mut tried = 0;
    for (interruption, at) in points(requests) {
        let what = format!("{interruption:?} at request {at} of {requests}");
        let world = World::new();
        prepare(&world, targets).await;
        world.interrupt(at, interruption, send).await;
        let (provider, mut received) = (world.provider().await, Vec::new());
        take_all(&provider, targets, &mut received).await;
        // A process that looks for what others left delivers the rest, and nothing that was handled.
        tokio::time::sleep(Duration::from_secs(35)).await;
        take_all(&provider, targets, &mut received).await;
        received.sort();
        assert_eq!(received, targets, "{what}");
        for kind in ["outbox_intent", "orch_queue", "part"] {
            assert_eq!(world.count(kind).await, 0, "{kind}, {what}");
        }
        tried += 1;
    }
    tried
}

#[tokio::test(start_paused = true)]
async fn a_delivery_survives_an_interruption_at_every_request() {
    println!("{} interruptions", interrupt_each(&["one", "other"], every_point).await);
}

#[tokio::test(start_paused = true)]
async fn a_large_delivery_survives_an_interruption_at_every_request() {
    println!("{} interruptions", interrupt_each(&["large"], points).await);
}

/// Its sender is gone before it could note that the message was delivered, and its target was deleted meanwhile.
#[tokio::test(start_paused = true)]
async fn a_start_that_was_delivered_does_not_bring_a_deleted_instance_back() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("source")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(2, Interruption::StopBefore);
    let done = Done { messages: vec![start("target")], ..Done::first("source") };
    tokio::select! {
        () = async { ack(&provider, &token, done).await.unwrap(); std::future::pending().await } => {}
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    assert_eq!(world.count("outbox_intent").await, 1, "it was delivered, and is not forgotten");

    let mut config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    // Nobody looks for what others left before the target is deleted.
    config.reconciler_age_threshold = Duration::from_secs(60);
    let next = CosmosDBProvider::new(config).await.unwrap();
    let (item, token, _) = fetch(&next).await.unwrap();
    assert_eq!(item.instance, "target");
    ack(&next, &token, Done::first("target")).await.unwrap();
    next.delete_instances_atomic(&["target".to_owned()], true).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.count("outbox_intent").await, 0, "it was delivered once more");
    assert!(fetch(&next).await.is_none(), "and nothing came of it");
}
