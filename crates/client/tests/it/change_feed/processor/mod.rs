//! The processor: workers that follow a feed together.

mod chaos;
mod handlers;
mod leases;
mod sockets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sidereal::change_feed::processor::{
    ChangeFeedProcessor, ChangeFeedProcessorBuilder, Changes, HandlerError,
};
use sidereal::prelude::*;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use super::{Partitioned, named, write};
use crate::query::client_of;

pub(super) const LEASE: Duration = Duration::from_secs(20);
pub(super) const LOOK: Duration = Duration::from_secs(3);

/// The changes that handlers were given: worker, item, version, when.
#[derive(Clone, Default)]
pub(super) struct Log(Arc<Mutex<Vec<Entry>>>);

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) worker: String,
    pub(super) change: (usize, usize),
    pub(super) at: Instant,
}

impl Log {
    pub(super) fn note(&self, worker: &str, changes: &Changes<Value>) {
        let at = Instant::now();
        let entry = |item| Entry { worker: worker.to_owned(), change: named(item), at };
        self.0.lock().unwrap().extend(changes.items().iter().map(entry));
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.0.lock().unwrap().clone()
    }

    pub(super) fn distinct(&self) -> BTreeSet<(usize, usize)> {
        self.entries().into_iter().map(|entry| entry.change).collect()
    }

    /// The last version of every item was handled, and no version for the first time after a later one.
    pub(super) fn check(&self, items: usize, last: usize) {
        let mut first: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for Entry { change: (id, v), .. } in self.entries() {
            let versions = first.entry(id).or_default();
            if !versions.contains(&v) {
                versions.push(v);
            }
        }
        assert_eq!(first.len(), items);
        for (id, versions) in first {
            assert!(versions.is_sorted(), "{id}: {versions:?}");
            assert_eq!(versions.last(), Some(&last), "{id}: {versions:?}");
        }
    }
}

/// A container that is followed, and one for leases.
pub(super) struct Followed {
    pub(super) store: Partitioned,
    pub(super) log: Log,
}

impl Followed {
    pub(super) async fn new(partitions: u32) -> Self {
        let options = AccountOptions { partitions: Some(partitions), ..AccountOptions::default() };
        Self::with(options, NetworkFaults::NONE).await
    }

    pub(super) async fn with(options: AccountOptions, network: NetworkFaults) -> Self {
        let store = Partitioned::with(options, network).await;
        let properties = ContainerProperties::new("leases", "/processor".parse().unwrap());
        store.client.database("db").create_container(properties, None).await.unwrap();
        Self { store, log: Log::default() }
    }

    pub(super) fn leases(&self) -> ContainerClient {
        self.store.client.database("db").container("leases")
    }

    /// A worker before it starts, with a client of its own.
    pub(super) fn worker(&self, name: &str) -> ChangeFeedProcessorBuilder {
        let client = client_of(&self.store.account, self.store.account.factory());
        let database = client.database("db");
        database
            .container("items")
            .change_feed_processor("billing", &database.container("leases"))
            .with_instance(name)
            .with_lease_duration(LEASE)
            .with_acquire_interval(LOOK)
            .with_page_size(5)
    }

    /// A worker that notes what it is given.
    pub(super) async fn start(&self, name: &str) -> ChangeFeedProcessor {
        self.worker(name).start(noting(&self.log, name)).await.unwrap()
    }

    /// Who has each lease.
    pub(super) async fn owners(&self) -> Vec<Option<String>> {
        let query = self.leases().query("SELECT * FROM c WHERE c.kind = 'lease'");
        let leases: Vec<Value> = query.items().collect().await.unwrap();
        leases.iter().map(|it| it["owner"].as_str().map(str::to_owned)).collect()
    }
}

/// A handler that notes what it is given.
pub(super) fn noting(
    log: &Log,
    name: &str,
) -> impl Fn(Changes<Value>) -> std::future::Ready<Result<(), HandlerError>> + Send + Sync + 'static
{
    let (log, name) = (log.clone(), name.to_owned());
    move |changes| {
        log.note(&name, &changes);
        std::future::ready(Ok(()))
    }
}

/// How many leases each worker has.
fn shares(owners: &[Option<String>]) -> BTreeMap<&str, usize> {
    let mut shares = BTreeMap::new();
    for owner in owners.iter().flatten() {
        *shares.entry(owner.as_str()).or_default() += 1;
    }
    shares
}

