//! The lease container: whose it is, and what becomes of leases.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sidereal::change_feed::ChangeFeedStart;
use sidereal::change_feed::processor::{Changes, HandlerError};
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::NetworkFaults;
use sidereal_testing::in_process::scripting::{ScriptedFactory, page};

use super::{Followed, LEASE, noting, write};
use crate::query::client_of;

#[tokio::test(start_paused = true)]
async fn a_lease_container_of_another_application_is_refused() {
    let followed = Followed::new(2).await;
    let _a = followed.start("a").await;
    let database = followed.store.client.database("db");
    let (items, leases) = (database.container("items"), followed.leases());
    let start = async |application: &str, processor: &str, leases: &ContainerClient| {
        let processor = items.change_feed_processor(processor, leases);
        let processor = processor.with_application(application);
        processor.start(noting(&followed.log, "x")).await
    };
    let error = start("shop", "billing", &leases).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("belongs to the application \"billing\""), "{error}");
    // Another processor of the same application may share it.
    drop(start("billing", "mailing", &leases).await.unwrap());

    // Items that are no leases.
    let properties = ContainerProperties::new("mixed", "/processor".parse().unwrap());
    database.create_container(properties, None).await.unwrap();
    let mixed = database.container("mixed");
    mixed.create_item("x", json!({"id": "theirs", "processor": "x"}), None).await.unwrap();
    let error = start("shop", "billing", &mixed).await.unwrap_err();
    assert!(error.to_string().contains("theirs"), "{error}");

    let error = start("shop", "billing", &items).await.unwrap_err();
    assert!(error.to_string().contains("is partitioned by /pk"), "{error}");
    let error = start("shop", "$application", &leases).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    let error = start("shop", "billing", &database.container("absent")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_processor_of_another_or_a_recreated_container_is_refused() {
    let followed = Followed::new(2).await;
    followed.start("a").await.stop().await;
    let database = followed.store.client.database("db");
    let properties = ContainerProperties::new("other", "/pk".parse().unwrap());
    database.create_container(properties, None).await.unwrap();
    let other = database.container("other").change_feed_processor("billing", &followed.leases());
    let error = other.start(noting(&followed.log, "x")).await.unwrap_err();
    assert!(error.to_string().contains("follows another container"), "{error}");
    followed.store.items.delete(None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    database.create_container(properties, None).await.unwrap();
    let again = followed.worker("a").start(noting(&followed.log, "a")).await.unwrap_err();
    assert!(again.to_string().contains("created again"), "{again}");
}

/// More ranges than one batch has room for, and two workers that begin at the same moment.
#[tokio::test(start_paused = true)]
async fn workers_that_begin_together_make_one_lease_for_each_range() {
    let followed = Followed::new(110).await;
    let (a, b) = tokio::join!(followed.start("a"), followed.start("b"));
    write(&followed.store.items, 0..300, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(followed.owners().await.len(), 110);
    followed.log.check(300, 1);
    assert_eq!(a.progress().len() + b.progress().len(), 110);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deleted_is_made_again() {
    let followed = Followed::new(3).await;
    let _a = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let query = followed.leases().query("SELECT VALUE c.id FROM c WHERE c.kind = 'lease'");
    let id: String = query.first().await.unwrap().unwrap();
    followed.leases().delete_item("billing", &id, None).await.unwrap();
    write(&followed.store.items, 0..60, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    followed.log.check(60, 1);
    assert_eq!(followed.owners().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_split_gives_a_lease_to_each_child_and_a_merge_leaves_them() {
    let followed = Followed::new(1).await;
    write(&followed.store.items, 0..40, 1).await;
    let worker = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let [left, right] = followed.store.split("0");
    followed.store.split(&left);
    write(&followed.store.items, 0..40, 2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    followed.log.check(40, 2);
    assert_eq!(followed.owners().await.len(), 3);
    assert_eq!(followed.log.entries().len(), 80, "a child began before its parent had ended");
    let ranges = followed.store.ranges().await;
    followed.store.merge(&ranges[1], &right);
    write(&followed.store.items, 0..40, 3).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    followed.log.check(40, 3);
    assert_eq!(followed.log.entries().len(), 120);
    let progress = worker.progress();
    assert!(
        progress.iter().all(|it| it.last_error.is_none()),
        "a merge is no failure: {progress:?}"
    );
}

/// Answers to writes of leases are lost too: a worker must not take its own write for another's.
#[tokio::test(start_paused = true)]
async fn lost_answers_cost_no_lease_and_no_change() {
    let network = NetworkFaults {
        latency: Duration::from_millis(5),
        lost_before: 0.05,
        lost_after: 0.05,
        ..NetworkFaults::NONE
    };
    let options = AccountOptions { partitions: Some(3), ..AccountOptions::default() };
    let followed = Followed::with(options, NetworkFaults::NONE).await;
    let (a, b) = (followed.start("a").await, followed.start("b").await);
    followed.store.account.network().set_faults(network);
    for v in 1..=5 {
        let stranger = followed.store.stranger();
        for id in 0..20 {
            let item: Value = super::super::version(id, v);
            stranger.upsert_item(format!("p{id}"), &item, None).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    followed.store.account.network().set_faults(NetworkFaults::NONE);
    tokio::time::sleep(Duration::from_secs(30)).await;
    followed.log.check(20, 5);
    assert_eq!(a.progress().len() + b.progress().len(), 3);
}

/// Handlers at work, and the most there were at once.
#[derive(Clone, Default)]
struct AtWork {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl AtWork {
    /// Counts one for as long as it lives: a handler may be dropped.
    fn begin(&self) -> impl Drop + use<> {
        struct Ending(Arc<AtomicUsize>);
        impl Drop for Ending {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let count = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(count, Ordering::Relaxed);
        Ending(Arc::clone(&self.now))
    }
}

/// A worker that came back under its name went on with a lease that another was about to take: both handled the same
/// changes at once. Whenever it comes back, one of them has the range.
#[tokio::test(start_paused = true)]
async fn a_worker_that_comes_back_renews_its_leases_before_it_handles_anything() {
    for second in 0..12 {
        let (followed, at_work) = (Followed::new(1).await, AtWork::default());
        let start = async |name: &str| {
            let at_work = at_work.clone();
            let handler = move |_: Changes<Value>| {
                let at_work = at_work.clone();
                async move {
                    let _working = at_work.begin();
                    tokio::time::sleep(Duration::from_secs(30)).await;
                    Ok::<_, HandlerError>(())
                }
            };
            followed.worker(name).start(handler).await.unwrap()
        };
        let gone = start("a").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let _other = start("b").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        drop(gone);
        write(&followed.store.items, 0..3, 1).await;
        tokio::time::sleep(LEASE + Duration::from_secs(second) - Duration::from_secs(6)).await;
        let _back = start("a").await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(at_work.most.load(Ordering::Relaxed), 1, "back after {second} s");
    }
}

/// A worker that was not allowed to replace the lease of a split range tried it again and again without a pause.
#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_replaced_is_tried_again_after_a_wait() {
    let network = NetworkFaults { latency: Duration::from_millis(5), ..NetworkFaults::NONE };
    let options = AccountOptions { partitions: Some(1), ..AccountOptions::default() };
    let followed = Followed::with(options, network).await;
    write(&followed.store.items, 0..10, 1).await;
    let worker = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let account = followed.store.account.account();
    let effect = FaultEffect::Answer { status: 403, sub_status: 0, retry_after: None };
    let (operation, container) = (Some(Operation::Batch), Some("db/leases".to_owned()));
    let condition = FaultCondition { operation, container, ..FaultCondition::default() };
    account.add_fault(FaultRule { condition, ..FaultRule::new(effect) }).unwrap();
    account.reset_counters();
    followed.store.split("0");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let batches = account.counters().into_iter().filter(|row| row.operation == Operation::Batch);
    let tried: u64 = batches.map(|row| row.requests).sum();
    assert!((2..10).contains(&tried), "{tried}");
    assert!(worker.progress()[0].last_error.as_ref().unwrap().contains("403"));
    // The lease is kept meanwhile, and replaced as soon as that is possible.
    assert_eq!(followed.owners().await, [Some("a".to_owned())]);
    account.clear_faults();
    write(&followed.store.items, 0..10, 2).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    followed.log.check(10, 2);
    assert_eq!(followed.owners().await.len(), 2);
}

/// A split between two pages of the list looked like a hole, which was filled from the beginning of the feed.
#[tokio::test(start_paused = true)]
async fn a_list_of_leases_that_lacks_some_is_read_again() {
    let followed = Followed::new(2).await;
    write(&followed.store.items, 0..40, 1).await;
    let torn = Arc::new(AtomicUsize::new(0));
    let lists = Arc::clone(&torn);
    let factory = ScriptedFactory::before(followed.store.account.factory(), move |request| {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let is_list = body.contains("@kind");
        let is_torn =
            is_list && lists.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        is_torn.then(|| page(&[] as &[u8], None))
    });
    let client = client_of(&followed.store.account, factory);
    let database = client.database("db");
    let worker = database
        .container("items")
        .change_feed_processor("billing", &database.container("leases"))
        .with_acquire_interval(super::LOOK)
        .start(noting(&followed.log, "a"))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(followed.log.entries().len(), 40);
    torn.store(1, SeqCst);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(torn.load(SeqCst), 0);
    assert_eq!(followed.owners().await.len(), 2);
    assert_eq!(followed.log.entries().len(), 40, "changes were handled again");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_others_cover_is_deleted() {
    let followed = Followed::new(3).await;
    let worker = followed.start("a").await;
    let everything = json!({"id": "lease--FF", "processor": "billing", "kind": "lease", "min": "", "max": "FF", "version": 0});
    followed.leases().create_item("billing", everything, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.owners().await.len(), 3);
    write(&followed.store.items, 0..20, 1).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.log.entries().len(), 20);
    worker.stop().await;
}

/// A worker that is told to begin elsewhere does not bring back what was before the processor's start.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_made_again_is_not_before_the_start_of_its_processor() {
    let followed = Followed::new(2).await;
    write(&followed.store.items, 0..40, 1).await;
    let first = followed.worker("a").with_start(ChangeFeedStart::Now);
    first.start(noting(&followed.log, "a")).await.unwrap().stop().await;
    let query = followed.leases().query("SELECT VALUE c.id FROM c WHERE c.kind = 'lease'");
    let id: String = query.first().await.unwrap().unwrap();
    followed.leases().delete_item("billing", &id, None).await.unwrap();
    let second = followed.worker("b").with_start(ChangeFeedStart::Beginning);
    let worker = second.start(noting(&followed.log, "b")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.owners().await.len(), 2);
    assert!(followed.log.entries().is_empty());
    write(&followed.store.items, 0..40, 2).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.log.distinct().len(), 40);
    worker.stop().await;
}
