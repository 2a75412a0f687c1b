//! An interrupted commit of a turn that cancels more activities than one batch holds: the rest is removed after the commit, by
//! this process or with the next turn.

use std::time::Duration;

use duroxide::providers::{Provider, ScheduledActivityIdentifier, WorkItem};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::Interruption;

use super::points;
use crate::turns::{Done, LOCK, ack, begin, completed, enqueue, fetch, fetch_activity, raised};
use crate::world::World;

/// Activities of the instance: several batches of removals.
const ACTIVITIES: u64 = 350;

fn all_cancelled() -> Done {
    let identifier = |activity_id| ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id,
    };
    let cancelled = (2..2 + ACTIVITIES).map(identifier).collect();
    Done { cancelled, ..Done::default() }
}

async fn prepare(world: &World) {
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..2 + ACTIVITIES)).await;
    enqueue(&provider, raised("i", "1")).await;
    provider.shutdown().await;
}

/// The turn that cancels all activities. An error means that the runtime fetches it again.
async fn cancel(provider: &CosmosDBProvider) {
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
    if let Ok(Some((_, token, _))) = fetched {
        let _ = ack(provider, &token, all_cancelled()).await;
    }
}

/// Commits the turn if it was not, lets a worker complete an activity that is left, and commits one more turn.
async fn check(world: &World, what: &str) {
    let provider = world.settled().await;
    if let Some((item, token, _)) = fetch(&provider).await {
        assert_eq!(item.messages, [raised("i", "1")], "{what}");
        ack(&provider, &token, all_cancelled()).await.unwrap();
    }
    let left = fetch_activity(&provider).await;
    if let Some((WorkItem::ActivityExecute { id, .. }, token, _)) = &left {
        let end = Some(completed("i", *id, String::new()));
        provider.ack_work_item(token, end).await.unwrap();
    }
    enqueue(&provider, raised("i", "2")).await;
    let (item, token, _) = fetch(&provider).await.unwrap();
    assert!(item.messages.contains(&raised("i", "2")), "{what}");
    assert_eq!(item.messages.len(), 1 + usize::from(left.is_some()), "{what}");
    ack(&provider, &token, Done::default()).await.unwrap();
    assert_eq!(fetch(&provider).await.map(|fetched| fetched.0.messages), None, "{what}");
    assert!(fetch_activity(&provider).await.is_none(), "{what}");
    for kind in ["orch_queue", "worker_queue"] {
        assert_eq!(world.count(kind).await, 0, "{kind}, {what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cancels_hundreds_survives_an_interruption_at_every_request() {
    let world = World::new();
    prepare(&world).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, cancel).await;
    check(&world, "nothing was interrupted").await;
    let mut tried = 0;
    for (interruption, at) in points(requests) {
        let world = World::new();
        prepare(&world).await;
        world.interrupt(at, interruption, cancel).await;
        check(&world, &format!("{interruption:?} at request {at} of {requests}")).await;
        tried += 1;
    }
    println!("{tried} interruptions");
}
