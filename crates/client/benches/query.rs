//! Cross-partition queries: how long the first page takes, and what a large result holds in memory.
//!
//!     cargo bench -p sidereal --bench query
//!
//! The first page is that of an ORDER BY over 20 partitions of the emulator, over sockets and TLS, where every
//! request waits 30 ms. Memory is that of 100,000 rows over 20 partitions of a scripted server, which makes its
//! pages as they are asked for: the peak above what was allocated before, server and pages on their way included.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sidereal::driver::CosmosDriverRuntime;
use sidereal::driver::transport::{HttpRequest, HttpResponse};
use sidereal::options::CosmosEnvironmentOptions;
use sidereal::prelude::*;
use sidereal::query::QueryLimits;
use sidereal_emulator::{AccountOptions, Emulator, FaultEffect, FaultRule};
use sidereal_testing::in_process::scripting::{ScriptedFactory, header, page};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

const PARTITIONS: usize = 20;
const DELAY: Duration = Duration::from_millis(30);
/// Rows of a page, as an application shows them.
const PAGE_ROWS: u32 = 20;
const SORTED: &str = "SELECT * FROM c ORDER BY c.n";

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
    runtime.block_on(first_pages());
    runtime.block_on(memory());
}

/// Prints how long the first page takes, with nothing known of the account and with everything.
async fn first_pages() {
    let emulator = Emulator::builder().partitions(PARTITIONS as u32).start().await.unwrap();
    fill(&client_of(&emulator)).await;
    emulator.account().add_fault(FaultRule::new(FaultEffect::DelayBefore { wait: DELAY })).unwrap();
    println!(
        "first page of {PAGE_ROWS} rows of an ORDER BY over {PARTITIONS} partitions, {} ms per request",
        DELAY.as_millis()
    );
    let (mut cold, mut warm, mut one_by_one) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        let client = client_of(&emulator);
        let items = client.database("db").container("items");
        cold.push(first_page(&items).await);
        for _ in 0..10 {
            warm.push(first_page(&items).await);
        }
        one_by_one.push(range_by_range(&items).await);
    }
    report("nothing known (account, container, ranges twice, pages)", cold, "five round trips");
    report("everything known", warm, "one round trip and the merge, 45 ms");
    report("one range after the other, for comparison", one_by_one, "");
}

fn report(what: &str, mut times: Vec<Duration>, bound: &str) {
    times.sort();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let bound = if bound.is_empty() { String::new() } else { format!("; at most {bound}") };
    println!("  {what}: median {median:.1?}, worst of {} {worst:.1?}{bound}", times.len());
}

fn client_of(emulator: &Emulator) -> CosmosClient {
    CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap()
}

async fn fill(client: &CosmosClient) {
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    let items = client.database("db").container("items");
    for n in 0..2_000_u32 {
        let item =
            json!({"id": n.to_string(), "pk": format!("p{n}"), "n": n, "text": "x".repeat(100)});
        items.create_item(format!("p{n}"), &item, None).await.unwrap();
    }
}

async fn first_page(items: &ContainerClient) -> Duration {
    let started = Instant::now();
    let mut pages = items.query(SORTED).with_page_size(PAGE_ROWS).pages::<Value>();
    let page = pages.next().await.unwrap().unwrap();
    assert_eq!((page.items().len(), page.requests()), (PAGE_ROWS as usize, PARTITIONS));
    let took = started.elapsed();
    drop(pages);
    // Pages that were requested ahead are on their way: they are no part of the next measurement.
    tokio::time::sleep(DELAY * 3).await;
    took
}

/// What a client does that asks one range after the other.
async fn range_by_range(items: &ContainerClient) -> Duration {
    let ranges = items.read_feed_ranges().await.unwrap();
    let started = Instant::now();
    for range in ranges {
        let query = items.query(SORTED).with_page_size(PAGE_ROWS).with_feed_range(range);
        query.pages::<Value>().next().await.unwrap().unwrap();
    }
    started.elapsed()
}