#[tokio::test(start_paused = true)]
async fn a_worker_alone_handles_everything_and_another_goes_on_after_it() {
    let followed = Followed::new(4).await;
    write(&followed.store.items, 0..50, 1).await;
    let worker = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    write(&followed.store.items, 0..50, 2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    followed.log.check(50, 2);
    let progress = worker.progress();
    assert_eq!(progress.len(), 4);
    assert_eq!(progress.iter().map(|it| it.handled).sum::<u64>(), 100);
    assert!(progress.iter().all(|it| it.is_caught_up && it.failures == 0));
    worker.stop().await;
    assert_eq!(followed.owners().await, [None, None, None, None]);

    // What was handled is not given again, and what was given back is taken at once.
    write(&followed.store.items, 0..10, 3).await;
    let _next = followed.start("b").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let given: Vec<_> = followed.log.entries().into_iter().filter(|it| it.worker == "b").collect();
    assert_eq!(given.len(), 10);
    assert!(given.iter().all(|it| it.change.1 == 3));
}

#[tokio::test(start_paused = true)]
async fn workers_share_the_ranges_evenly() {
    let followed = Followed::new(7).await;
    let a = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(shares(&followed.owners().await), BTreeMap::from([("a", 7)]));
    let _b = followed.start("b").await;
    let c = followed.start("c").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let owners = followed.owners().await;
    let even = shares(&owners);
    assert_eq!((even.len(), even.values().sum::<usize>()), (3, 7));
    assert!(even.values().all(|count| (2..=3).contains(count)), "{even:?}");
    assert_eq!(a.progress().len(), even["a"]);

    // One that stops leaves its ranges to the others at once; and all of that repeats and loses nothing.
    c.stop().await;
    write(&followed.store.items, 0..60, 1).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let owners = followed.owners().await;
    assert_eq!(shares(&owners).values().sum::<usize>(), 7);
    followed.log.check(60, 1);
    assert_eq!(followed.log.entries().len(), 60, "something was handled twice");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_gone_is_taken_over_within_the_time_of_its_leases() {
    let followed = Followed::new(4).await;
    let (a, _b) = (followed.start("a").await, followed.start("b").await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(shares(&followed.owners().await), BTreeMap::from([("a", 2), ("b", 2)]));
    drop(a);
    let gone = Instant::now();
    write(&followed.store.items, 0..40, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    followed.log.check(40, 1);
    let last = followed.log.entries().iter().map(|it| it.at).max().unwrap();
    // The lease, a look before it and one after it, and a read of the range.
    let most = LEASE + 2 * LOOK + Duration::from_secs(1);
    assert!(last - gone <= most, "{:?}", last - gone);
    assert!(last - gone > LEASE / 2, "the leases of a worker that is gone were not kept for it");
}

#[tokio::test(start_paused = true)]
async fn a_processor_from_now_on_has_what_comes_after_it_was_first_started() {
    use sidereal::change_feed::ChangeFeedStart;
    let followed = Followed::new(3).await;
    write(&followed.store.items, 0..20, 1).await;
    let worker = followed.worker("a").with_start(ChangeFeedStart::Now);
    let worker = worker.start(noting(&followed.log, "a")).await.unwrap();
    // Before any range was read by the worker, and while it is down.
    write(&followed.store.items, 20..30, 1).await;
    drop(worker);
    write(&followed.store.items, 30..40, 1).await;
    let again = followed.worker("a").with_start(ChangeFeedStart::Now);
    let _again = again.start(noting(&followed.log, "a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let ids: BTreeSet<usize> = followed.log.distinct().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, (20..40).collect());
}

#[tokio::test(start_paused = true)]
async fn lag_is_told_for_every_range_also_while_nobody_works() {
    let followed = Followed::new(3).await;
    followed.start("a").await.stop().await;
    write(&followed.store.items, 0..30, 1).await;
    let lag = followed.worker("watcher").estimate_lag().await.unwrap();
    assert_eq!(lag.len(), 3);
    assert_eq!(lag.iter().map(|it| it.changes).sum::<u64>(), 30);
    assert!(lag.iter().all(|it| it.owner.is_none()));
    let worker = followed.start("a").await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let lag = worker.estimate_lag().await.unwrap();
    assert!(lag.iter().all(|it| it.changes == 0 && it.owner.as_deref() == Some("a")), "{lag:?}");
    assert_eq!(worker.instance(), "a");
}
