//! Failures and latencies of an application while a region is lost, and while one is slow. Over sockets, three regions.
//!
//!     cargo bench -p sidereal-driver --bench availability
//!
//! A multi-write account of eight partitions under steady load: one driver prefers the region that fails, another
//! one that does not. Failures are counted by the application; where requests went, by the account.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time that it measures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use sidereal_driver::diagnostics::{DiagnosticsContext, ExecutionContext, RequestDiagnostics};
use sidereal_driver::options::{CosmosClientOptions, CosmosEnvironmentOptions};
use sidereal_driver::transport::Credential;
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation, OperationOptions};
use sidereal_emulator::{Emulator, FaultCondition, FaultEffect, FaultRule};
use sidereal_protocol::{OperationType, RegionName, RequestPath, ResourceLink, ResourceType};

use tokio::task::JoinSet;

const REGIONS: [&str; 3] = ["West US", "East US", "UK South"];
const LOST: &str = "UK South";
const PARTITIONS: u32 = 8;
const CUSTOMERS: usize = 64;
/// A steady load, well below what two processors can do: 500 calls a second for each driver.
const BETWEEN_CALLS: Duration = Duration::from_millis(2);
const SLOW_BY: Duration = Duration::from_millis(500);
/// The latency of a healthy region: beside the microseconds of this machine alone, its own noise would be all
/// that a percentile shows.
const DISTANCE: Duration = Duration::from_millis(5);

fn main() {
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        region_lost().await;
        region_slow().await;
    });
}

async fn region_lost() {
    let store = Store::new(true).await;
    let affected = store.driver(LOST);
    let unaffected = store.driver("West US");
    println!("a region is lost, multi-write account, {PARTITIONS} partitions");
    let both = || async {
        tokio::join!(
            load(&affected, Mix::Mixed, Duration::from_secs(3)),
            load(&unaffected, Mix::Mixed, Duration::from_secs(3)),
        )
    };
    both().await;
    let (healthy, first) = both().await;
    let (_, second) = both().await;
    println!("  healthy            {healthy}");
    println!("  elsewhere, A/A     {first}\n                     {second}");
    store.emulator.take_offline(&RegionName::from(LOST)).unwrap();
    let (lost, during) = both().await;
    let (after, later) = both().await;
    println!("  while it is lost   {lost}\n  three seconds on   {after}");
    println!("  elsewhere, lost    {during}\n                     {later}");
    store.emulator.bring_online(&RegionName::from(LOST)).await.unwrap();
    let refused = lost.failed + after.failed;
    println!("  failed operations: {refused} (target 0)");
    store.emulator.shutdown().await;
}

async fn region_slow() {
    let store = Store::new(false).await;
    let driver = store.driver(LOST);
    store.delay(None, DISTANCE);
    println!("a region is slow by {SLOW_BY:?}, single-write account, reads");
    load(&driver, Mix::Reads, Duration::from_secs(3)).await;
    let healthy = load(&driver, Mix::Reads, Duration::from_secs(3)).await;
    println!("  healthy            {healthy}");
    store.emulator.account().clear_faults();
    store.emulator.account().reset_counters();
    store.delay(Some(LOST), SLOW_BY);
    store.delay(None, DISTANCE);
    let (mut reads, mut hedged) = (0, 0);
    // Until hardly any read is slow: every partition has moved, or the region is avoided.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let burst = load(&driver, Mix::Reads, Duration::from_millis(500)).await;
        reads += burst.calls;
        hedged += burst.hedged;
        if burst.p99 < SLOW_BY.as_secs_f64() * 1_000.0 / 10.0 {
            break;
        }
    }
    let in_region = store.requests_in(LOST);
    println!(
        "  until it was left  {reads} reads, {hedged} of them hedged ({:.1} % added load, budget 10 % and \
         a burst of 10), {:.0} requests per partition in the slow region, {:.1} s",
        100.0 * hedged as f64 / reads as f64,
        in_region as f64 / f64::from(PARTITIONS),
        began.elapsed().as_secs_f64(),
    );
    let after = load(&driver, Mix::Reads, Duration::from_secs(5)).await;
    println!("  after it was left  {after}");
    println!("  read p99: {:.2} × healthy (target 2)", after.p99 / healthy.p99);
    store.emulator.shutdown().await;
}

/// An account with items, and the drivers of it.
struct Store {
    emulator: Emulator,
    runtime: Arc<CosmosDriverRuntime>,
}

