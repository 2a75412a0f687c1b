//! The cost of a point read without a network: allocations and CPU of everything above the HTTP client.
//!
//!     cargo bench -p sidereal-driver --bench pipeline
//!
//! The client answers at once with a kilobyte and the headers that the service sends, so routing, partition
//! resolution, session, signature, hedging and diagnostics are all in it. What the client itself costs (the boxed
//! future of the seam, the response's headers) is measured beside it and taken off. More allocations than
//! [`MOST_ALLOCATIONS`] fail it.
//!
//! To compare two builds, keep the program of one (`cargo bench … --no-run` says where it is) and name it: then the two
//! run by turns, and the medians are compared. A machine that is busy with something else slows both.
//!
//!     BASELINE=/tmp/pipeline-before cargo bench -p sidereal-driver --bench pipeline

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time that it measures")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::options::CosmosEnvironmentOptions;
use sidereal_driver::transport::{Credential, Endpoint, HttpClient, HttpRequest};
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation, OperationOptions};
use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};
use sidereal_testing::at_once::{AtOnce, ITEM};

/// Counts what it passes on to the system's allocator.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a counter that is read by the thread that counts.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The cost of one call: allocations, and the seconds of the fastest round.
#[derive(Clone, Copy)]
struct Cost {
    allocations: f64,
    seconds: f64,
}

impl Cost {
    const NOTHING_YET: Self = Self { allocations: 0.0, seconds: f64::INFINITY };

    /// Takes in a round that began with so many allocations at a moment.
    fn after_round(self, allocations: u64, started: Instant) -> Self {
        let made = ALLOCATIONS.load(Ordering::Relaxed) - allocations;
        Self {
            allocations: made as f64 / f64::from(READS),
            seconds: self.seconds.min(started.elapsed().as_secs_f64() / f64::from(READS)),
        }
    }
}

/// The client alone: its future, and the headers of its response.
async fn cost_of_client(client: &AtOnce, uri: &http::Uri) -> Cost {
    let endpoint = Endpoint::of(uri).unwrap();
    let now = Instant::now();
    let mut diagnostics = RequestDiagnostics::new(Default::default(), None, endpoint, now);
    let mut cost = Cost::NOTHING_YET;
    for _ in 0..ROUNDS {
        let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        for _ in 0..READS {
            let mut request = HttpRequest::new(Bytes::new());
            request.uri_mut().clone_from(uri);
            std::hint::black_box(client.execute(request, &mut diagnostics).await.unwrap());
        }
        cost = cost.after_round(before, started);
    }
    cost
}

async fn cost_of_read(driver: &CosmosDriver, read: &CosmosOperation) -> Cost {
    let options = OperationOptions::default();
    let mut cost = Cost::NOTHING_YET;
    for _ in 0..ROUNDS {
        let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        for _ in 0..READS {
            let answer = driver.execute_operation(read, &options).await.unwrap();
            assert_eq!(answer.body().len(), ITEM.len());
        }
        cost = cost.after_round(before, started);
    }
    cost
}

/// The most allocations of a point read.
const MOST_ALLOCATIONS: f64 = 8.0;

/// How often two builds run by turns.
const TURNS: usize = 9;

/// Runs a program by turns with this one, and prints what a point read costs in each.
fn compare_with(baseline: &std::ffi::OsStr) {
    let own = std::env::current_exe().unwrap();
    let nanoseconds = |program: &std::ffi::OsStr| {
        let run = std::process::Command::new(program).env_remove(BASELINE).output().unwrap();
        let text = String::from_utf8(run.stdout).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        let unit = words.iter().position(|word| *word == "ns").unwrap();
        words[unit - 1].parse::<f64>().unwrap()
    };
    let mut costs = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (costs, program) in costs.iter_mut().zip([baseline, own.as_os_str()]) {
            costs.push(nanoseconds(program));
        }
    }
    for (mut costs, what) in costs.into_iter().zip(["baseline", "this build"]) {
        costs.sort_by(f64::total_cmp);
        println!(
            "{what}: median {:.0} ns, least {:.0} ns, most {:.0} ns of {TURNS} runs",
            costs[TURNS / 2],
            costs[0],
            costs[TURNS - 1],
        );
    }
}

/// The variable that names another build of this program.
const BASELINE: &str = "BASELINE";

/// Reads per round; the fastest of the rounds counts, for what disturbs one only adds to it.
const READS: u32 = 20_000;
const ROUNDS: u32 = 15;

fn main() {
    if let Some(baseline) = std::env::var_os(BASELINE) {
        return compare_with(&baseline);
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(Arc::new(AtOnce::default()))
            .build()
            .unwrap();
        let key = AccountKey::from_base64("c2lkZXJlYWwtdGVzdC1hY2NvdW50LWtleS1zaWRlcmVhbA==");
        let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
        let credential = Credential::Key(key.unwrap());
        let driver = CosmosDriver::new(runtime, endpoint, credential, Default::default()).unwrap();
        let item = ResourceLink::container("store", "orders").unwrap().item("4711").unwrap();
        let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
            .with_partition_key(PartitionKey::from("contoso"));
        let container = ResourceLink::container("store", "orders").unwrap();
        let known = driver.container(&container).await.unwrap();
        assert_eq!(known.ranges().ranges().len(), 2);
        let uri = "https://contoso-westus.documents.azure.com/dbs/store/colls/orders/docs/4711";
        let client = cost_of_client(&AtOnce::default(), &http::Uri::from_static(uri)).await;
        let whole = cost_of_read(&driver, &read).await;
        println!(
            "a point read: {:.2} allocations, {:.0} ns ({:.2} and {:.0} ns with the client)",
            whole.allocations - client.allocations,
            (whole.seconds - client.seconds) * 1e9,
            whole.allocations,
            whole.seconds * 1e9,
        );
        assert!(whole.allocations - client.allocations <= MOST_ALLOCATIONS);
    });
}
