//! Messages to other instances, interrupted between the commit that remembers them and the end of their delivery: each
//! arrives once, whoever delivers it, and whether or not it was handled meanwhile.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderError, WorkItem};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::Interruption;

use super::{IN_PARTS, Points, every_point, points};
use crate::turns::{Done, LOCK, ack, begin, enqueue, fetch, raised};
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
        // Whoever looks for what others left delivers what is left, and nothing that was handled.
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
