//! Orchestrations per second, and how long one takes, on an account within the process.
//!
//!     cargo bench -p sidereal-duroxide --bench throughput [-- SECONDS]
//!
//! The stress harness of duroxide drives its own runtime: orchestrations that fan out to five activities, twenty at a
//! time. The last column is the most that is possible: what a worker must wait for, if nothing else took time. A second
//! table has the same with 10 ms added to every request, as a region's round trip does. The account has threads of its own:
//! its timers must not wait for the application's tasks. Each has as many as there are dispatchers, two at most.
//!
//! With `COSMOSDB_ENDPOINT` and `COSMOSDB_KEY` the harness runs against that account instead, in a database for each row,
//! which is removed afterwards.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

mod observed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duroxide::provider_stress_test::core::{StressTestConfig, StressTestResult};
use duroxide::provider_stress_test::large_payload::{
    LargePayloadConfig, run_large_payload_test_with_config,
};
use duroxide::provider_stress_test::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use sidereal::{CosmosClient, CosmosCredential};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::{Emulator, FaultEffect, FaultRule};
use tokio::runtime::{self, Runtime};

use crate::observed::Observed;

/// How long a sleep of 10 ms takes, by tokio's resolution of one millisecond.
const SLEEP_OF_10_MS: f64 = 11.0;
const ACTIVITIES: usize = 5;

/// An account within the process, whose requests may take a while longer, or one that the environment names.
struct Embedded {
    delay: Duration,
    dispatchers: u32,
    emulator: Option<(Runtime, Emulator)>,
    client: CosmosClient,
    database: String,
}

impl Embedded {
    async fn start(delay: Duration, dispatchers: u32) -> Self {
        let database = format!("stress-{}", uuid::Uuid::new_v4().simple());
        if let Some(client) = given_account() {
            return Self { delay, dispatchers, emulator: None, client, database };
        }
        let threads = threads(dispatchers);
        let starting = threads.spawn(async { Emulator::builder().start().await.unwrap() });
        let emulator = starting.await.unwrap();
        if !delay.is_zero() {
            let rule = FaultRule::new(FaultEffect::DelayBefore { wait: delay });
            emulator.account().add_fault(rule).unwrap();
        }
        let key = emulator.key().clone();
        let client = CosmosClient::new(emulator.http_endpoint(), key, None).unwrap();
        Self { delay, dispatchers, emulator: Some((threads, emulator)), client, database }
    }

    /// Removes what the harness has stored.
    async fn end(self) {
        match self.emulator {
            Some((threads, emulator)) => {
                drop(emulator);
                threads.shutdown_background();
            }
            None => drop(self.client.database(&self.database).delete(None).await.unwrap()),
        }
    }

    async fn provider(&self) -> Arc<CosmosDBProvider> {
        let config = CosmosDBProviderConfig::with_client(self.client.clone());
        let mut config = config.with_database(&self.database);
        (config.orch_concurrency, config.worker_concurrency) = (self.dispatchers, self.dispatchers);
        Arc::new(CosmosDBProvider::new(config).await.unwrap())
    }

    /// The most orchestrations per second: of each of the five activities a worker awaits the activity itself and its end.
    /// The next one is claimed meanwhile, and the history that the runtime reads is known from the claim.
    fn ceiling(&self, activity_ms: u64) -> f64 {
        const REQUESTS: f64 = 1.0;
        let request = if self.delay.is_zero() { 0.0 } else { SLEEP_OF_10_MS };
        let activity = if activity_ms == 0 { 0.0 } else { SLEEP_OF_10_MS };
        let per_activity = activity + REQUESTS * request;
        f64::from(self.dispatchers) * 1_000.0 / (ACTIVITIES as f64 * per_activity)
    }
}

/// Threads for the application, or for the account.
fn threads(dispatchers: u32) -> Runtime {
    let threads = usize::try_from(dispatchers.min(2)).unwrap();
    let runtime = runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.unwrap()
}

/// The account that the environment names.
fn given_account() -> Option<CosmosClient> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let (endpoint, key) = (variable("COSMOSDB_ENDPOINT")?, variable("COSMOSDB_KEY")?);
    Some(CosmosClient::new(&endpoint, CosmosCredential::key(&key).unwrap(), None).unwrap())
}

#[async_trait]
impl ProviderStressFactory for Embedded {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        self.provider().await
    }
}

