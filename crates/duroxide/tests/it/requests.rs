//! How many requests each call takes, once candidates are found: what the layout of the documents is for.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::{Client, Event, EventKind, OrchestrationStatus};

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
async fn an_instance_without_a_history_is_fetched_without_reading_one() {
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

/// A turn that sets the custom status.
fn with_status(id: u64, status: &str) -> Done {
    let kind = EventKind::CustomStatusUpdated { status: Some(status.to_owned()) };
    Done { events: vec![Event::with_event_id(id, "i", 1, None, kind)], ..Done::default() }
}

#[tokio::test(start_paused = true)]
async fn the_status_of_an_orchestration_takes_one_request_and_is_of_one_moment() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let status = || async {
        let client = client.clone();
        let asked = tokio::spawn(async move { client.get_orchestration_status("i").await });
        let (status, requests) = world.requests(asked).await;
        let custom = match status.unwrap().unwrap() {
            OrchestrationStatus::NotFound => None,
            OrchestrationStatus::Running { custom_status, .. } => Some(custom_status),
            other => panic!("{other:?}"),
        };
        (custom, requests)
    };
    assert_eq!(status().await, (None, 1), "it was not started");
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(status().await, (None, 1), "its first turn runs");
    ack(&provider, &token, Done::first("i")).await.unwrap();
    assert_eq!(status().await, (Some(None), 1));
    for (number, committer) in [&*provider, &world.settled().await].into_iter().enumerate() {
        enqueue(committer, raised("i", "x")).await;
        let (_, token, _) = fetch(committer).await.unwrap();
        let text = format!("status {number}");
        ack(committer, &token, with_status(number as u64 + 2, &text)).await.unwrap();
        // The history that another process has committed has to be read.
        assert_eq!(status().await, (Some(Some(text)), 1 + number));
    }
}