impl Store {
    async fn new(multi_write: bool) -> Self {
        let emulator = Emulator::builder().regions(REGIONS).partitions(PARTITIONS);
        let emulator = emulator.multi_write(multi_write).start().await.unwrap();
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .build()
            .unwrap();
        let store = Self { emulator, runtime };
        let driver = store.driver("West US");
        create(&driver, ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let database = ResourceLink::database("store").unwrap();
        create(&driver, database, ResourceType::DocumentCollection, orders).await;
        for customer in 0..CUSTOMERS {
            driver.execute_operation(&upsert(customer), &Default::default()).await.unwrap();
        }
        store
    }

    fn driver(&self, preferred: &str) -> Arc<CosmosDriver> {
        let mut options = CosmosClientOptions::default();
        options.regions.preferred_regions = Some(vec![RegionName::from(preferred)]);
        let endpoint = self.emulator.http_endpoint().parse().unwrap();
        let credential = Credential::Key(self.emulator.key().clone());
        let runtime = Arc::clone(&self.runtime);
        Arc::new(CosmosDriver::new(runtime, endpoint, credential, options).unwrap())
    }

    /// Makes items of a region, or of every one, wait before they are served. The first rule that fits counts.
    fn delay(&self, region: Option<&str>, wait: Duration) {
        let condition = FaultCondition {
            region: region.map(RegionName::from),
            resource: Some(ResourceType::Document),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, ..FaultRule::new(FaultEffect::DelayBefore { wait }) };
        self.emulator.account().add_fault(rule).unwrap();
    }

    fn requests_in(&self, region: &str) -> u64 {
        let region = RegionName::from(region);
        let rows = self.emulator.account().counters();
        let items = rows
            .iter()
            .filter(|row| row.region == region && row.resource == Some(ResourceType::Document));
        items.map(|row| row.requests).sum()
    }
}

async fn create(driver: &CosmosDriver, parent: ResourceLink, kind: ResourceType, body: &str) {
    let path = RequestPath::feed(parent, kind).unwrap();
    let operation = CosmosOperation::new(OperationType::Create, path)
        .with_body(Bytes::copy_from_slice(body.as_bytes()));
    driver.execute_operation(&operation, &Default::default()).await.unwrap();
}

fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn item(customer: usize) -> Bytes {
    Bytes::from(format!(r#"{{"id":"1","customer":"customer {customer}"}}"#))
}

fn key(customer: usize) -> sidereal_protocol::PartitionKey {
    format!("customer {customer}").as_str().into()
}

fn upsert(customer: usize) -> CosmosOperation {
    CosmosOperation::upsert_item(&orders(), key(customer), item(customer)).unwrap()
}

/// Which operations are executed.
#[derive(Clone, Copy)]
enum Mix {
    Reads,
    /// Reads, unconditional upserts and replaces, in turn.
    Mixed,
}

fn operation(mix: Mix, number: usize) -> CosmosOperation {
    let customer = number * 7 % CUSTOMERS;
    match (mix, number % 3) {
        (Mix::Reads, _) | (Mix::Mixed, 0) => {
            CosmosOperation::read_item(&orders(), key(customer), "1").unwrap()
        }
        (Mix::Mixed, 1) => upsert(customer),
        (Mix::Mixed, _) => {
            CosmosOperation::replace_item(&orders(), key(customer), "1", item(customer)).unwrap()
        }
    }
}

/// The results of a load.
struct Outcome {
    calls: u64,
    failed: u64,
    hedged: u64,
    p50: f64,
    p99: f64,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} calls, {} failed, {} hedged, p50 {:.2} ms, p99 {:.2} ms",
            self.calls, self.failed, self.hedged, self.p50, self.p99
        )
    }
}

/// A steady load for a while: a call every so often, whatever becomes of those before.
async fn load(driver: &Arc<CosmosDriver>, mix: Mix, lasts: Duration) -> Outcome {
    let failed = Arc::new(AtomicU64::new(0));
    let mut calls = JoinSet::new();
    let mut due = tokio::time::interval(BETWEEN_CALLS);
    let began = Instant::now();
    let mut number = 0;
    while began.elapsed() < lasts {
        due.tick().await;
        let (driver, failed) = (Arc::clone(driver), Arc::clone(&failed));
        let operation = operation(mix, number);
        number += 1;
        calls.spawn(async move {
            let started = Instant::now();
            let outcome = driver.execute_operation(&operation, &OperationOptions::default()).await;
            let took = started.elapsed().as_secs_f64() * 1_000.0;
            match outcome {
                Ok(response) => (took, hedges(response.diagnostics())),
                Err(error) => {
                    if failed.fetch_add(1, Ordering::Relaxed) == 0 {
                        println!("  the first failure: {error:?}");
                    }
                    (took, 0)
                }
            }
        });
    }
    let (mut took, mut hedged) = (Vec::new(), 0);
    while let Some(call) = calls.join_next().await {
        let (time, hedges) = call.unwrap();
        took.push(time);
        hedged += hedges;
    }
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let failed = failed.load(Ordering::Relaxed);
    Outcome { calls: took.len() as u64, failed, hedged, p50: at(0.5), p99: at(0.99) }
}

fn hedges(diagnostics: &DiagnosticsContext) -> u64 {
    let is_hedge = |it: &&RequestDiagnostics| it.execution_context == ExecutionContext::Hedging;
    diagnostics.attempts().iter().filter(is_hedge).count() as u64
}
