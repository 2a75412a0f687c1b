//! Keeps what is known of containers: read when one is first used, refreshed when it turns out to be stale.
//!
//! One task reads a container, so reads are single-flight and outlive the operations that wait for them.
//! Operations do not wait for the first read: the service routes by itself, and says which range answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderValue;
use sidereal_protocol::PartitionKeyRangeId;
use tokio::sync::watch;

use super::container_reader::{read_container, read_range_changes};
use super::refresh_pace::RefreshPace;
use super::{ContainerMetadata, LocationStateStore, MetadataReader, Partition};
use crate::system::{Clock, Epoch, LastUse, TaskSpawner, evict_least_recent};
use crate::{Error, ErrorKind, OperationTarget};

/// The most containers that are kept. An application that uses more reads the one again that it used least recently.
const MAX_CONTAINERS: usize = 10_000;

/// The least time between two reads of a container, however many operations ask: a split under load must not
/// turn its load into reads of the ranges.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(100);

/// The pause after a failed read, for operations that can do without the container.
const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// The part of a container's metadata that is stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// The partition ranges.
    Ranges,
    /// Everything: the container was recreated under the same name.
    Container,
}

/// The containers of an account.
#[derive(Debug)]
pub(crate) struct ContainerCache {
    /// By the container's link. Changed only when a container is new.
    containers: ArcSwap<BTreeMap<Arc<str>, Arc<ContainerEntry>>>,
    epoch: Epoch,
    capacity: usize,
    reader: Weak<dyn MetadataReader>,
    /// Told of partitions that are gone.
    locations: Arc<LocationStateStore>,
    tasks: TaskSpawner,
}

/// One container, and the reads of it.
#[derive(Debug)]
struct ContainerEntry {
    link: Arc<str>,
    last_use: LastUse,
    resolution: ArcSwap<Resolution>,
    is_recreated: AtomicBool,
    /// A range that the service says is gone, since the last read.
    gone: ArcSwapOption<PartitionKeyRangeId>,
    pace: ArcSwap<RefreshPace>,
    /// How many reads were asked for.
    wanted: AtomicU64,
    is_reading: AtomicBool,
    /// How many of them are done; all, once the reading task has ended.
    done: watch::Sender<u64>,
}

/// The last outcomes of reads: the metadata, the failure, or both.
#[derive(Clone, Debug, Default)]
struct Resolution {
    known: Option<Arc<ContainerMetadata>>,
    /// Why the last read failed, and when.
    failed: Option<(Instant, Arc<Error>)>,
}

impl ContainerCache {
    pub(crate) fn new(
        reader: Weak<dyn MetadataReader>,
        locations: Arc<LocationStateStore>,
        tasks: TaskSpawner,
    ) -> Self {
        Self {
            containers: ArcSwap::default(),
            epoch: Epoch::default(),
            capacity: MAX_CONTAINERS,
            reader,
            locations,
            tasks,
        }
    }

    /// The partition that an operation is about, as far as it is known. A container of which nothing is known
    /// is read in the background.
    pub(crate) fn partition(
        &self,
        container: &Arc<str>,
        target: Option<&OperationTarget>,
        now: Instant,
    ) -> Option<Arc<Partition>> {
        let containers = self.containers.load();
        let Some(entry) = containers.get(container) else {
            self.request(&self.entry(container));
            return None;
        };
        entry.last_use.note(&self.epoch);
        let resolution = entry.resolution.load();
        match &resolution.known {
            Some(known) => known.partition_of(target).cloned(),
            None => {
                let is_due =
                    |(at, _): &(Instant, _)| now.saturating_duration_since(*at) >= FAILURE_INTERVAL;
                // A read that is under way has not failed yet, and asking for it again costs nothing.
                if resolution.failed.as_ref().is_some_and(is_due) {
                    self.request(entry);
                }
                None
            }
        }
    }

    /// The container, if it has been read.
    pub(crate) fn known(&self, container: &str) -> Option<Arc<ContainerMetadata>> {
        self.containers.load().get(container)?.resolution.load().known.clone()
    }

    /// The RID of a container as requests carry it, if it has been read.
    pub(crate) fn rid_header(&self, container: &str) -> Option<HeaderValue> {
        let containers = self.containers.load();
        let resolution = containers.get(container)?.resolution.load();
        resolution.known.as_ref()?.partitions().first()?.container_rid_header.clone()
    }

    /// The container, read first if it is not known.
    pub(crate) async fn resolved(
        &self,
        container: &Arc<str>,
    ) -> Result<Arc<ContainerMetadata>, Arc<Error>> {
        let entry = self.entry(container);
        if let Some(known) = &entry.resolution.load().known {
            return Ok(Arc::clone(known));
        }
        self.refresh(&entry).await;
        let resolution = entry.resolution.load();
        match (&resolution.known, &resolution.failed) {
            (Some(known), _) => Ok(Arc::clone(known)),
            (None, Some((_, error))) => Err(Arc::clone(error)),
            (None, None) => Err(Arc::new(Error::new(
                ErrorKind::Cancelled,
                "the driver is shutting down, and the container has not been read",
            ))),
        }
    }