const ROWS: usize = 100_000;
const ROWS_PER_PAGE: usize = 100;

/// Prints what a result of 100,000 rows holds at most.
async fn memory() {
    let items = scripted().await;
    println!("memory of {ROWS} rows over {PARTITIONS} partitions, {ROWS_PER_PAGE} rows a page");
    let limits = QueryLimits::default();
    let sorted = "SELECT VALUE c.n FROM c ORDER BY c.n";
    held("ORDER BY", &items.query(sorted), ROWS).await;
    for max_buffered_pages in [20, 0] {
        let limits = QueryLimits { max_buffered_pages, ..limits };
        let what = format!("ORDER BY, max_buffered_pages: {max_buffered_pages}");
        held(&what, &items.query(sorted).with_limits(limits), ROWS).await;
    }
    held("DISTINCT, all values distinct", &items.query("SELECT DISTINCT VALUE c.n FROM c"), ROWS)
        .await;
    let grouped = "SELECT c.n, COUNT(1) AS many FROM c GROUP BY c.n";
    held("GROUP BY, a group for each row", &items.query(grouped), ROWS).await;
    held("no order, for comparison", &items.query("SELECT VALUE c.n FROM c"), ROWS).await;
    let limits = QueryLimits { max_merged_rows: 10_000, ..limits };
    for text in ["SELECT DISTINCT VALUE c.n FROM c", grouped] {
        let query = items.query(text).with_limits(limits);
        let error = held("max_merged_rows: 10,000", &query, 0).await.unwrap();
        println!("    {error}");
    }
}

/// Reads a query to its end, a row at a time; gives its error, if it ends in one.
async fn held(what: &str, query: &Query, expected: usize) -> Option<sidereal::Error> {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let started = Instant::now();
    let (mut rows, mut count, mut error) = (query.items::<Value>(), 0, None);
    while let Some(row) = rows.next().await {
        match row {
            Ok(_) => count += 1,
            Err(failure) => error = Some(failure),
        }
    }
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before) as f64 / 1e6;
    println!("  {what}: {peak:.1} MB, {:.2?}", started.elapsed());
    assert!(expected == 0 || count == expected, "{what}: {count} rows");
    error
}

/// A container whose pages a script makes.
async fn scripted() -> ContainerClient {
    let options =
        AccountOptions { partitions: Some(PARTITIONS as u32), ..AccountOptions::default() };
    let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(ScriptedFactory::before(account.factory(), scripted_page))
        // The account's own time: signatures are checked against it.
        .clock(account.driver_clock())
        .build()
        .unwrap();
    let client = CosmosClient::builder(account.endpoint().as_str(), account.credential());
    let client = client.runtime(runtime).build().unwrap();
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    client.database("db").container("items")
}

/// The page of a range: every twentieth number, as a row of the query that is asked.
fn scripted_page(request: &HttpRequest) -> Option<HttpResponse> {
    let range: usize = header(request, "x-ms-documentdb-partitionkeyrangeid")?.parse().ok()?;
    let first: usize = header(request, "x-ms-continuation").map_or(0, |text| text.parse().unwrap());
    let body = std::str::from_utf8(request.body()).unwrap();
    let row = |at: usize| {
        let n = at * PARTITIONS + range;
        if body.contains("orderByItems") {
            json!({"_rid": "", "orderByItems": [{"item": n}], "payload": n})
        } else if body.contains("groupByItems") {
            json!({"groupByItems": [{"item": n}], "payload": {"n": n, "many": {"item": 1}}})
        } else {
            json!(n)
        }
    };
    let (next, all) = (first + ROWS_PER_PAGE, ROWS / PARTITIONS);
    let rows: Vec<Value> = (first..next.min(all)).map(row).collect();
    let next = (next < all).then(|| next.to_string());
    Some(page(&rows, next.as_deref()))
}
