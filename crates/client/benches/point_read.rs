//! What a typed point read adds to the driver's: allocations and CPU, without a network and without decoding.
//!
//!     cargo bench -p sidereal --bench point_read
//!
//! Both read the same item of an account that answers at once, in alternating rounds of one run.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sidereal::driver::{CosmosDriverRuntime, CosmosOperation, OperationOptions};
use sidereal::options::CosmosEnvironmentOptions;
use sidereal::prelude::*;
use sidereal_protocol::ResourceLink;
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

/// Reads per round; the fastest of the rounds counts, for what disturbs one only adds to it.
const READS: u32 = 20_000;
const ROUNDS: u32 = 15;

/// What one call costs: allocations, and the seconds of the fastest round.
#[derive(Clone, Copy)]
struct Cost {
    allocations: f64,
    seconds: f64,
}

impl Cost {
    const NOTHING_YET: Self = Self { allocations: 0.0, seconds: f64::INFINITY };

    /// Takes in a round of reads.
    async fn round(&mut self, read: impl AsyncFn()) {
        let (before, started) = (ALLOCATIONS.load(Ordering::Relaxed), Instant::now());
        for _ in 0..READS {
            read().await;
        }
        let seconds = started.elapsed().as_secs_f64() / f64::from(READS);
        let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
        self.allocations = made as f64 / f64::from(READS);
        self.seconds = self.seconds.min(seconds);
    }
}

fn main() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(compare());
}

async fn compare() {
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(Arc::new(AtOnce::default()))
        .build()
        .unwrap();
    let key = CosmosCredential::key("c2lkZXJlYWwtdGVzdC1hY2NvdW50LWtleS1zaWRlcmVhbA==").unwrap();
    let client = CosmosClient::builder("https://contoso.documents.azure.com/", key);
    let client = client.runtime(runtime).build().unwrap();
    let orders = client.database("store").container("orders");
    assert_eq!(orders.read_feed_ranges().await.unwrap().len(), 2);

    let link = ResourceLink::container("store", "orders").unwrap();
    let operation =
        CosmosOperation::read_item(&link, PartitionKey::from("contoso"), "4711").unwrap();
    let options = OperationOptions::default();
    let (mut driver, mut typed) = (Cost::NOTHING_YET, Cost::NOTHING_YET);
    for _ in 0..ROUNDS {
        driver
            .round(async || {
                let response =
                    client.driver().execute_operation(&operation, &options).await.unwrap();
                assert_eq!(response.body().len(), ITEM.len());
            })
            .await;
        typed
            .round(async || {
                let response = orders.read_item(black_box("contoso"), black_box("4711"), None);
                assert_eq!(response.await.unwrap().body().len(), ITEM.len());
            })
            .await;
    }
    println!(
        "a point read: driver {:.2} allocations, {:.0} ns; client {:.2} allocations, {:.0} ns: \
         adds {:.2} and {:.0} ns",
        driver.allocations,
        driver.seconds * 1e9,
        typed.allocations,
        typed.seconds * 1e9,
        typed.allocations - driver.allocations,
        (typed.seconds - driver.seconds) * 1e9,
    );
}
