//! The provider beside duroxide's own for SQLite, under duroxide's stress harness: orchestrations per second.
//!
//!     cargo run --release --manifest-path peers/duroxide/Cargo.toml [SECONDS]
//!
//! SQLite is in memory, in the process; the account is within the process too, behind HTTP/2 on the loopback. Both have
//! the same dispatchers and workers, and each row is one after the other on the same machine.

use std::sync::Arc;

use async_trait::async_trait;
use duroxide::provider_stress_test::core::{StressTestConfig, StressTestResult};
use duroxide::provider_stress_test::parallel_orchestrations::{
    ProviderStressFactory, run_parallel_orchestrations_test_with_config,
};
use duroxide::providers::Provider;
use duroxide::providers::sqlite::SqliteProvider;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};

/// Orchestrations fan out to so many activities.
const ACTIVITIES: usize = 5;

/// Dispatchers and workers each, and how long an activity takes, in milliseconds.
const ROWS: [(usize, u64); 5] = [(1, 10), (2, 10), (4, 10), (2, 0), (8, 0)];

struct Sqlite;

#[async_trait]
impl ProviderStressFactory for Sqlite {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::new(SqliteProvider::new_in_memory().await.expect("SQLite opens in memory"))
    }
}

struct Embedded {
    dispatchers: usize,
}

#[async_trait]
impl ProviderStressFactory for Embedded {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        let mut config = CosmosDBProviderConfig::embedded();
        let dispatchers = u32::try_from(self.dispatchers).expect("a few dispatchers");
        (config.orch_concurrency, config.worker_concurrency) = (dispatchers, dispatchers);
        Arc::new(CosmosDBProvider::new(config).await.expect("the account starts"))
    }
}

async fn run(
    factory: &dyn ProviderStressFactory,
    dispatchers: usize,
    activity_ms: u64,
    seconds: u64,
) -> StressTestResult {
    let config = StressTestConfig {
        duration_secs: seconds,
        tasks_per_instance: ACTIVITIES,
        activity_delay_ms: activity_ms,
        orch_concurrency: dispatchers,
        worker_concurrency: dispatchers,
        ..StressTestConfig::default()
    };
    let result = run_parallel_orchestrations_test_with_config(factory, config).await;
    result.expect("the harness runs")
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    println!("{:<28} {:>15} {:>15}   success", "orchestrations per second", "SQLite, memory", "sidereal");
    for (dispatchers, activity_ms) in ROWS {
        let sqlite = run(&Sqlite, dispatchers, activity_ms, seconds).await;
        let ours = run(&Embedded { dispatchers }, dispatchers, activity_ms, seconds).await;
        println!(
            "{:<28} {:>15.1} {:>15.1}   {:.1} %, {:.1} %",
            format!("{dispatchers}/{dispatchers}, activities of {activity_ms} ms"),
            sqlite.orch_throughput,
            ours.orch_throughput,
            sqlite.success_rate(),
            ours.success_rate(),
        );
    }
}
