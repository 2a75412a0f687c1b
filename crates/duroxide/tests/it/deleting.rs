//! An instance that is deleted in the middle of a turn, and started again: nothing waits for the lock that went with it.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin};
use tokio::time::Instant;

use crate::turns::{Done, ack, enqueue, start};
use crate::world::World;

const LOCK: Duration = Duration::from_secs(60);
const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(1_250);

/// The dispatcher that had the instance was taken to have it until the end of its lock, which was deleted.
async fn started_again(is_deleted_here: bool) {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let other = world.settled().await;
    enqueue(&provider, start("i")).await;
    let poll = Duration::from_secs(1);
    let fetched = provider.fetch_orchestration_item(LOCK, poll, None).await.unwrap();
    let (_, token, _) = fetched.unwrap();
    ack(&provider, &token, Done::first("i")).await.unwrap();
    enqueue(&provider, crate::turns::raised("i", "1")).await;
    let fetched = provider.fetch_orchestration_item(LOCK, poll, None).await.unwrap();
    let (_, token, _) = fetched.unwrap();
    let deleting = if is_deleted_here { &*provider } else { &other };
    deleting.delete_instance("i", true).await.unwrap();
    let waiting = Arc::clone(&provider);
    let fetching = tokio::spawn(async move {
        waiting.fetch_orchestration_item(LOCK, LOCK / 2, None).await.unwrap()
    });
    if !is_deleted_here {
        ack(&provider, &token, Done::default().with_event("i", 2)).await.unwrap_err();
    }
    let began = Instant::now();
    enqueue(&provider, start("i")).await;
    let (turn, _, attempts) = fetching.await.unwrap().unwrap();
    assert_eq!((turn.messages, turn.history.len(), attempts), (vec![start("i")], 0, 1));
    let waited = began.elapsed();
    assert!(waited <= LONGEST_FEED_INTERVAL, "{is_deleted_here}: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_deleted_during_a_turn_is_started_again_at_once() {
    started_again(true).await;
    started_again(false).await;
}
