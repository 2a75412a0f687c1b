//! A fetch that is interrupted: what it has locked is free again once the lock has expired, and nothing else happened.

use std::time::Duration;

use duroxide::providers::{
    Provider, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::Interruption;

use super::{Points, every_point, points};
use crate::turns::{Done, LOCK, ack, activity, begin, completed, enqueue, fetch, raised, start};
use crate::world::World;

async fn fetch_once(provider: &CosmosDBProvider) {
    // An error means that it is to be fetched again.
    let _ = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
}

/// Interrupts a fetch of a world at each of its requests, and looks at what there is to fetch afterwards.
async fn interrupt_each(
    points: Points,
    prepare: impl AsyncFn(&World),
    check: impl AsyncFn(&World, &str),
) -> usize {
    let world = World::new();
    prepare(&world).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, fetch_once).await;
    check(&world, "nothing was interrupted").await;
    let mut tried = 0;
    for (interruption, at) in points(requests) {
        let world = World::new();
        prepare(&world).await;
        world.interrupt(at, interruption, fetch_once).await;
        check(&world, &format!("{interruption:?} at request {at} of {requests}")).await;
        tried += 1;
    }
    tried
}

/// An instance with a history, a key and messages.
#[tokio::test(start_paused = true)]
async fn a_fetch_survives_an_interruption_at_every_request() {
    let prepare = async |world: &World| {
        let provider = world.settled().await;
        let (key, value) = ("k".to_owned(), "v".to_owned());
        let set = EventKind::KeyValueSet { key, value, last_updated_at_ms: 1 };
        let mut done = Done::first("i");
        done.events.push(Event::with_event_id(2, "i", 1, None, set));
        begin(&provider, "i", done).await;
        enqueue(&provider, raised("i", "1")).await;
        enqueue(&provider, raised("i", "2")).await;
        provider.shutdown().await;
    };
    let check = async |world: &World, what: &str| {
        let provider = world.settled().await;
        let (item, token, attempts) = fetch(&provider).await.unwrap();
        assert_eq!(item.messages, [raised("i", "1"), raised("i", "2")], "{what}");
        assert_eq!((item.history.len(), item.history_error), (2, None), "{what}");
        assert!((1..=2).contains(&attempts), "{attempts} attempts, {what}");
        ack(&provider, &token, Done::default()).await.unwrap();
        assert_eq!(fetch(&provider).await.map(|fetched| fetched.0.messages), None, "{what}");
        assert_eq!(world.count("orch_queue").await, 0, "{what}");
    };
    println!("{} interruptions", interrupt_each(every_point, prepare, check).await);
}

/// A connection that closes at a bad moment: whether the lock was written is unknown, and mostly it was not. A dispatcher or
/// worker that does not wait was told that there is nothing to do.
#[tokio::test(start_paused = true)]
async fn a_fetch_finds_its_work_although_a_request_or_answer_is_lost() {
    for lose in [Interruption::LoseRequests(1), Interruption::LoseAnswers(1)] {
        for at in 1..=4 {
            let world = World::new();
            let provider = world.settled().await;
            begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
            enqueue(&provider, raised("i", "1")).await;
            world.network.arm(at, lose);
            let turn = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
            assert!(turn.unwrap().is_some(), "{lose:?} at request {at}");
            world.network.arm(at, lose);
            let filter = TagFilter::DefaultOnly;
            let item = provider.fetch_work_item(LOCK, Duration::ZERO, None, &filter).await;
            assert!(item.unwrap().is_some(), "{lose:?} at request {at}");
            world.network.disarm();
        }
    }
}

/// The start of an instance that is not there yet.
#[tokio::test(start_paused = true)]
async fn the_fetch_of_a_start_survives_an_interruption_at_every_request() {
    let prepare = async |world: &World| {
        enqueue(&world.settled().await, start("i")).await;
    };
    let check = async |world: &World, what: &str| {
        let provider = world.settled().await;
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!((item.messages, item.history), (vec![start("i")], vec![]), "{what}");
        ack(&provider, &token, Done::first("i")).await.unwrap();
        assert_eq!(world.count("instance").await, 1, "{what}");
        assert_eq!(world.count("orch_queue").await, 0, "{what}");
    };
    println!("{} interruptions", interrupt_each(every_point, prepare, check).await);
}

