//! Counts and sizes for operators: exact, and without reading histories.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, TagFilter};
use duroxide::{Event, EventKind, SystemStats};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::Interruption;
use sidereal_testing::in_process::scripting::refusal;

use crate::turns::{Done, LOCK, ack, begin, enqueue, fetch, fetch_activity, raised, start};
use crate::world::World;

/// An account that refuses to be asked for whole histories.
fn without_histories() -> World {
    World::scripted(|request| {
        let body = String::from_utf8_lossy(request.body());
        let is_history = body.contains("SELECT * FROM c WHERE c.type = 'history'");
        is_history.then(|| refusal(403, 0))
    })
}

/// An event with a text.
fn external(id: u64, data: &str) -> Event {
    let (name, data) = ("go".to_owned(), data.to_owned());
    Event::with_event_id(id, "i", 1, None, EventKind::ExternalEvent { name, data })
}

/// A first turn that was started with two messages.
fn first() -> Done {
    let mut done = Done::first("i");
    let EventKind::OrchestrationStarted { carry_forward_events, .. } = &mut done.events[0].kind
    else {
        panic!("{:?}", done.events)
    };
    let carried = |name: &str| (name.to_owned(), "{\"quoted\": \"ü\"}".to_owned());
    *carry_forward_events = Some(vec![carried("a"), carried("b")]);
    done
}

fn size_of(events: &[Event]) -> u64 {
    events.iter().map(|event| serde_json::to_string(event).unwrap().len() as u64).sum()
}

async fn stats(provider: &CosmosDBProvider) -> SystemStats {
    provider.get_instance_stats("i").await.unwrap().unwrap()
}

/// It read the whole history to count it.
#[tokio::test(start_paused = true)]
async fn a_history_is_measured_without_being_read() {
    let world = without_histories();
    let provider = world.settled().await;
    let texts = [
        "plain",
        "\"quoted\" \\ and\nbroken",
        "ünïcödé 時 🦀",
        &"\"ü\", a large text; ".repeat(80_000),
    ];
    let mut done = first();
    done.events.extend((2..).zip(texts).map(|(id, text)| external(id, text)));
    // Enough for a turn of several batches, also without the large text.
    done.events.extend((6..300).map(|id| external(id, "")));
    let (count, bytes) = (done.events.len() as u64, size_of(&done.events));
    begin(&provider, "i", done).await;
    // The one has the history, and the other asks for sums.
    for provider in [provider, world.settled().await] {
        let (stats, requests) = world.requests(stats(&provider)).await;
        assert_eq!((stats.history_event_count, stats.history_size_bytes), (count, bytes));
        assert_eq!(stats.queue_pending_count, 2);
        assert!(requests <= 4, "the instance, the sums, the first event, the keys: {requests}");
        let info = provider.get_execution_info("i", 1).await.unwrap();
        assert_eq!(info.event_count as u64, count);
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_committed_is_not_counted() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", first()).await;
    enqueue(&provider, raised("i", "1")).await;
    drop(provider);
    let turn = async |provider: &CosmosDBProvider| {
        let (item, token, _) = fetch(provider).await.unwrap();
        assert_eq!(item.instance, "i");
        let events = (2..200).map(|id| external(id, "")).collect();
        let done = Done { events, messages: vec![raised("i", "2")], ..Done::default() };
        ack(provider, &token, done.with_activities("i", 2..202)).await.unwrap();
    };
    // Until it stops between its first batch and its last.
    for at in 0.. {
        world.interrupt(at, Interruption::StopBefore, turn).await;
        if world.count("history").await > 1 {
            break;
        }
    }
    let counted = async || {
        let provider = world.provider().await;
        let (stats, depths) = (stats(&provider).await, provider.get_queue_depths().await.unwrap());
        let metrics = provider.get_system_metrics().await.unwrap();
        assert_eq!(metrics.total_events, stats.history_event_count);
        (stats.history_event_count, depths.orchestrator_queue, depths.worker_queue)
    };
    assert_eq!(counted().await, (1, 1, 0), "the message that the turn is about");
    turn(&world.provider().await).await;
    assert_eq!(counted().await, (199, 1, 200), "the message that the turn has sent");
}

/// Timers of next year, and what dispatchers were working on, were counted or not for other reasons.
#[tokio::test(start_paused = true)]
async fn queue_depths_count_what_is_due() {
    let world = World::new();
    let provider = world.settled().await;
    let depths = async || {
        let depths = provider.get_queue_depths().await.unwrap();
        (depths.orchestrator_queue, depths.worker_queue)
    };
    begin(&provider, "i", Done::first("i").with_activities("i", 2..5)).await;
    enqueue(&provider, start("other")).await;
    let delay = Some(Duration::from_secs(600));
    provider.enqueue_for_orchestrator(raised("i", "later"), delay).await.unwrap();
    assert_eq!(depths().await, (1, 3));
    let (_, turn, _) = fetch(&provider).await.unwrap();
    let (_, activity, _) = fetch_activity(&provider).await.unwrap();
    assert_eq!(depths().await, (0, 2), "one of each is locked");
    tokio::time::sleep(2 * LOCK).await;
    assert_eq!(depths().await, (1, 3), "their locks have expired");
    assert!(provider.ack_work_item(&activity, None).await.is_err());
    assert!(ack(&provider, &turn, Done::first("other")).await.is_err());
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(depths().await, (2, 3), "the delayed one is visible");
    let tags = TagFilter::Any;
    provider.fetch_work_item(LOCK, Duration::ZERO, None, &tags).await.unwrap().unwrap();
    assert_eq!(depths().await, (2, 2));
}