fn print(name: &str, result: &StressTestResult, ceiling: f64, target: Option<f64>) {
    let ceiling = if ceiling.is_finite() { format!("{ceiling:.1}") } else { "-".to_owned() };
    let target = target.map_or("-".to_owned(), |target| format!("{target}"));
    println!(
        "{name:<34} {:>9} {:>6} {:>9.2} {:>9.1} {target:>7} {ceiling:>8}",
        result.completed,
        result.failed,
        result.success_rate(),
        result.orch_throughput,
    );
}

fn print_head() {
    println!(
        "{:<34} {:>9} {:>6} {:>9} {:>9} {:>7} {:>8}",
        "", "completed", "failed", "success %", "orch/s", "target", "ceiling"
    );
}

fn throughput(delay: Duration, seconds: u64) {
    print_head();
    let rows: [(u32, u64, f64); 5] =
        [(1, 10, 16.5), (2, 10, 32.0), (4, 10, 60.0), (2, 0, 90.0), (8, 0, 120.0)];
    for (dispatchers, activity_ms, target) in rows {
        threads(dispatchers).block_on(async {
            let embedded = Embedded::start(delay, dispatchers).await;
            let result = fan_out(&embedded, activity_ms, seconds).await;
            let name = format!("{dispatchers}/{dispatchers}, activities of {activity_ms} ms");
            let ceiling = embedded.ceiling(activity_ms);
            let of_ceiling = (0.7 * ceiling * 10.0).round() / 10.0;
            let target = if delay.is_zero() { target } else { of_ceiling };
            print(&name, &result, ceiling, Some(target));
            embedded.end().await;
        });
    }
}

async fn fan_out(embedded: &Embedded, activity_ms: u64, seconds: u64) -> StressTestResult {
    let dispatchers = usize::try_from(embedded.dispatchers).unwrap();
    let config = StressTestConfig {
        duration_secs: seconds,
        tasks_per_instance: ACTIVITIES,
        activity_delay_ms: activity_ms,
        orch_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..StressTestConfig::default()
    };
    run_parallel_orchestrations_test_with_config(embedded, config).await.unwrap()
}

async fn large_payloads(seconds: u64) {
    let embedded = Embedded::start(Duration::ZERO, 1).await;
    let mut config = LargePayloadConfig::default();
    config.base.duration_secs = seconds;
    let result = run_large_payload_test_with_config(&embedded, config).await.unwrap();
    print("1/1, large payloads", &result, f64::INFINITY, None);
    embedded.end().await;
}

/// From the start call to the commit of the last turn of an orchestration with one activity.
async fn latency(delay: Duration) {
    const RUNS: usize = 300;
    let embedded = Embedded::start(delay, 2).await;
    let provider = embedded.provider().await;
    let (observed, mut completed) = Observed::new(Arc::clone(&provider));
    let activities = ActivityRegistry::builder()
        .register("Echo", async |_: ActivityContext, input: String| Ok(input))
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("One", async |context: OrchestrationContext, input: String| {
            context.schedule_activity("Echo", input).await
        })
        .build();
    let store = Arc::new(observed) as Arc<dyn Provider>;
    let options = RuntimeOptions::default();
    let runtime = duroxide::runtime::Runtime::start_with_options(
        Arc::clone(&store),
        activities,
        orchestrations,
        options,
    )
    .await;
    let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
    let mut taken = Vec::new();
    for run in 0..RUNS {
        let (id, began) = (format!("latency-{run}"), Instant::now());
        client.start_orchestration(&id, "One", "").await.unwrap();
        while completed.recv().await.unwrap() != id {}
        taken.push(began.elapsed());
    }
    taken.sort_unstable();
    let millis = |at: usize| taken[at].as_secs_f64() * 1_000.0;
    println!(
        "start to the commit of the last turn, one activity, {} ms per request more: p50 {:.2} ms, p99 {:.2} ms",
        delay.as_millis(),
        millis(RUNS / 2),
        millis(RUNS * 99 / 100)
    );
    runtime.shutdown(Some(1_000)).await;
    provider.shutdown().await;
    embedded.end().await;
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(20);
    let is_given = given_account().is_some();
    println!("{}", if is_given { "the given account" } else { "an account within the process" });
    throughput(Duration::ZERO, seconds);
    threads(1).block_on(large_payloads(seconds));
    if is_given {
        return threads(2).block_on(latency(Duration::ZERO));
    }
    println!("\n10 ms more for every request; the target is 70 % of the ceiling");
    throughput(Duration::from_millis(10), seconds);
    println!();
    threads(2).block_on(latency(Duration::ZERO));
    threads(2).block_on(latency(Duration::from_millis(10)));
}
