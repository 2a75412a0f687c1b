//! A pruning that is interrupted: what is left of an execution goes with the next one, and the executions that stay are
//! whole.

use duroxide::providers::{ExecutionMetadata, Provider, ProviderAdmin, PruneOptions};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::Interruption;

use super::{IN_PARTS, Points, every_point, points};
use crate::turns::{Done, continue_as_new, enqueue, fetch, raised, start};
use crate::world::World;

const EXECUTIONS: u64 = 3;

/// The events of an execution, one of which is of a size.
fn events(execution: u64, bytes: usize) -> Vec<Event> {
    let event = |(id, data): (u64, String)| {
        let kind = EventKind::ExternalEvent { name: "e".to_owned(), data };
        Event::with_event_id(id, "i", execution, None, kind)
    };
    [(1, "small".to_owned()), (2, "x".repeat(bytes)), (3, "small".to_owned())].map(event).to_vec()
}

/// An instance whose last execution goes on; the first one has an event of a size.
async fn prepare(world: &World, bytes: usize) {
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    for execution in 1..=EXECUTIONS {
        let is_last = execution == EXECUTIONS;
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!(item.messages.len(), 1);
        let metadata = ExecutionMetadata {
            status: (!is_last).then(|| "ContinuedAsNew".to_owned()),
            ..Done::first("i").metadata
        };
        let next = if is_last { vec![] } else { vec![continue_as_new("i")] };
        let events = events(execution, if execution == 1 { bytes } else { 1 });
        provider
            .ack_orchestration_item(&token, execution, events, vec![], next, metadata, vec![])
            .await
            .unwrap();
    }
    provider.shutdown().await;
}

fn all_but_the_last() -> PruneOptions {
    PruneOptions { keep_last: Some(1), ..PruneOptions::default() }
}

async fn prune(provider: &CosmosDBProvider) {
    // An error means that it is to be done again.
    let _ = provider.prune_executions("i", all_but_the_last()).await;
}

async fn check(world: &World, what: &str) {
    let provider = world.settled().await;
    assert_eq!(provider.list_executions("i").await.unwrap(), [EXECUTIONS], "{what}");
    let (there, wanted) = (provider.read("i").await.unwrap(), events(EXECUTIONS, 1));
    assert!(there.iter().map(|it| &it.kind).eq(wanted.iter().map(|it| &it.kind)), "{what}");
    for execution in 1..EXECUTIONS {
        let left = provider.read_history_with_execution_id("i", execution).await.unwrap();
        assert!(left.is_empty(), "{what}");
    }
    assert_eq!(world.count("history").await, 3, "of the last execution, {what}");
    assert_eq!(world.count("part").await, 0, "{what}");
    enqueue(&provider, raised("i", "1")).await;
    let (item, _, _) = fetch(&provider).await.unwrap();
    assert_eq!((item.execution_id, item.history.len()), (EXECUTIONS, 3), "{what}");
}

async fn interrupt_each(bytes: usize, points: Points) -> usize {
    let world = World::new();
    prepare(&world, bytes).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, prune).await;
    check(&world, "nothing was interrupted").await;
    let mut tried = 0;
    for (interruption, at) in points(requests) {
        let world = World::new();
        prepare(&world, bytes).await;
        world.interrupt(at, interruption, prune).await;
        let again = world.settled().await.prune_executions("i", all_but_the_last()).await;
        again.unwrap();
        check(&world, &format!("{interruption:?} at request {at} of {requests}")).await;
        tried += 1;
    }
    tried
}

#[tokio::test(start_paused = true)]
async fn a_pruning_survives_an_interruption_at_every_request() {
    println!("{} interruptions", interrupt_each(1, every_point).await);
}

#[tokio::test(start_paused = true)]
async fn a_pruning_of_large_events_survives_an_interruption_at_every_request() {
    println!("{} interruptions", interrupt_each(IN_PARTS, points).await);
}

/// A process is paused between reading the executions and removing them. Meanwhile the instance is deleted and comes again:
/// executions and events have the same ids in each life.
#[tokio::test(start_paused = true)]
async fn a_paused_pruning_removes_nothing_of_the_next_life() {
    let world = World::new();
    prepare(&world, 1).await;
    let (paused, other) = (world.settled().await, world.settled().await);
    let condition = FaultCondition { operation: Some(Operation::Query), ..Default::default() };
    let wait = std::time::Duration::from_secs(4);
    let effect = FaultEffect::DelayAfter { wait };
    let rule = FaultRule { condition, hit_limit: Some(1), ..FaultRule::new(effect) };
    world.account.account().add_fault(rule).unwrap();
    let pruning = tokio::spawn(async move { prune(&paused).await });
    tokio::time::sleep(wait / 4).await;
    other.delete_instance("i", true).await.unwrap();
    prepare(&world, 1).await;
    pruning.await.unwrap();
    for execution in 1..=EXECUTIONS {
        let events = other.read_history_with_execution_id("i", execution).await.unwrap();
        assert_eq!(events.len(), 3, "execution {execution} of the next life");
    }
    prune(&other).await;
    check(&world, "the next life is pruned as any other").await;
}