    /// Asks for a container to be read again, and does not wait for it. Reads of ranges that changed nothing are paced.
    pub(crate) fn request_refresh(&self, container: &Arc<str>, stale: Stale) {
        let entry = self.entry(container);
        if stale == Stale::Ranges && !entry.pace.load().is_due(Clock::now()) {
            return;
        }
        entry.note(stale);
        self.request(&entry);
    }

    /// Waits for a read of a container that begins after this call, whatever comes of it. `gone`: a range that the service
    /// says is not there any more.
    pub(crate) async fn refreshed(
        &self,
        container: &Arc<str>,
        stale: Stale,
        gone: Option<&PartitionKeyRangeId>,
    ) {
        let entry = self.entry(container);
        let awaited = entry.pace.load().awaited().filter(|_| stale == Stale::Ranges);
        if let Some(awaited) = awaited {
            tokio::time::sleep_until(awaited.into()).await;
        }
        entry.note(stale);
        if let Some(gone) = gone {
            entry.gone.store(Some(Arc::new(gone.clone())));
        }
        self.refresh(&entry).await;
    }

    /// The link of a container by its RID, if it is known. Linear search: for rare cases.
    pub(crate) fn link_of(&self, rid: &str) -> Option<Arc<str>> {
        let containers = self.containers.load();
        let mut entries = containers.values();
        let found = entries.find(|entry| {
            entry.resolution.load().known.as_ref().is_some_and(|known| known.rid() == rid)
        });
        found.map(|entry| Arc::clone(&entry.link))
    }

    /// Every partition that is known, for statistics over all of them.
    pub(crate) fn each_partition(&self, mut visit: impl FnMut(&Partition)) {
        for entry in self.containers.load().values() {
            if let Some(known) = &entry.resolution.load().known {
                known.partitions().iter().for_each(|partition| visit(partition));
            }
        }
    }

    /// Whether a range of a container is known to have been split or merged.
    pub(crate) fn is_gone(&self, container: &str, range: &PartitionKeyRangeId) -> bool {
        let containers = self.containers.load();
        containers.get(container).is_some_and(|entry| {
            let resolution = entry.resolution.load();
            resolution.known.as_ref().is_some_and(|known| known.ranges().is_gone(range.as_str()))
        })
    }

    fn entry(&self, container: &Arc<str>) -> Arc<ContainerEntry> {
        if let Some(entry) = self.containers.load().get(container) {
            entry.last_use.note(&self.epoch);
            return Arc::clone(entry);
        }
        self.epoch.advance();
        let made = Arc::new(ContainerEntry::new(container, LastUse::now(&self.epoch)));
        self.containers.rcu(|containers| {
            let mut containers = BTreeMap::clone(containers);
            if !containers.contains_key(container) {
                if containers.len() >= self.capacity {
                    evict_least_recent(&mut containers, |entry| &entry.last_use);
                }
                containers.insert(Arc::clone(container), Arc::clone(&made));
            }
            containers
        });
        // Another thread may have inserted its own first.
        self.containers.load().get(container).map_or(made, Arc::clone)
    }

    async fn refresh(&self, entry: &Arc<ContainerEntry>) {
        let mut done = entry.done.subscribe();
        let wanted = self.request(entry);
        // The sender is the entry's own, so the wait cannot fail.
        let _ = done.wait_for(|done| *done >= wanted).await;
    }

    /// Asks for a read; says which one.
    fn request(&self, entry: &Arc<ContainerEntry>) -> u64 {
        // SeqCst, here and where the task ends: either the task sees this read wanted before it ends, or
        // this sees that the task has ended. With anything weaker both could miss the other.
        let wanted = entry.wanted.fetch_add(1, Ordering::SeqCst) + 1;
        if !entry.is_reading.swap(true, Ordering::SeqCst) {
            let (entry, reader) = (Arc::clone(entry), self.reader.clone());
            // Made before the task, so that it tells of the end also if the task is not started.
            let locations = Arc::clone(&self.locations);
            let reading = Reading { entry, locations, is_over: false };
            self.tasks.spawn("container-refresh", reading.read_while_wanted(reader));
        }
        wanted
    }
}

impl ContainerEntry {
    fn new(link: &Arc<str>, last_use: LastUse) -> Self {
        Self {
            link: Arc::clone(link),
            last_use,
            resolution: ArcSwap::default(),
            is_recreated: AtomicBool::new(false),
            gone: ArcSwapOption::empty(),
            pace: ArcSwap::default(),
            wanted: AtomicU64::new(0),
            is_reading: AtomicBool::new(false),
            done: watch::Sender::default(),
        }
    }

