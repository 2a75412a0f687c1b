//! What was asked of an account: requests, charge and bytes, by what they were about.
//!
//! Counting happens on the way of every request, so it takes no lock that another thread is likely to
//! hold: each thread counts in a shard of its own, and reading adds the shards up.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indexmap::{Equivalent, IndexMap};
use serde::{Deserialize, Serialize};
use sidereal_protocol::{RegionName, ResourceType};

use crate::operation::Operation;

/// Threads beyond this share shards.
const SHARDS: usize = 16;

/// Rows of one shard; what comes beyond is counted without container and partition range, so that
/// clients that make up names cannot fill the memory.
const MAX_ROWS: usize = 10_000;

/// What requests of one sort came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CounterRow {
    /// The region that they reached.
    pub region: RegionName,
    /// What they did.
    pub operation: Operation,
    /// The kind of resource that they were about; none for a probe.
    pub resource: Option<ResourceType>,
    /// The container, as `database/container`.
    pub container: Option<String>,
    /// The partition range that answered, or that they were addressed to.
    pub range: Option<String>,
    /// The status of the answer; 0 where a fault kept a request from being worked on and answered.
    pub status: u16,
    /// The sub-status of the answer.
    pub sub_status: u32,
    /// How many there were.
    pub requests: u64,
    /// What they cost, in request units.
    pub charge: f64,
    /// The sizes of their bodies, headers aside.
    pub request_bytes: u64,
    /// The sizes of their answers' bodies.
    pub response_bytes: u64,
}

/// The counters of an account.
#[derive(Debug)]
pub(crate) struct Counters([Shard; SHARDS]);

/// A shard on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<IndexMap<Sort, Totals>>);

/// What a request was, as far as it is counted.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Counted<'a> {
    pub(crate) region: usize,
    pub(crate) operation: Operation,
    pub(crate) resource: Option<ResourceType>,
    /// Database and container.
    pub(crate) container: Option<(&'a str, &'a str)>,
    pub(crate) range: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) sub_status: u32,
}

/// The same, kept. The fields are hashed in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sort {
    region: usize,
    operation: Operation,
    resource: Option<ResourceType>,
    container: Option<(Box<str>, Box<str>)>,
    range: Option<Box<str>>,
    status: u16,
    sub_status: u32,
}

/// What one request or many came to.
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
    pub(crate) fn record(&self, counted: Counted<'_>, totals: Totals) {
        let mut rows = self.0[shard_of_thread()].rows();
        if let Some(row) = rows.get_mut(&counted) {
            row.add(&totals);
            return;
        }
        let counted = match rows.len() < MAX_ROWS {
            true => counted,
            false => Counted { container: None, range: None, ..counted },
        };
        rows.entry(Sort::from(counted)).or_default().add(&totals);
    }

    /// Every row, with its region's name; in the order of region, container, range and operation.
    pub(crate) fn rows(&self, region: impl Fn(usize) -> RegionName) -> Vec<CounterRow> {
        let mut sums: IndexMap<Sort, Totals> = IndexMap::new();
        for shard in &self.0 {
            for (sort, totals) in shard.rows().iter() {
                sums.entry(sort.clone()).or_default().add(totals);
            }
        }
        sums.sort_by_cached_key(|sort, _| {
            let Sort { region, operation, container, range, status, sub_status, .. } = sort.clone();
            (region, container, range, operation, status, sub_status)
        });
        sums.into_iter().map(|(sort, totals)| row(sort, &totals, &region)).collect()
    }

    /// Starts again from nothing.
    pub(crate) fn reset(&self) {
        for shard in &self.0 {
            shard.rows().clear();
        }
    }
}

fn row(sort: Sort, totals: &Totals, region: impl Fn(usize) -> RegionName) -> CounterRow {
    CounterRow {
        region: region(sort.region),
        operation: sort.operation,
        resource: sort.resource,
        container: sort.container.map(|(database, container)| format!("{database}/{container}")),
        range: sort.range.map(String::from),
        status: sort.status,
        sub_status: sort.sub_status,
        requests: totals.requests,
        charge: totals.charge,
        request_bytes: totals.request_bytes,
        response_bytes: totals.response_bytes,
    }
}

impl Shard {
    fn rows(&self) -> MutexGuard<'_, IndexMap<Sort, Totals>> {
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

impl From<Counted<'_>> for Sort {
    fn from(counted: Counted<'_>) -> Self {
        let Counted { region, operation, resource, container, range, status, sub_status } = counted;
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

impl Equivalent<Sort> for Counted<'_> {
    fn equivalent(&self, sort: &Sort) -> bool {
        let container = sort.container.as_ref().map(|(first, second)| (&**first, &**second));
        self.region == sort.region
            && self.operation == sort.operation
            && self.resource == sort.resource
            && self.container == container
            && self.range == sort.range.as_deref()
            && self.status == sort.status
            && self.sub_status == sort.sub_status
    }
}

/// The shard of the current thread, given out in turn.
fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Totals = Totals { requests: 1, charge: 1.5, request_bytes: 10, response_bytes: 20 };

    fn read<'a>(container: &'a str, range: &'a str, status: u16) -> Counted<'a> {
        Counted {
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
    fn requests_of_one_sort_add_up_whatever_thread_counts_them() {
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
    fn requests_of_different_sorts_stay_apart_until_the_counters_are_reset() {
        let counters = Counters::default();
        let sorts = [read("c", "0", 200), read("c", "1", 200), read("d", "0", 200)];
        for sort in sorts.into_iter().chain([read("c", "0", 404)]) {
            counters.record(sort, ONE);
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
