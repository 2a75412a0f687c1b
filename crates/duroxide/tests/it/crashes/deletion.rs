//! Interrupted deletions are finished by the next deletion, by a start with the same id, or by a process that looks for work.
//! Nothing is left of them then, and the id can be used.

use std::time::Duration;

use duroxide::providers::{InstanceFilter, Provider, ProviderAdmin, WorkItem};
use serde_json::Value;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_testing::in_process::Interruption;

use super::{every_point, whole};
use crate::dispatcher::{CHILD, PARENT, raise, start, work};
use crate::turns::{self, Done, ack, enqueue, fetch};
use crate::world::World;

/// The documents of the tree, without the tombstones that a deletion keeps: those of messages that could be delivered again.
const LEFT: &str = "SELECT c.id, c.type FROM c WHERE STARTSWITH(c.instanceId, 'parent') \
     AND NOT (c.type = 'tombstone' AND STARTSWITH(c.id, 'outbox:'))";

async fn left(world: &World) -> Vec<Value> {
    world.container().query(LEFT).items().collect().await.unwrap()
}

/// As a client of the runtime does it: by the parent's id alone.
async fn delete(provider: &CosmosDBProvider) {
    // An error means that it is to be done again.
    let _ = provider.delete_instance(PARENT, true).await;
}

async fn delete_in_bulk(provider: &CosmosDBProvider) {
    let _ = provider.delete_instance_bulk(InstanceFilter::default()).await;
}

async fn ended() -> World {
    let world = World::new();
    let provider = world.provider().await;
    whole(&provider, 1).await;
    provider.shutdown().await;
    world
}

/// Interrupts a deletion at each of its requests, and goes on in a process of its own.
async fn interrupt_each(
    delete: impl AsyncFn(&CosmosDBProvider),
    go_on: impl AsyncFn(&World, &CosmosDBProvider, &str),
) {
    let requests = ended().await.interrupt(usize::MAX, Interruption::StopBefore, &delete).await;
    let points = every_point(requests);
    println!("{} interruptions", points.len());
    for (interruption, at) in points {
        let world = ended().await;
        world.interrupt(at, interruption, &delete).await;
        let provider = world.provider().await;
        let what = format!("{interruption:?} at request {at} of {requests}");
        go_on(&world, &provider, &what).await;
        provider.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_finished_by_the_next_one() {
    interrupt_each(delete, async |world, provider, what| {
        match provider.delete_instance(PARENT, true).await {
            Ok(deleted) => assert!((1..=2).contains(&deleted.instances_deleted), "{what}"),
            Err(error) => assert!(error.message.contains("not found"), "{error}, {what}"),
        }
        assert_eq!(left(world).await, [Value::Null; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_by_ids_is_finished_by_the_next_one() {
    let ids = [PARENT.to_owned(), CHILD.to_owned()];
    let delete = async |provider: &CosmosDBProvider| {
        let _ = provider.delete_instances_atomic(&ids, true).await;
    };
    interrupt_each(delete, async |world, provider, what| {
        provider.delete_instances_atomic(&ids, true).await.unwrap();
        assert_eq!(left(world).await, [Value::Null; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_in_bulk_is_finished_by_the_next_one() {
    interrupt_each(delete_in_bulk, async |world, provider, what| {
        provider.delete_instance_bulk(InstanceFilter::default()).await.unwrap();
        assert_eq!(left(world).await, [Value::Null; 0], "{what}");
    })
    .await;
}

/// The id was dead: the start was taken, and nothing ever ran.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_finished_by_a_start_of_the_same_id() {
    interrupt_each(delete, async |world, provider, what| {
        if provider.get_instance_info(PARENT).await.is_ok() {
            return; // It had not begun.
        }
        start(provider).await.unwrap();
        raise(provider).await.unwrap();
        for _ in 0..8 {
            work(provider, 1).await;
        }
        world.check(1, what).await;
    })
    .await;
}

/// No client asks for it again.
#[tokio::test(start_paused = true)]
async fn a_deletion_is_finished_by_a_process_that_looks_for_work() {
    interrupt_each(delete, async |world, provider, what| {
        let is_begun = provider.get_instance_info(PARENT).await.is_err();
        for _ in 0..10 {
            let poll = Duration::from_secs(12);
            let turn = provider.fetch_orchestration_item(poll, poll, None).await.unwrap();
            assert!(turn.is_none(), "{what}");
        }
        if is_begun {
            assert_eq!(left(world).await, [Value::Null; 0], "{what}");
        }
    })
    .await;
}

/// A process that is gone after its turn was committed, and after so many of the requests that deliver its messages; and
/// one that has not looked for what it has left.
async fn sent(messages: Vec<WorkItem>, delivered: usize) -> (World, CosmosDBProvider) {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, turns::start("source")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(1 + delivered, Interruption::StopBefore);
    let done = Done { messages, ..Done::first("source") };
    tokio::select! {
        () = async { ack(&provider, &token, done).await.unwrap(); std::future::pending().await } => {}
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    assert_eq!(world.count("outbox_intent").await, 1);
    let mut config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    config.reconciler_age_threshold = Duration::from_secs(600);
    let next = CosmosDBProvider::new(config).await.unwrap();
    (world, next)
}

/// The start of an instance that belongs to "source".
fn own_child() -> WorkItem {
    let mut item = turns::start("child");
    let WorkItem::StartOrchestration { parent_instance, parent_id, .. } = &mut item else {
        panic!("{item:?}")
    };
    (*parent_instance, *parent_id) = (Some("source".to_owned()), Some(2));
    item
}

#[tokio::test(start_paused = true)]
async fn what_a_deleted_instance_has_sent_reaches_an_instance_that_stays() {
    let (world, provider) = sent(vec![turns::start("target")], 0).await;
    assert_eq!(world.count("orch_queue").await, 0);
    provider.delete_instance("source", true).await.unwrap();
    assert_eq!(world.count("outbox_intent").await, 0);
    assert_eq!(fetch(&provider).await.unwrap().0.messages, [turns::start("target")]);
}

/// Its delivery may be under way in another process.
#[tokio::test(start_paused = true)]
async fn a_child_that_is_about_to_be_started_is_not_started_any_more() {
    for delivered in [0, 1] {
        let (world, provider) = sent(vec![own_child()], delivered).await;
        assert_eq!(world.count("orch_queue").await, delivered);
        provider.delete_instance("source", true).await.unwrap();
        assert_eq!((world.count("outbox_intent").await, world.count("instance").await), (0, 0));
        assert!(fetch(&provider).await.is_none(), "{delivered}");
        let text = "SELECT VALUE c.id FROM c WHERE c.type = 'tombstone' AND c.instanceId = 'child'";
        let tombstones: Vec<String> =
            world.container().query(text).items().collect().await.unwrap();
        assert_eq!(tombstones.len(), 1, "a late delivery finds it");
    }
}

/// A dispatcher of another process has its first turn, so no query finds it as a child.
#[tokio::test(start_paused = true)]
async fn a_child_that_is_just_started_goes_with_its_parent() {
    let (world, provider) = sent(vec![own_child()], 1).await;
    let (item, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(item.instance, "child");
    let deleted = world.provider().await.delete_instance("source", true).await.unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    let mut done = Done::first("child");
    done.metadata.parent_instance_id = Some("source".to_owned());
    assert!(ack(&provider, &token, done).await.is_err());
    assert_eq!((world.count("instance").await, world.count("orch_queue").await), (0, 0));
}