    fn note(&self, stale: Stale) {
        if stale == Stale::Container {
            // Before the read is asked for, so that the read sees it.
            self.is_recreated.store(true, Ordering::SeqCst);
        }
    }

    async fn read(&self, reader: &dyn MetadataReader, locations: &LocationStateStore) {
        // SeqCst, as all that requests and the reading task share (see `request`). Taken back below if the read fails.
        let is_recreated = self.is_recreated.swap(false, Ordering::SeqCst);
        let gone = self.gone.swap(None);
        let before = self.resolution.load_full();
        let read = match &before.known {
            Some(known) if !is_recreated => {
                read_range_changes(reader, &self.link, known, gone.as_deref()).await
            }
            _ => read_container(reader, &self.link).await,
        };
        if let Ok(container) = &read {
            let has_changed =
                before.known.as_ref().is_none_or(|known| !known.has_ranges_of(container));
            let pace = self.pace.load().after(has_changed, Clock::now(), reader.jitter());
            self.pace.store(Arc::new(pace));
        }
        self.resolution.store(Arc::new(match read {
            Ok(container) => {
                locations.sync_container(before.known.as_deref(), &container);
                Resolution { known: Some(Arc::new(container)), failed: None }
            }
            Err(error) => {
                tracing::debug!(container = %self.link, %error, "a container could not be read");
                self.is_recreated.fetch_or(is_recreated, Ordering::SeqCst);
                // What was recreated is not known any more; ranges that are stale are better than none.
                let known = before.known.clone().filter(|_| !is_recreated);
                Resolution { known, failed: Some((Clock::now(), Arc::new(error))) }
            }
        }));
    }
}

/// Reads a container until no further read is requested.
struct Reading {
    entry: Arc<ContainerEntry>,
    locations: Arc<LocationStateStore>,
    is_over: bool,
}

impl Reading {
    async fn read_while_wanted(mut self, reader: Weak<dyn MetadataReader>) {
        loop {
            // Before the read: a request that comes during it is served by the next one.
            let wanted = self.entry.wanted.load(Ordering::SeqCst);
            // Strong only during a read: the task must not keep the driver alive.
            let Some(current) = reader.upgrade() else { return };
            self.entry.read(&*current, &self.locations).await;
            drop(current);
            self.entry.done.send_replace(wanted);
            // The flag first, then the count; `request` counts first and then looks at the flag (Dekker). So one of the
            // two sees the other, and no request is left without a reader: a lost wakeup.
            self.entry.is_reading.store(false, Ordering::SeqCst);
            let is_wanted_again = self.entry.wanted.load(Ordering::SeqCst) != wanted;
            if !is_wanted_again || self.entry.is_reading.swap(true, Ordering::SeqCst) {
                self.is_over = true;
                return;
            }
            tokio::time::sleep(MIN_REFRESH_INTERVAL).await;
        }
    }
}

/// Releases waiters if the task is aborted or never starts: the driver is shutting down.
impl Drop for Reading {
    fn drop(&mut self) {
        if !self.is_over {
            // The flag first: a waiter that wakes up and asks again must be able to start a task.
            self.entry.is_reading.store(false, Ordering::SeqCst);
            self.entry.done.send_replace(u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MetadataFuture;
    use super::*;
    use crate::CosmosOperation;
    use crate::routing::PartitionFailoverConfig;
    use crate::system::BackgroundTaskManager;

    #[derive(Debug)]
    struct NoReader;

    impl MetadataReader for NoReader {
        fn execute<'a>(&'a self, _: &'a CosmosOperation, _: bool) -> MetadataFuture<'a> {
            Box::pin(async { Err(Error::new(ErrorKind::Unavailable, "nothing is there")) })
        }

        fn jitter(&self) -> f64 {
            0.0
        }
    }

    /// Regression: the first container by name was evicted and read again, however often it was used.
    #[tokio::test]
    async fn the_container_that_was_used_least_recently_makes_room() {
        let global = "https://contoso.documents.azure.com".parse().unwrap();
        let config = PartitionFailoverConfig::of(&crate::options::OptionLayers::default());
        let locations = Arc::new(LocationStateStore::new(global, Default::default(), config));
        let tasks = BackgroundTaskManager::new();
        let no_reader: Weak<NoReader> = Weak::new();
        let mut cache = ContainerCache::new(no_reader, locations, tasks.spawner());
        cache.capacity = 3;
        let is_kept = |name: &str| cache.containers.load().contains_key(name);
        let is_used = |name: &str| drop(cache.partition(&name.into(), None, Clock::now()));
        for name in ["a", "b", "c"] {
            is_used(name);
        }
        for newcomer in ["d", "e", "f"] {
            is_used("a");
            is_used(newcomer);
            assert!(is_kept("a") && is_kept(newcomer));
        }
        assert!(!is_kept("b") && !is_kept("c") && !is_kept("d"));
        assert_eq!(cache.containers.load().len(), 3);
    }
}
