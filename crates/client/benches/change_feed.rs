//! Following 100,000 changes: how fast, and what it holds in memory.
//!
//!     CARGO_INCREMENTAL=0 cargo bench -p sidereal --bench change_feed
//!
//! Throughput is that of the emulator's feed over sockets and TLS, in the same process: processor time is that of client
//! and emulator together. Memory is that of a scripted server, which makes its pages as they are asked for, so that the
//! items of the account are no part of it: what was held above the beginning at every tenth of the way.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};
use sidereal::change_feed::ChangeFeed;
use sidereal::driver::CosmosDriverRuntime;
use sidereal::driver::transport::{HttpRequest, HttpResponse};
use sidereal::options::CosmosEnvironmentOptions;
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, Emulator};
use sidereal_testing::in_process::scripting::{ScriptedFactory, answer, header, page};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

const PARTITIONS: usize = 5;
const CHANGES: usize = 100_000;
const PAGE: usize = 500;
const TEXT: usize = 400;

/// Counts the bytes that are held, and the most that were.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    // Relaxed: counters that order nothing; the peak may miss what two threads add at once.
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one only counts")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(throughput());
    runtime.block_on(memory());
}

/// The processor time of this process, all threads together.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may have spaces: user and system time are the 12th and 13th of the rest (proc(5)).
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |at: usize| rest.split_whitespace().nth(at).and_then(|it| it.parse::<u64>().ok());
    // A tick is a hundredth of a second on every Linux that is.
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

async fn throughput() {
    let emulator = Emulator::builder().partitions(PARTITIONS as u32).start().await.unwrap();
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap();
    let items = container(&client).await;
    let operations = (0..CHANGES).map(|n| {
        let item =
            json!({"id": n.to_string(), "pk": format!("p{n}"), "n": n, "text": "x".repeat(TEXT)});
        BulkOperation::create_item(format!("p{n}"), &item)
    });
    assert!(items.bulk().execute(operations).await.unwrap().is_success());
    println!("{CHANGES} changes of 0.5 KB over {PARTITIONS} partitions, pages of {PAGE}");
    for (what, feed) in [
        ("ranges side by side", items.change_feed()),
        ("one range after the other", items.change_feed().with_max_parallelism(1)),
    ] {
        let (started, before) = (Instant::now(), processor_time());
        let (requests, charge) = follow(&feed.with_page_size(PAGE as u32), |_| {}).await;
        let (wall, cpu) = (started.elapsed(), processor_time() - before);
        println!(
            "  {what}: {:.0} changes a second, {requests} requests, {charge:.0} RU, {:.1} µs of processor each",
            CHANGES as f64 / wall.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / CHANGES as f64,
        );
    }
    emulator.shutdown().await;
}

async fn memory() {
    let options =
        AccountOptions { partitions: Some(PARTITIONS as u32), ..AccountOptions::default() };
    let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(ScriptedFactory::before(account.factory(), scripted))
        // The account's own time: signatures are checked against it.
        .clock(account.driver_clock())
        .build()
        .unwrap();
    let client = CosmosClient::builder(account.endpoint().as_str(), account.credential());
    let items = container(&client.runtime(runtime).build().unwrap()).await;
    println!("memory while {CHANGES} changes are followed");
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let mut tenths = Vec::new();
    let feed = items.change_feed();
    follow(&feed, |seen| {
        if seen / (CHANGES / 10) > tenths.len() {
            // The peak since the tenth before.
            let peak = PEAK.swap(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
            tenths.push(format!("{:.1}", peak.saturating_sub(before) as f64 / 1e6));
        }
    })
    .await;
    println!("  MB held at most in each tenth: {}", tenths.join(", "));
}

async fn container(client: &CosmosClient) -> ContainerClient {
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    client.database("db").container("items")
}

/// Reads a feed until it has caught up, a page at a time.
async fn follow(feed: &ChangeFeed, mut told: impl FnMut(usize)) -> (usize, f64) {
    let mut pages = feed.pages::<Value>();
    let (mut seen, mut requests, mut charge) = (0, 0, 0.0);
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        seen += page.items().len();
        requests += page.requests();
        charge += page.request_charge();
        told(seen);
    }
    assert_eq!(seen, CHANGES);
    (requests, charge)
}

/// The page of a range after a position.
fn scripted(request: &HttpRequest) -> Option<HttpResponse> {
    header(request, "a-im")?;
    let first: usize =
        header(request, "if-none-match").map_or(0, |text| text.trim_matches('"').parse().unwrap());
    let last = (first + PAGE).min(CHANGES / PARTITIONS);
    let row = |n: usize| json!({"id": n.to_string(), "n": n, "text": "x".repeat(TEXT)});
    let rows: Vec<Value> = (first..last).map(row).collect();
    let mut response = match rows.is_empty() {
        true => answer(StatusCode::NOT_MODIFIED, "", None),
        false => page(&rows, None),
    };
    let etag = HeaderValue::from_str(&format!("\"{last}\"")).unwrap();
    response.headers_mut().insert("etag", etag);
    Some(response)
}
