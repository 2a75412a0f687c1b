//! 2: a write that is throttled is neither forgotten nor taken for done, whatever it belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::scripting::{header, refusal};

use super::throttled;
use crate::turns::{
    Done, LOCK, ack, activity, begin, completed, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

/// As many refusals as outlast the driver's patience several times, but not the provider's.
const MANY: usize = 20;

async fn with_activity() -> (World, Arc<AtomicUsize>, CosmosDBProvider) {
    let (world, refusals) = throttled();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    (world, refusals, provider)
}

#[tokio::test(start_paused = true)]
async fn an_activity_whose_lock_is_throttled_is_not_given_out() {
    let (world, refusals, provider) = with_activity().await;
    refusals.store(usize::MAX, Ordering::Relaxed);
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any).await;
    assert!(fetched.unwrap_err().is_retryable());
    refusals.store(0, Ordering::Relaxed);
    let (_, _, attempts) = fetch_activity(&provider).await.unwrap();
    assert_eq!((attempts, world.count("worker_queue").await), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_activity_that_is_throttled_happens_once() {
    let (world, refusals, provider) = with_activity().await;
    let lock = Duration::from_secs(120);
    let fetched = provider.fetch_work_item(lock, Duration::ZERO, None, &TagFilter::Any).await;
    let (_, token, _) = fetched.unwrap().unwrap();
    refusals.store(MANY, Ordering::Relaxed);
    provider.ack_work_item(&token, Some(completed("i", 2, String::new()))).await.unwrap();
    assert_eq!((world.count("worker_queue").await, world.count("orch_queue").await), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_given_back_while_throttled_is_free_at_once() {
    let (world, refusals) = throttled();
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let lock = Duration::from_secs(300);
    let fetched = provider.fetch_orchestration_item(lock, Duration::ZERO, None).await;
    let (_, token, _) = fetched.unwrap().unwrap();
    refusals.store(MANY, Ordering::Relaxed);
    provider.abandon_orchestration_item(&token, None, true).await.unwrap();
    let (_, _, attempts) = fetch(&provider).await.unwrap();
    assert_eq!(attempts, 1, "the attempt that was given back does not count");
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_is_given_back_while_throttled_is_free_at_once() {
    let (_world, refusals, provider) = with_activity().await;
    let lock = Duration::from_secs(300);
    let fetched = provider.fetch_work_item(lock, Duration::ZERO, None, &TagFilter::Any).await;
    let (_, token, _) = fetched.unwrap().unwrap();
    refusals.store(MANY, Ordering::Relaxed);
    provider.abandon_work_item(&token, None, false).await.unwrap();
    let (_, _, attempts) = fetch_activity(&provider).await.unwrap();
    assert_eq!(attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_throttled_is_enqueued_once() {
    let (world, refusals) = throttled();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    refusals.store(MANY, Ordering::Relaxed);
    enqueue(&provider, raised("i", "1")).await;
    assert_eq!(world.count("orch_queue").await, 1);
    refusals.store(MANY, Ordering::Relaxed);
    provider.enqueue_for_worker(activity("i", 2, None)).await.unwrap();
    assert_eq!(world.count("worker_queue").await, 1);
}

/// It gave up after some seconds, and what it had marked could not be deleted any more.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_throttled_is_waited_for() {
    let (world, refusals, provider) = with_activity().await;
    refusals.store(MANY, Ordering::Relaxed);
    let deleted = provider.delete_instance("i", true).await.unwrap();
    assert_eq!((deleted.instances_deleted, deleted.events_deleted), (1, 1));
    assert_eq!(refusals.load(Ordering::Relaxed), 0);
    assert_eq!((world.count("instance").await, world.count("worker_queue").await), (0, 0));
}

/// That a session was used is noted beside the work; the work does not fail by it.
#[tokio::test(start_paused = true)]
async fn a_session_whose_use_cannot_be_noted_keeps_its_owner_and_its_work() {
    let is_refusing = Arc::new(AtomicBool::new(false));
    let refusing = Arc::clone(&is_refusing);
    let world = World::scripted(move |request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let body = String::from_utf8_lossy(request.body());
        let is_session = body.contains("\"type\":\"session\"");
        (is_session && refusing.load(Ordering::Relaxed)).then(|| refusal(429, 3200))
    });
    let provider = world.settled().await;
    let mut done = Done::first("i");
    done.activities.extend([2, 3].map(|id| activity("i", id, Some("s"))));
    begin(&provider, "i", done).await;
    let lock = Duration::from_secs(300);
    let fetch = async |owner: &str| {
        let config = SessionFetchConfig { owner_id: owner.to_owned(), lock_timeout: lock };
        let tags = TagFilter::Any;
        provider.fetch_work_item(lock, Duration::ZERO, Some(&config), &tags).await
    };
    let (_, token, _) = fetch("one").await.unwrap().unwrap();
    is_refusing.store(true, Ordering::Relaxed);
    provider.renew_work_item_lock(&token, lock).await.unwrap();
    provider.ack_work_item(&token, Some(completed("i", 2, String::new()))).await.unwrap();
    assert_eq!((world.count("worker_queue").await, world.count("orch_queue").await), (1, 1));
    is_refusing.store(false, Ordering::Relaxed);
    assert_eq!(fetch("other").await.unwrap(), None);
    assert!(fetch("one").await.unwrap().is_some());
}

/// The answer is that the service ran out of time, which says nothing about the commit: it is looked for, and sent again
/// if it was lost.
// 3
#[tokio::test(start_paused = true)]
async fn a_commit_that_may_have_happened_and_did_not_is_sent_again() {
    let lost = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&lost);
    let world = World::scripted(move |request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let take = |left: usize| left.checked_sub(1);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(refusal(408, 0))
    });
    let provider = world.settled().await;
    enqueue(&provider, start("i")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    lost.store(MANY, Ordering::Relaxed);
    ack(&provider, &token, Done::first("i")).await.unwrap();
    assert_eq!(lost.load(Ordering::Relaxed), 0, "every one of them was a commit that was lost");
    assert_eq!((world.count("history").await, world.count("orch_queue").await), (1, 0));
}

/// An account that refuses to be asked for histories while it is told to.
fn without_histories() -> (World, Arc<AtomicBool>) {
    let is_refused = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_refused);
    let world = World::scripted(move |request| {
        let is_history =
            String::from_utf8_lossy(request.body()).contains("c.executionId = @execution");
        (is_history && told.load(Ordering::Relaxed)).then(|| refusal(429, 3200))
    });
    (world, is_refused)
}

/// The turn stayed locked for nobody, and each time an attempt was counted: ten such fetches, and the runtime takes the
/// orchestration for one that cannot be run.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_history_cannot_be_read_counts_no_attempt() {
    const LONG_LOCK: Duration = Duration::from_secs(600);
    let (world, is_refused) = without_histories();
    let client = world.settled().await;
    begin(&client, "i", Done::first("i")).await;
    enqueue(&client, raised("i", "1")).await;
    // It has not seen the history.
    let provider = world.settled().await;
    for poll in [Duration::ZERO, Duration::from_secs(1)] {
        is_refused.store(true, Ordering::Relaxed);
        let fetched = provider.fetch_orchestration_item(LONG_LOCK, poll, None).await;
        assert!(fetched.unwrap_err().is_retryable());
        is_refused.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (turn, token, attempts) = fetch(&provider).await.unwrap();
        assert_eq!((turn.history.len(), attempts), (1, 1), "{poll:?}");
        provider.abandon_orchestration_item(&token, None, true).await.unwrap();
    }
}
