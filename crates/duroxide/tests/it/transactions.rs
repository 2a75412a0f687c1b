//! Guarantees of a relational transaction that this service does not give, row by row: what the provider does about
//! it.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, ScheduledActivityIdentifier};
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::{InProcessAccount, Interruption, NetworkFaults};

use crate::turns::{Done, ack, activity, begin, enqueue, fetch, fetch_activity, raised, start};
use crate::world::World;

/// A container of several partitions.
fn partitioned() -> World {
    let options = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
    World::of(InProcessAccount::new(options, 1, NetworkFaults::NONE))
}

/// Deleting what is not there: a batch would fail by it.
#[tokio::test(start_paused = true)]
async fn cancelling_an_activity_that_is_not_there_does_not_fail_the_turn() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (_, done, _) = fetch_activity(&provider).await.unwrap();
    provider.ack_work_item(&done, None).await.unwrap();
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let cancelled = [2, 99].map(|activity_id| ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id,
    });
    let turn = Done { cancelled: cancelled.to_vec(), ..Done::default() };
    ack(&provider, &token, turn.with_activities("i", 3..4)).await.unwrap();
    assert_eq!(fetch_activity(&provider).await.unwrap().0, activity("i", 3, None));
    assert_eq!(world.count("orch_queue").await, 0);
}

/// Inserting what is there already: the whole turn fails, and leaves nothing.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_there_already_fails_its_whole_turn() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let twice = Done::first("i").with_activities("i", 2..4);
    assert!(!ack(&provider, &token, twice).await.unwrap_err().is_retryable());
    assert_eq!(world.count("worker_queue").await, 0);
    assert_eq!(world.count("orch_queue").await, 1);
    assert_eq!(provider.read("i").await.unwrap().len(), 1);
}

/// Inserting unless it is there: a message whose delivery may have happened is delivered again, and is there once.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_delivered_twice_is_there_once() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(1, Interruption::LoseAnswers(1));
    let messages = vec![raised("other", "1")];
    ack(&provider, &token, Done { messages, ..Done::first("i") }).await.unwrap();
    world.network.disarm();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(world.count("orch_queue").await, 1);
    assert_eq!(world.count("outbox_intent").await, 0);
}

/// Updating what does not match: the loser of the race is given something else, or nothing.
#[tokio::test(start_paused = true)]
async fn of_two_dispatchers_one_is_given_the_instance() {
    let world = World::new();
    let (one, other) = (world.settled().await, world.settled().await);
    enqueue(&one, start("i")).await;
    let (first, second) = tokio::join!(fetch(&one), fetch(&other));
    assert_eq!(usize::from(first.is_some()) + usize::from(second.is_some()), 1);
    assert_eq!(first.or(second).unwrap().2, 1, "the first attempt");
}

/// The scope of a transaction: one partition, a hundred operations. A turn is more, and whole all the same.
#[tokio::test(start_paused = true)]
async fn a_turn_of_several_batches_and_partitions_is_whole() {
    let world = partitioned();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let messages = (0..5).map(|number| start(&format!("child{number}"))).collect();
    let turn = Done { messages, ..Done::first("i") }.with_activities("i", 2..152);
    ack(&provider, &token, turn).await.unwrap();
    assert_eq!((world.count("worker_queue").await, world.count("orch_queue").await), (150, 5));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.count("outbox_intent").await, 0);
}

/// An order over all partitions.
#[tokio::test(start_paused = true)]
async fn instances_of_all_partitions_are_fetched_in_the_order_of_their_messages() {
    let world = partitioned();
    let provider = world.settled().await;
    for number in 0..20 {
        enqueue(&provider, start(&format!("i{number}"))).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 0..20 {
        assert_eq!(fetch(&provider).await.unwrap().0.instance, format!("i{number}"));
    }
}

/// A count over all partitions.
#[tokio::test(start_paused = true)]
async fn what_is_in_all_partitions_is_counted() {
    let world = partitioned();
    let provider = world.settled().await;
    for number in 0..20 {
        let instance = format!("i{number}");
        let mut done = Done::first(&instance).with_activities(&instance, 2..4);
        done.metadata.status = (number < 5).then(|| "Completed".to_owned());
        begin(&provider, &instance, done).await;
    }
    for number in 0..20 {
        enqueue(&provider, raised(&format!("i{number}"), "1")).await;
    }
    let metrics = provider.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.completed_instances), (20, 5));
    assert_eq!((metrics.running_instances, metrics.total_events), (15, 20));
    let depths = provider.get_queue_depths().await.unwrap();
    assert_eq!((depths.worker_queue, depths.orchestrator_queue), (40, 20));
}
