//! The account's metrics: requests, charge and bytes, by region, operation, container, range and status.
//!
//! Every request is counted, so counting must not contend: the counters are sharded by thread, and reading
//! them adds the shards up.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::{Equivalent, IndexMap};
use serde::{Deserialize, Serialize};
use sidereal_protocol::{RegionName, ResourceType};

use crate::operation::Operation;

/// Threads beyond this share shards. Servers have a worker per core, so sixteen keep them apart on most
/// machines.
const SHARDS: usize = 16;

/// Rows of one shard: a bound on the cardinality of labels. What comes beyond is counted without container
/// and partition range, so that clients that make up names cannot fill the memory.
const MAX_ROWS: usize = 10_000;

/// The totals of requests with the same labels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// The region that they reached.
    pub region: RegionName,
    /// The operation of the requests.
    pub operation: Operation,
    /// The kind of resource that they were about; none for a probe.
    pub resource: Option<ResourceType>,
    /// The container, as `database/container`.
    pub container: Option<String>,
    /// The partition range that answered, or that they were addressed to.
    pub range: Option<String>,
    /// The status of the response; 0 where a fault rule kept a request from being processed.
    pub status: u16,
    /// The sub-status of the response.
    pub sub_status: u32,
    /// How many there were.
    pub requests: u64,
    /// The charge of the requests, in request units.
    pub charge: f64,
    /// The sizes of their bodies, headers aside.
    pub request_bytes: u64,
    /// The sizes of their responses' bodies.
    pub response_bytes: u64,
}

/// The counters of an account.
#[derive(Debug)]
pub(crate) struct Counters([Shard; SHARDS]);

/// A shard on cache lines of its own: no false sharing between threads.
#[derive(Debug, Default)]
// Two lines of 64 bytes, since x86-64 prefetches them in pairs.
#[repr(align(128))]
struct Shard(Mutex<IndexMap<OwnedCounterKey, Totals>>);

/// The labels of a request, borrowed: looking up a row that exists allocates nothing.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct CounterKey<'a> {
    pub(crate) region: usize,
    pub(crate) operation: Operation,
    pub(crate) resource: Option<ResourceType>,
    /// Database and container.
    pub(crate) container: Option<(&'a str, &'a str)>,
    pub(crate) range: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) sub_status: u32,
}

/// The labels of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OwnedCounterKey {
    region: usize,
    operation: Operation,
    resource: Option<ResourceType>,
    container: Option<(Box<str>, Box<str>)>,
    range: Option<Box<str>>,
    status: u16,
    sub_status: u32,
}

/// The sums of one request or many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) charge: f64,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Shard::default()))
    }
}

impl Counters {
    /// Counts a request.
    pub(crate) fn record(&self, counted: CounterKey<'_>, totals: Totals) {
        // Contended only by a thread that shares the shard, and by a reader for the time of its copy.
        let mut rows = self.0[shard_of_thread()].rows();
        if let Some(row) = rows.get_mut(&counted) {
            row.add(&totals);
            return;
        }
        let counted = match rows.len() < MAX_ROWS {
            true => counted,
            false => CounterKey { container: None, range: None, ..counted },
        };
        rows.entry(OwnedCounterKey::from(counted)).or_default().add(&totals);
    }

    /// Every row, with its region's name; in the order of region, container, range and operation.
    pub(crate) fn rows(&self, region: impl Fn(usize) -> RegionName) -> Vec<CounterRow> {
        let mut sums: IndexMap<OwnedCounterKey, Totals> = IndexMap::new();
        for shard in &self.0 {
            for (key, totals) in shard.rows().iter() {
                sums.entry(key.clone()).or_default().add(totals);
            }
        }
        sums.sort_by_cached_key(|key, _| {
            let OwnedCounterKey { region, operation, container, range, status, sub_status, .. } =
                key.clone();
            (region, container, range, operation, status, sub_status)
        });
        sums.into_iter().map(|(key, totals)| row(key, &totals, &region)).collect()
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&self) {
        for shard in &self.0 {
            shard.rows().clear();
        }
    }
}