/// A fetch that first removes what the turn before had no room to remove.
#[tokio::test(start_paused = true)]
async fn a_fetch_that_cleans_up_survives_an_interruption_at_every_request() {
    const MESSAGES: u64 = 105;
    let prepare = async |world: &World| {
        let provider = world.settled().await;
        begin(&provider, "i", Done::first("i")).await;
        for number in 0..MESSAGES {
            enqueue(&provider, raised("i", &number.to_string())).await;
        }
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!(item.messages.len(), 99);
        // More to remove than fits into the batch that commits.
        let cancelled = (2..102).map(|activity_id| ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id,
        });
        let done = Done { cancelled: cancelled.collect(), ..Done::default() };
        ack(&provider, &token, done.with_activities("i", 102..132)).await.unwrap();
        provider.shutdown().await;
    };
    let check = async |world: &World, what: &str| {
        let provider = world.settled().await;
        let (item, token, _) = fetch(&provider).await.unwrap();
        let rest: Vec<WorkItem> =
            (99..MESSAGES).map(|number| raised("i", &number.to_string())).collect();
        assert_eq!(item.messages, rest, "{what}");
        ack(&provider, &token, Done::default()).await.unwrap();
        assert_eq!(world.count("orch_queue").await, 0, "{what}");
        assert_eq!(world.count("worker_queue").await, 30, "{what}");
    };
    println!("{} interruptions", interrupt_each(points, prepare, check).await);
}

/// Events that came before their orchestration are dropped, all of them, whenever the process stops.
#[tokio::test(start_paused = true)]
async fn dropping_events_of_nobody_survives_an_interruption_at_every_request() {
    let event = |data: &str| WorkItem::QueueMessage {
        instance: "nobody".to_owned(),
        name: "q".to_owned(),
        data: data.to_owned(),
    };
    let prepare = async |world: &World| {
        let provider = world.settled().await;
        enqueue(&provider, event("1")).await;
        enqueue(&provider, event("2")).await;
    };
    let check = async |world: &World, what: &str| {
        let provider = world.settled().await;
        assert_eq!(fetch(&provider).await.map(|fetched| fetched.0.messages), None, "{what}");
        assert_eq!(world.count("orch_queue").await, 0, "{what}");
        assert_eq!(world.count("instance").await, 0, "{what}");
    };
    println!("{} interruptions", interrupt_each(every_point, prepare, check).await);
}

async fn fetch_of_session(
    provider: &CosmosDBProvider,
    owner: &str,
) -> Option<(WorkItem, String, u32)> {
    let config = SessionFetchConfig { owner_id: owner.to_owned(), lock_timeout: LOCK };
    let tags = TagFilter::Any;
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, Some(&config), &tags).await;
    fetched.ok().flatten()
}

/// The session is claimed before its activity: one without the other idles out.
#[tokio::test(start_paused = true)]
async fn the_fetch_of_an_activity_survives_an_interruption_at_every_request() {
    let fetch_first = async |provider: &CosmosDBProvider| {
        fetch_of_session(provider, "first").await;
    };
    let prepare = async |world: &World| {
        let provider = world.settled().await;
        let mut done = Done::first("i");
        done.activities.push(activity("i", 2, Some("s")));
        begin(&provider, "i", done).await;
        provider.shutdown().await;
    };
    let world = World::new();
    prepare(&world).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, fetch_first).await;
    let mut tried = 0;
    for (interruption, at) in every_point(requests) {
        let what = format!("{interruption:?} at request {at} of {requests}");
        let world = World::new();
        prepare(&world).await;
        world.interrupt(at, interruption, fetch_first).await;
        let provider = world.settled().await;
        let (item, token, attempts) = fetch_of_session(&provider, "second").await.expect(&what);
        assert_eq!(item, activity("i", 2, Some("s")), "{what}");
        assert!((1..=2).contains(&attempts), "{attempts} attempts, {what}");
        let end = Some(completed("i", 2, String::new()));
        provider.ack_work_item(&token, end).await.unwrap();
        assert_eq!(fetch(&provider).await.unwrap().0.messages.len(), 1, "{what}");
        assert_eq!(world.count("worker_queue").await, 0, "{what}");
        tried += 1;
    }
    println!("{tried} interruptions");
}
