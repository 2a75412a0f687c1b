//! How many requests each call takes, once candidates are found: what the layout of the documents is for.

use std::time::Duration;

use duroxide::providers::Provider;

use crate::turns::{
    Done, LOCK, ack, begin, completed, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

/// The query that finds candidates: one request for each partition of the container, of which there is one.
const DISCOVERY: usize = 1;

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_turn_take_as_many_requests_as_they_should() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    enqueue(&provider, raised("i", "1")).await;

    let (fetched, requests) = world.requests(fetch(&provider)).await;
    assert_eq!(requests, DISCOVERY + 2, "the instance with its messages, the lock");
    let (_, token, _) = fetched.unwrap();
    let renewal = provider.renew_orchestration_item_lock(&token, LOCK);
    let (renewed, requests) = world.requests(renewal).await;
    assert_eq!((renewed.is_ok(), requests), (true, 1));
    let done = Done::default().with_activities("i", 2..12);
    let (acked, requests) = world.requests(ack(&provider, &token, done)).await;
    assert_eq!((acked.is_ok(), requests), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_has_not_seen_a_history_reads_it_once() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    let another = world.settled().await;
    for expected in [DISCOVERY + 3, DISCOVERY + 2] {
        enqueue(&provider, raised("i", "1")).await;
        let (fetched, requests) = world.requests(fetch(&another)).await;
        assert_eq!(requests, expected);
        let (item, token, _) = fetched.unwrap();
        assert_eq!(item.history.len(), 1);
        ack(&another, &token, Done::default()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_without_a_history_is_fetched_and_given_back_without_reading_one() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (fetched, requests) = world.requests(fetch(&provider)).await;
    assert_eq!(requests, DISCOVERY + 2);
    let (_, token, _) = fetched.unwrap();
    let abandoning = provider.abandon_orchestration_item(&token, None, false);
    let (abandoned, requests) = world.requests(abandoning).await;
    assert_eq!((abandoned.is_ok(), requests), (true, 1));
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_an_activity_take_one_request_each() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (fetched, requests) = world.requests(fetch_activity(&provider)).await;
    assert_eq!(requests, DISCOVERY + 1);
    let (_, token, _) = fetched.unwrap();
    let renewal = provider.renew_work_item_lock(&token, Duration::from_secs(9));
    let (renewed, requests) = world.requests(renewal).await;
    assert_eq!((renewed.is_ok(), requests), (true, 1));
    let end = provider.ack_work_item(&token, Some(completed("i", 2, String::new())));
    let (ended, requests) = world.requests(end).await;
    assert_eq!((ended.is_ok(), requests), (true, 1));
}