fn row(key: OwnedCounterKey, totals: &Totals, region: impl Fn(usize) -> RegionName) -> CounterRow {
    CounterRow {
        region: region(key.region),
        operation: key.operation,
        resource: key.resource,
        container: key.container.map(|(database, container)| format!("{database}/{container}")),
        range: key.range.map(String::from),
        status: key.status,
        sub_status: key.sub_status,
        requests: totals.requests,
        charge: totals.charge,
        request_bytes: totals.request_bytes,
        response_bytes: totals.response_bytes,
    }
}

impl Shard {
    fn rows(&self) -> MutexGuard<'_, IndexMap<OwnedCounterKey, Totals>> {
        // Sums are added whole or not at all: a poisoned lock is ignored.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.charge += other.charge;
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
    }
}

impl From<CounterKey<'_>> for OwnedCounterKey {
    fn from(counted: CounterKey<'_>) -> Self {
        let CounterKey { region, operation, resource, container, range, status, sub_status } =
            counted;
        Self {
            region,
            operation,
            resource,
            container: container.map(|(database, container)| (database.into(), container.into())),
            range: range.map(Into::into),
            status,
            sub_status,
        }
    }
}

// `Equivalent` demands that both hash alike: they have the same fields in the same order.
impl Equivalent<OwnedCounterKey> for CounterKey<'_> {
    fn equivalent(&self, key: &OwnedCounterKey) -> bool {
        let container = key.container.as_ref().map(|(first, second)| (&**first, &**second));
        self.region == key.region
            && self.operation == key.operation
            && self.resource == key.resource
            && self.container == container
            && self.range == key.range.as_deref()
            && self.status == key.status
            && self.sub_status == key.sub_status
    }
}

/// The shard of the current thread, assigned round-robin.
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        // Relaxed: only the distribution matters.
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Totals = Totals { requests: 1, charge: 1.5, request_bytes: 10, response_bytes: 20 };

    fn read<'a>(container: &'a str, range: &'a str, status: u16) -> CounterKey<'a> {
        CounterKey {
            region: 0,
            operation: Operation::Read,
            resource: Some(ResourceType::Document),
            container: Some(("db", container)),
            range: Some(range),
            status,
            sub_status: 0,
        }
    }

    fn rows(counters: &Counters) -> Vec<CounterRow> {
        counters.rows(|_| RegionName::from("West US"))
    }

    #[test]
    fn requests_with_the_same_labels_add_up_whatever_thread_counts_them() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..250).for_each(|_| counters.record(read("c", "0", 200), ONE)));
            }
        });
        let rows = rows(&counters);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].requests, rows[0].charge), (1000, 1500.0));
        assert_eq!((rows[0].request_bytes, rows[0].response_bytes), (10_000, 20_000));
        assert_eq!(rows[0].container.as_deref(), Some("db/c"));
    }

    #[test]
    fn requests_with_different_labels_stay_apart_until_the_counters_are_reset() {
        let counters = Counters::default();
        let keys = [read("c", "0", 200), read("c", "1", 200), read("d", "0", 200)];
        for key in keys.into_iter().chain([read("c", "0", 404)]) {
            counters.record(key, ONE);
        }
        assert_eq!(rows(&counters).len(), 4);
        counters.reset();
        assert_eq!(rows(&counters).len(), 0);
    }

    #[test]
    fn made_up_names_do_not_add_rows_without_end() {
        let counters = Counters::default();
        for number in 0..MAX_ROWS + 5 {
            counters.record(read(&number.to_string(), "0", 404), ONE);
        }
        let rows = rows(&counters);
        assert_eq!(rows.len(), MAX_ROWS + 1);
        assert_eq!(rows.iter().find(|row| row.container.is_none()).unwrap().requests, 5);
    }
}
