//! `sidereal soak-worker`: a process with a provider and duroxide's runtime, until it is killed.
//!
//! A child of `sidereal soak`, which names the account in its environment and keeps its standard input open: when
//! that is closed, the parent is gone.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use sidereal::{CosmosClient, CosmosCredential};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};

use super::ledger::Ledger;
use super::names::{DATABASE, ENDPOINT, KEY, READY};
use super::orchestrations;
use crate::command::block_on;
use crate::failure::{ExitStatus, Failure};
use crate::values::duration;
use crate::{input, output};

/// Dispatchers of turns, and activities that are run at the same time.
const ORCHESTRATIONS: u8 = 2;
const ACTIVITIES: u8 = 4;

/// Between two tries to open the container, while the emulator is down.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  COSMOSDB_ENDPOINT=http://localhost:8081/ COSMOSDB_KEY=… sidereal soak-worker worker-0-0")]
pub(crate) struct SoakWorkerArguments {
    /// Its name in the ledger.
    name: String,
    /// Lock of turns and of activities.
    #[arg(long, value_parser = duration)]
    lock: Option<Duration>,
}

/// Works until standard input is closed.
pub(crate) fn run(arguments: &SoakWorkerArguments) -> Result<(), Failure> {
    log_to_standard_error();
    block_on(async {
        let parent = input::closed();
        tokio::select! {
            ended = work(arguments) => ended,
            () = parent => Ok(()),
        }
    })
}

/// Sends warnings, or the events that `RUST_LOG` selects, to standard error.
fn log_to_standard_error() {
    let filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned());
    // Only fails if there is a subscriber already, and there is none before this.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .try_init();
}

async fn work(arguments: &SoakWorkerArguments) -> Result<(), Failure> {
    let client = connect()?;
    let activities = orchestrations::activities(Ledger::of(&client), &arguments.name);
    let store = Arc::new(open(client).await) as Arc<dyn Provider>;
    let defaults = RuntimeOptions::default();
    let options = RuntimeOptions {
        orchestration_concurrency: usize::from(ORCHESTRATIONS),
        worker_concurrency: usize::from(ACTIVITIES),
        orchestrator_lock_timeout: arguments.lock.unwrap_or(defaults.orchestrator_lock_timeout),
        worker_lock_timeout: arguments.lock.unwrap_or(defaults.worker_lock_timeout),
        ..defaults
    };
    let registry = orchestrations::orchestrations();
    // It works in tasks of its own.
    let _runtime = Runtime::start_with_options(store, activities, registry, options).await;
    output::print(&format!("{READY}\n"))?;
    std::future::pending().await
}

/// Connects to the account that the environment names.
fn connect() -> Result<CosmosClient, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            let sentence = format!("{name} is not set: `sidereal soak` starts this command");
            Failure::new(ExitStatus::Usage, sentence)
        })
    };
    let key = CosmosCredential::key(&variable(KEY)?)
        .map_err(|error| Failure::of(ExitStatus::InvalidInput, &error))?;
    Ok(CosmosClient::new(variable(ENDPOINT)?, key, None)?)
}

/// Opens the container, as soon as the emulator answers.
async fn open(client: CosmosClient) -> CosmosDBProvider {
    let mut config = CosmosDBProviderConfig::with_client(client).with_database(DATABASE);
    config.orch_concurrency = u32::from(ORCHESTRATIONS);
    config.worker_concurrency = u32::from(ACTIVITIES);
    loop {
        match CosmosDBProvider::new(config.clone()).await {
            Ok(provider) => return provider,
            Err(error) => tracing::warn!(%error, "the container is opened again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
