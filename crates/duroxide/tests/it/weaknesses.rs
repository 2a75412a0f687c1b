//! Ways in which a provider on this service goes wrong, one test each: what must hold instead.

mod administration;
mod clocks;
mod discovery;
mod throttling;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::EventKind;
use duroxide::providers::{
    Provider, ProviderAdmin, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use sidereal::driver::system::Clock;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::scripting::{header, refusal};
use sidereal_testing::in_process::{InProcessAccount, Interruption, NetworkFaults};

use crate::turns::{
    Done, LOCK, ack, activity, begin, completed, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

/// An account that refuses as many batches as a counter says.
fn throttled() -> (World, Arc<AtomicUsize>) {
    let left = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&left);
    let world = World::scripted(move |request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let take = |left: usize| left.checked_sub(1);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(refusal(429, 3200))
    });
    (world, left)
}

/// Longer than locks are held here.
async fn expire() {
    tokio::time::sleep(2 * LOCK).await;
}

// 1
#[tokio::test(start_paused = true)]
async fn a_turn_of_more_operations_than_a_batch_is_whole_or_not_there() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(2, Interruption::StopBefore);
    tokio::select! {
        _ = ack(&provider, &token, Done::first("i").with_activities("i", 2..252)) => panic!("it stops"),
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    expire().await;
    let next = world.provider().await;
    assert!(fetch_activity(&next).await.is_none());
    assert!(next.read("i").await.unwrap().is_empty());
    let (item, token, attempts) = fetch(&next).await.unwrap();
    assert_eq!((item.messages, attempts), (vec![start("i")], 2));
    ack(&next, &token, Done::first("i").with_activities("i", 2..252)).await.unwrap();
    assert_eq!(world.count("worker_queue").await, 250);
    assert!(fetch_activity(&next).await.is_some());
}

// 2
#[tokio::test(start_paused = true)]
async fn a_message_whose_lock_is_throttled_is_not_given_out() {
    let (world, refusals) = throttled();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    refusals.store(usize::MAX, Ordering::Relaxed);
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
    assert!(fetched.unwrap_err().is_retryable());
    refusals.store(0, Ordering::Relaxed);
    let (_, token, attempts) = fetch(&provider).await.unwrap();
    assert_eq!(attempts, 1);
    ack(&provider, &token, Done::first("i")).await.unwrap();
    assert_eq!(world.count("orch_queue").await, 0);
}

