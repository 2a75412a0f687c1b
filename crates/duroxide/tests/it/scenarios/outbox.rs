//! Messages to other instances whose delivery fails for longer than it is waited for: they arrive later, and once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use serde_json::Value;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::scripting::{header, refusal};

use crate::dispatcher;
use crate::turns::{Done, ack, begin, enqueue, fetch, raised, start};
use crate::world::World;

/// Longer than a delivery is tried on.
const OUTAGE: Duration = Duration::from_secs(90);

/// Longer than it takes until an undelivered message is tried again.
const LATER: Duration = Duration::from_secs(40);

/// An account that throttles the delivery of messages of a kind.
struct Throttled {
    world: World,
    is_refusing: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl Throttled {
    fn new(kind: &'static str) -> Self {
        let is_refusing = Arc::new(AtomicBool::new(true));
        let refused = Arc::new(AtomicUsize::new(0));
        let (refusing, count) = (Arc::clone(&is_refusing), Arc::clone(&refused));
        let world = World::scripted(move |request| {
            header(request, "x-ms-cosmos-is-batch-request")?;
            let operations: Vec<Value> = serde_json::from_slice(request.body()).ok()?;
            let [create] = operations.as_slice() else { return None };
            let message = &create["resourceBody"];
            let is_delivery = message["id"].as_str()?.starts_with("outbox:")
                && message["workItem"].as_str()?.contains(kind);
            // Relaxed: the test looks at both between its turns.
            if !is_delivery || !refusing.load(Ordering::Relaxed) {
                return None;
            }
            count.fetch_add(1, Ordering::Relaxed);
            Some(refusal(429, 3200))
        });
        Self { world, is_refusing, refused }
    }

    /// Runs something while deliveries fail, and until they do no more.
    async fn during(&self, run: impl Future<Output = ()>) {
        let end = async {
            tokio::time::sleep(OUTAGE).await;
            assert_eq!(self.world.count("outbox_intent").await, 1, "it is remembered");
            self.is_refusing.store(false, Ordering::Relaxed);
        };
        tokio::join!(run, end);
        assert!(self.refused.load(Ordering::Relaxed) > 0, "nothing was to be delivered");
    }
}

/// A parent, its child and two activities, while messages of a kind between them cannot be delivered.
async fn parent_and_child_without(kind: &'static str) {
    let throttled = Throttled::new(kind);
    let provider = throttled.world.settled().await;
    dispatcher::start(&provider).await.unwrap();
    dispatcher::raise(&provider).await.unwrap();
    throttled.during(dispatcher::work(&provider, 2)).await;
    tokio::time::sleep(LATER).await;
    dispatcher::work(&provider, 2).await;
    throttled.world.check(2, kind).await;
}

#[tokio::test(start_paused = true)]
async fn the_start_of_a_child_that_cannot_be_delivered_arrives_later_and_once() {
    parent_and_child_without("StartOrchestration").await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_child_that_cannot_be_delivered_arrives_later_and_once() {
    parent_and_child_without("SubOrchCompleted").await;
}

async fn send(provider: &CosmosDBProvider) {
    enqueue(provider, raised("sender", "go")).await;
    let (_, token, _) = fetch(provider).await.unwrap();
    let messages = vec![start("detached")];
    ack(provider, &token, Done { messages, ..Done::default() }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_detached_start_that_cannot_be_delivered_arrives_later_and_once() {
    let throttled = Throttled::new("StartOrchestration");
    let (world, provider) = (&throttled.world, throttled.world.settled().await);
    begin(&provider, "sender", Done::first("sender")).await;
    throttled.during(send(&provider)).await;
    tokio::time::sleep(LATER).await;
    let (item, token, attempts) = fetch(&provider).await.unwrap();
    assert_eq!((item.instance.as_str(), attempts), ("detached", 1));
    ack(&provider, &token, Done::first("detached")).await.unwrap();
    tokio::time::sleep(LATER).await;
    assert!(fetch(&provider).await.is_none());
    assert_eq!(world.count("outbox_intent").await, 0);
    assert_eq!(provider.read("detached").await.unwrap().len(), 1);
    assert_eq!(provider.list_instances().await.unwrap(), ["sender", "detached"]);
}

/// The sender is gone before its message is delivered; another process finds what it left.
#[tokio::test(start_paused = true)]
async fn a_detached_start_of_a_process_that_is_gone_arrives_by_another() {
    let throttled = Throttled::new("StartOrchestration");
    let (world, provider) = (&throttled.world, throttled.world.settled().await);
    begin(&provider, "sender", Done::first("sender")).await;
    throttled.during(send(&provider)).await;
    drop(provider);
    let next = world.provider().await;
    tokio::time::sleep(LATER).await;
    assert_eq!(fetch(&next).await.unwrap().0.instance, "detached");
    assert_eq!(world.count("outbox_intent").await, 0);
    assert_eq!(world.count("orch_queue").await, 1);
}
