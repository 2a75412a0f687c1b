//! Messages between instances that the service refuses: which of them are tried again, and which only after an operator asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use sidereal::prelude::*;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::scripting::{header, refusal};

use crate::turns::{Done, ack, begin, enqueue, fetch, raised, start};
use crate::world::World;

/// Longer than the back-off of a delivery.
const LATER: Duration = Duration::from_secs(40);

/// An account that refuses batches to the partition `target`, as long as it is told to.
struct Refusing {
    world: World,
    is_refusing: Arc<AtomicBool>,
    /// How many batches were refused.
    refused: Arc<AtomicUsize>,
}

impl Refusing {
    fn with(status: u16, sub_status: u32) -> Self {
        let is_refusing = Arc::new(AtomicBool::new(true));
        let refusing = Arc::clone(&is_refusing);
        let refused = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&refused);
        let world = World::scripted(move |request| {
            header(request, "x-ms-cosmos-is-batch-request")?;
            let is_target = header(request, "x-ms-documentdb-partitionkey")?.contains("target");
            // Relaxed: the test sets it between its calls.
            let is_refused = is_target && refusing.load(Ordering::Relaxed);
            is_refused.then(|| {
                count.fetch_add(1, Ordering::Relaxed);
                refusal(status, sub_status)
            })
        });
        Self { world, is_refusing, refused }
    }

    fn accept(&self) {
        self.is_refusing.store(false, Ordering::Relaxed);
    }
}

/// A turn that sends messages to other instances.
async fn send(provider: &CosmosDBProvider, messages: Vec<duroxide::providers::WorkItem>) {
    begin(provider, "source", Done { messages, ..Done::first("source") }).await;
}

async fn counted(provider: &CosmosDBProvider) -> (u64, u64) {
    let metrics = provider.outbox_metrics().await.unwrap();
    (metrics.pending, metrics.undeliverable)
}

/// One 403 made the start of a child undeliverable, and its parent waited for it for ever.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_was_refused_for_its_credential_is_tried_again() {
    for (status, sub_status) in [(403, 0), (401, 0), (403, 1014)] {
        let refusing = Refusing::with(status, sub_status);
        let provider = refusing.world.settled().await;
        send(&provider, vec![start("target")]).await;
        tokio::time::sleep(LATER).await;
        assert_eq!(counted(&provider).await, (1, 0), "{status}/{sub_status}");
        refusing.accept();
        tokio::time::sleep(LATER).await;
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!(item.instance, "target");
        ack(&provider, &token, Done::first("target")).await.unwrap();
        assert_eq!(counted(&provider).await, (0, 0));
        assert_eq!(provider.list_instances().await.unwrap(), ["source", "target"]);
    }
}

/// Every look of a process that polls finds the message, and its sender was written at each attempt.
#[tokio::test(start_paused = true)]
async fn a_delivery_that_stays_refused_is_tried_once_a_minute() {
    let refusing = Refusing::with(403, 0);
    let sender = refusing.world.settled().await;
    send(&sender, vec![start("target")]).await;
    drop(sender);
    let provider = refusing.world.settled().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    refusing.refused.store(0, Ordering::Relaxed);
    let lock = Duration::from_secs(5);
    let fetched = provider.fetch_orchestration_item(lock, Duration::from_secs(600), None).await;
    assert!(fetched.unwrap().is_none());
    let tried = refusing.refused.load(Ordering::Relaxed);
    assert!((9..=11).contains(&tried), "{tried} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn an_undeliverable_message_that_is_retried_arrives_once() {
    let refusing = Refusing::with(413, 0);
    let provider = refusing.world.settled().await;
    send(&provider, (0..150).map(|number| raised("target", &number.to_string())).collect()).await;
    assert_eq!(counted(&provider).await, (0, 150));
    let still = provider.retry_undeliverable().await.unwrap();
    assert_eq!((still.retried, still.too_old), (150, 0));
    tokio::time::sleep(LATER).await;
    assert_eq!(counted(&provider).await, (0, 150), "the cause is still there");

    refusing.accept();
    assert_eq!(provider.retry_undeliverable().await.unwrap().retried, 150);
    assert_eq!(provider.retry_undeliverable().await.unwrap().retried, 0);
    tokio::time::sleep(LATER).await;
    assert_eq!(counted(&provider).await, (0, 0));
    assert_eq!(refusing.world.count("orch_queue").await, 150);
}

/// The tombstone of an earlier delivery may have ended: a second delivery would be a second message.
#[tokio::test(start_paused = true)]
async fn a_message_older_than_a_week_stays_undeliverable() {
    let refusing = Refusing::with(413, 0);
    let (world, provider) = (&refusing.world, refusing.world.settled().await);
    send(&provider, vec![raised("target", "old"), raised("target", "young")]).await;
    let intents = provider.outbox_metrics().await.unwrap().examples;
    let patch = Patch::new().increment("/createdAt", -(7 * 24 * 3600 + 60) * 1_000);
    world.container().patch_item("source", &intents[0].id, patch, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;

    refusing.accept();
    let retried = provider.retry_undeliverable().await.unwrap();
    assert_eq!((retried.retried, retried.too_old), (1, 1));
    tokio::time::sleep(LATER).await;
    let left = provider.outbox_metrics().await.unwrap();
    assert_eq!((left.pending, left.undeliverable, left.examples[0].is_too_old), (0, 1, true));
    enqueue(&provider, start("target")).await;
    let (item, ..) = fetch(&provider).await.unwrap();
    assert_eq!(item.messages, [raised("target", "young"), start("target")]);
}