// 3
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_throttled_or_lost_does_not_fail_the_orchestration() {
    let (world, refusals) = throttled();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    refusals.store(40, Ordering::Relaxed);
    ack(&provider, &token, Done::first("i")).await.unwrap();

    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(0, Interruption::LoseRequests(2));
    ack(&provider, &token, Done::default()).await.unwrap();
    world.network.disarm();
    assert_eq!(world.count("orch_queue").await, 0);

    // A duplicate is what it is, wherever in the batch it stands.
    enqueue(&provider, raised("i", "2")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    assert!(!ack(&provider, &token, Done::first("i")).await.unwrap_err().is_retryable());
}

// 4
#[tokio::test(start_paused = true)]
async fn a_late_commit_does_not_touch_the_next_holder() {
    let world = World::new();
    let (late, next) = (world.provider().await, world.provider().await);
    enqueue(&late, start("i")).await;
    let (_, old, _) = fetch(&late).await.unwrap();
    expire().await;
    let (_, new, attempts) = fetch(&next).await.unwrap();
    assert_eq!(attempts, 2);
    let done = || Done::first("i").with_activities("i", 2..3);
    assert!(!ack(&late, &old, done()).await.unwrap_err().is_retryable());
    ack(&next, &new, done()).await.unwrap();
    assert_eq!(world.count("worker_queue").await, 1);
}

// 5
#[tokio::test(start_paused = true)]
async fn what_was_committed_is_read_in_a_region_that_lags() {
    let options = AccountOptions {
        regions: vec!["West US".into(), "East US".into()],
        replication_delay: Duration::from_secs(3),
        ..AccountOptions::default()
    };
    let world = World::of(InProcessAccount::new(options, 1, NetworkFaults::NONE));
    let provider = world.provider_in("East US").await;
    begin(&provider, "i", Done::first("i")).await;
    assert_eq!(provider.read("i").await.unwrap().len(), 1);
    enqueue(&provider, raised("i", "1")).await;
    assert_eq!(fetch(&provider).await.unwrap().0.history.len(), 1);
}

// 6
#[tokio::test(start_paused = true)]
async fn an_undelivered_message_does_not_stop_the_next_turn() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    world.network.arm(1, Interruption::StopBefore);
    let first = Done { messages: vec![raised("other", "1")], ..Done::first("i") };
    tokio::select! {
        _ = ack(&provider, &token, first) => panic!("it stops"),
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    let next = world.provider().await;
    enqueue(&next, raised("i", "go")).await;
    let (_, token, _) = fetch(&next).await.unwrap();
    let second = Done { messages: vec![raised("other", "2")], ..Done::default() };
    ack(&next, &token, second).await.unwrap();
    tokio::time::sleep(Duration::from_secs(70)).await;
    assert_eq!(world.count("outbox_intent").await, 0);
    assert_eq!(world.count("orch_queue").await, 2);
}

// 7
#[tokio::test(start_paused = true)]
async fn one_dispatcher_finds_the_instances_of_every_slot_whoever_left_them() {
    let world = World::new();
    let gone = world.provider().await;
    for number in 0..40 {
        enqueue(&gone, start(&format!("i{number}"))).await;
    }
    drop(gone);
    let provider = world.provider().await;
    for number in 0..40 {
        assert_eq!(fetch(&provider).await.unwrap().0.instance, format!("i{number}"));
    }
}

// 8
#[tokio::test(start_paused = true)]
async fn a_backlog_does_not_make_a_fetch_dearer() {
    let world = World::new();
    let provider = world.settled().await;
    for number in 0..150 {
        enqueue(&provider, start(&format!("i{number}"))).await;
    }
    for number in 0..150 {
        let (fetched, requests) = world.requests(fetch(&provider)).await;
        let (item, token, _) = fetched.unwrap();
        assert_eq!(item.instance, format!("i{number}"));
        assert!(requests <= 4, "the first page, one ahead, the instance, its lock: {requests}");
        ack(&provider, &token, Done::first(&item.instance)).await.unwrap();
    }
    assert!(fetch(&provider).await.is_none());
}

// 9
#[tokio::test(start_paused = true)]
async fn a_crowd_of_locked_instances_does_not_hide_the_one_that_is_ready() {
    let world = World::new();
    let provider = world.settled().await;
    for number in 0..130 {
        enqueue(&provider, start(&format!("i{number}"))).await;
        assert!(fetch(&provider).await.is_some());
        enqueue(&provider, raised(&format!("i{number}"), "1")).await;
    }
    enqueue(&provider, start("ready")).await;
    let (fetched, requests) = world.requests(fetch(&provider)).await;
    assert_eq!(fetched.unwrap().0.instance, "ready");
    assert!(requests < 20, "{requests}");
}

// 10
#[tokio::test(start_paused = true)]
async fn a_session_is_one_worker_s_whatever_instances_it_spans() {
    let world = World::new();
    let provider = world.settled().await;
    for instance in ["one", "other"] {
        provider.enqueue_for_worker(activity(instance, 2, Some("s"))).await.unwrap();
    }
    let owner = |id: &str| SessionFetchConfig { owner_id: id.to_owned(), lock_timeout: LOCK };
    let fetch = async |id: &str| {
        let config = owner(id);
        let tags = TagFilter::Any;
        provider.fetch_work_item(LOCK, Duration::ZERO, Some(&config), &tags).await.unwrap()
    };
    assert!(fetch("a").await.is_some());
    assert!(fetch("b").await.is_none());
    assert!(fetch("a").await.is_some());
}

// 11
#[tokio::test(start_paused = true)]
async fn a_lease_begins_when_it_is_claimed() {
    let faults = NetworkFaults { latency: Duration::from_millis(450), ..NetworkFaults::NONE };
    let world = World::of(InProcessAccount::with_regions(&["West US"], 1, faults));
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (lock, began) = (Duration::from_secs(1), tokio::time::Instant::now());
    let fetched = provider.fetch_orchestration_item(lock, Duration::ZERO, None).await.unwrap();
    assert!(began.elapsed() > lock, "the search alone takes longer than the lock");
    ack(&provider, &fetched.unwrap().1, Done::first("i")).await.unwrap();
}

// 12
#[tokio::test(start_paused = true)]
async fn a_message_to_nobody_makes_no_instance() {
    let world = World::new();
    let provider = world.settled().await;
    let (instance, reason) = ("ghost".to_owned(), "none".to_owned());
    enqueue(&provider, WorkItem::CancelInstance { instance, reason }).await;
    assert!(fetch(&provider).await.is_none());
    assert!(provider.list_instances().await.unwrap().is_empty());
    assert_eq!((world.count("instance").await, world.count("orch_queue").await), (0, 1));
    // Nor does a lock that leads to no turn.
    enqueue(&provider, start("ghost")).await;
    assert!(fetch(&provider).await.is_some());
    assert!(provider.list_instances().await.unwrap().is_empty());
}

// 13
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_refused_deletes_nothing() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i'); DELETE", Done::first("i'); DELETE")).await;
    let mut child = Done::first("child");
    child.metadata.parent_instance_id = Some("i'); DELETE".to_owned());
    begin(&provider, "child", child).await;
    let ids = ["i'); DELETE".to_owned()];
    assert!(provider.delete_instances_atomic(&ids, true).await.is_err());
    assert_eq!(provider.list_instances().await.unwrap().len(), 2);
    assert!(provider.abandon_work_item("w1.aQ.aQ.1", None, false).await.is_err());
}

