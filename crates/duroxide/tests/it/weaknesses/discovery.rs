//! 7, 8, 12: how work is found: of every slot, without reading the backlog, without a trace of what is not taken.

use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, Provider, ProviderAdmin, SemverRange, WorkItem,
};
use semver::Version;
use serde_json::Value;

use crate::turns::{
    Done, LOCK, ack, activity, begin, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

// 7
#[tokio::test(start_paused = true)]
async fn one_worker_finds_the_activities_of_every_slot_whoever_left_them() {
    let world = World::new();
    let gone = world.provider().await;
    for number in 0..40 {
        gone.enqueue_for_worker(activity(&format!("i{number}"), 2, None)).await.unwrap();
    }
    drop(gone);
    let provider = world.provider().await;
    for number in 0..40 {
        let (item, _, _) = fetch_activity(&provider).await.unwrap();
        assert_eq!(item, activity(&format!("i{number}"), 2, None));
    }
}

/// The slots of a process that looks no more are not left alone.
// 7
#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_waits_is_given_the_work_of_slots_that_others_hold() {
    let world = World::new();
    let (silent, waiting) = (world.provider().await, world.provider().await);
    let wait = Duration::from_secs(60);
    // Both have asked once, and share the slots.
    for provider in [&silent, &waiting] {
        let fetched = provider.fetch_orchestration_item(LOCK, Duration::from_secs(2), None).await;
        assert!(fetched.unwrap().is_none());
    }
    let client = world.provider().await;
    for number in 0..16 {
        enqueue(&client, start(&format!("i{number}"))).await;
    }
    for _ in 0..16 {
        let fetched = waiting.fetch_orchestration_item(wait, wait, None).await.unwrap();
        let (item, token, _) = fetched.expect("a slot that nobody looks at");
        ack(&waiting, &token, Done::first(&item.instance)).await.unwrap();
    }
    drop(silent);
}

// 8
#[tokio::test(start_paused = true)]
async fn a_backlog_of_activities_does_not_make_a_fetch_dearer() {
    let world = World::new();
    let provider = world.settled().await;
    for number in 0..120 {
        provider.enqueue_for_worker(activity(&format!("i{number}"), 2, None)).await.unwrap();
    }
    for number in 0..120 {
        let (fetched, requests) = world.requests(fetch_activity(&provider)).await;
        let (item, token, _) = fetched.unwrap();
        assert_eq!(item, activity(&format!("i{number}"), 2, None));
        assert!(requests <= 3, "the first page, one ahead, the lock: {requests}");
        provider.ack_work_item(&token, None).await.unwrap();
    }
}

// 12
#[tokio::test(start_paused = true)]
async fn what_a_dispatcher_cannot_replay_is_not_touched_by_it() {
    let world = World::new();
    let provider = world.settled().await;
    let mut done = Done::first("i");
    done.metadata.pinned_duroxide_version = Some(Version::new(9, 0, 0));
    begin(&provider, "i", done).await;
    enqueue(&provider, raised("i", "1")).await;
    let documents = async || {
        let container = world.container();
        let query = container.query("SELECT c.id, c._etag FROM c").with_partition_key("i");
        query.items::<Value>().collect().await.unwrap()
    };
    let before = documents().await;
    let range = SemverRange::new(Version::new(0, 0, 0), Version::new(1, 0, 0));
    let filter = DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] };
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::ZERO, Some(&filter)).await;
    assert!(fetched.unwrap().is_none());
    assert_eq!(documents().await, before);
    assert_eq!(fetch(&provider).await.unwrap().2, 1, "the first attempt");
}

/// A message that overtakes the start of its instance waits for it, and comes with it.
// 12
#[tokio::test(start_paused = true)]
async fn messages_that_came_before_their_start_come_with_it() {
    let world = World::new();
    let provider = world.settled().await;
    let (instance, reason) = ("i".to_owned(), "enough".to_owned());
    let cancel = WorkItem::CancelInstance { instance, reason };
    enqueue(&provider, raised("i", "early")).await;
    enqueue(&provider, cancel.clone()).await;
    assert!(fetch(&provider).await.is_none());
    assert_eq!(provider.get_system_metrics().await.unwrap().total_instances, 0);
    enqueue(&provider, start("i")).await;
    let (item, token, attempts) = fetch(&provider).await.unwrap();
    assert_eq!((item.messages, attempts), (vec![raised("i", "early"), cancel, start("i")], 1));
    provider.abandon_orchestration_item(&token, None, false).await.unwrap();
    assert!(provider.list_instances().await.unwrap().is_empty());
}