// 14
#[tokio::test(start_paused = true)]
async fn a_cancellation_and_a_completion_are_part_of_their_commits() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..4)).await;
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let cancelled =
        ScheduledActivityIdentifier { instance: "i".to_owned(), execution_id: 1, activity_id: 2 };
    world.network.arm(0, Interruption::StopAfter);
    tokio::select! {
        _ = ack(&provider, &token, Done { cancelled: vec![cancelled], ..Done::default() }) => panic!("it stops"),
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    assert_eq!(world.count("worker_queue").await, 1);

    let (item, token, _) = fetch_activity(&provider).await.unwrap();
    assert_eq!(item, activity("i", 3, None));
    world.network.arm(0, Interruption::StopAfter);
    tokio::select! {
        _ = provider.ack_work_item(&token, Some(completed("i", 3, String::new()))) => panic!("it stops"),
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    assert_eq!((world.count("worker_queue").await, world.count("orch_queue").await), (0, 1));
}

// 15
#[tokio::test(start_paused = true)]
async fn ids_and_keys_may_be_any_text() {
    let world = World::new();
    let provider = world.settled().await;
    for instance in ["a/b\\c?d#e\"f:g%h", "ünïcödé 時 🦀", "'; --", &"long".repeat(400)] {
        let mut done = Done::first(instance);
        let key = format!("path/like?{instance}");
        let set = EventKind::KeyValueSet {
            key: key.clone(),
            value: "v".to_owned(),
            last_updated_at_ms: 1,
        };
        done.events.push(duroxide::Event::with_event_id(2, instance, 1, None, set));
        begin(&provider, instance, done.with_activities(instance, 3..4)).await;
        assert_eq!(provider.read(instance).await.unwrap().len(), 2);
        assert_eq!(provider.get_kv_value(instance, &key).await.unwrap().as_deref(), Some("v"));
        let (_, token, _) = fetch_activity(&provider).await.unwrap();
        let end = Some(completed(instance, 3, String::new()));
        provider.ack_work_item(&token, end).await.unwrap();
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!(item.instance, instance);
        ack(&provider, &token, Done::default()).await.unwrap();
    }
}

// 16
#[tokio::test(start_paused = true)]
async fn every_batch_says_that_it_is_atomic() {
    let batches = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&batches);
    let world = World::scripted(move |request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let is_atomic = header(request, "x-ms-cosmos-batch-atomic");
        assert!(is_atomic.is_some_and(|it| it.eq_ignore_ascii_case("true")));
        seen.fetch_add(1, Ordering::Relaxed);
        None
    });
    begin(&world.provider().await, "i", Done::first("i")).await;
    assert!(batches.load(Ordering::Relaxed) >= 2);
}

// 17
#[tokio::test(start_paused = true)]
async fn a_result_larger_than_a_document_comes_back_and_leaves_nothing() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (_, token, _) = fetch_activity(&provider).await.unwrap();
    let end = completed("i", 2, "ü".repeat(1_250_000));
    provider.ack_work_item(&token, Some(end.clone())).await.unwrap();
    let (item, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(item.messages, [end]);
    let WorkItem::ActivityCompleted { result, .. } = &item.messages[0] else { panic!("{item:?}") };
    let kind = EventKind::ActivityCompleted { result: result.clone() };
    let event = duroxide::Event::with_event_id(2, "i", 1, Some(2), kind);
    ack(&provider, &token, Done { events: vec![event.clone()], ..Done::default() }).await.unwrap();
    assert_eq!(provider.read("i").await.unwrap()[1], event);
    provider.shutdown().await;
    let next = world.provider().await;
    next.delete_instances_atomic(&["i".to_owned()], true).await.unwrap();
    assert_eq!(world.count("part").await, 0);
}

// 18
#[tokio::test(start_paused = true)]
async fn what_is_enqueued_in_one_millisecond_keeps_its_order() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let sent: Vec<WorkItem> = (0..60).map(|number| raised("i", &number.to_string())).collect();
    for item in &sent {
        enqueue(&provider, item.clone()).await;
    }
    let (item, token, _) = fetch(&provider).await.unwrap();
    assert_eq!(item.messages[1..], sent);
    ack(&provider, &token, Done::first("i").with_activities("i", 2..40)).await.unwrap();
    for id in 2..40 {
        assert_eq!(fetch_activity(&provider).await.unwrap().0, activity("i", id, None));
    }
}

// 19
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_takes_a_lock_early_and_repeats_nothing() {
    let world = World::new();
    let provider = world.settled().await;
    let ahead = world.account.driver_clock().wall() + Duration::from_secs(60);
    let hasty = world.provider_on(Clock::simulated(9, ahead)).await;
    enqueue(&provider, start("i")).await;
    let (_, early, _) = fetch(&provider).await.unwrap();
    let (_, token, _) = fetch(&hasty).await.unwrap();
    let done = || Done::first("i").with_activities("i", 2..3);
    assert!(ack(&provider, &early, done()).await.is_err());
    ack(&hasty, &token, done()).await.unwrap();
    assert_eq!(hasty.read("i").await.unwrap().len(), 1);
    assert_eq!(world.count("worker_queue").await, 1);
}
