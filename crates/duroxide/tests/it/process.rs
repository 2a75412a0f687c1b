//! A process of an application: a provider of its own, and duroxide's runtime on it, on real time.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{OrchestrationStatus, Runtime, RuntimeOptions};
use duroxide::{Client, Event, EventKind, OrchestrationRegistry};
use futures_util::FutureExt;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::Emulator;

use crate::account::Account;

/// Longer than anything here takes, so that only what is stuck meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How long what is running may go on when a process ends: some activities of these tests do not end by themselves.
const GRACE_MS: u64 = 200;

/// How often a state that nobody announces is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A runtime with its provider.
pub(crate) struct Process {
    pub(crate) provider: Arc<CosmosDBProvider>,
    pub(crate) client: Client,
    runtime: Arc<Runtime>,
}

/// How long work of another process waits at most here.
const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(50);

/// Runs a test with a database of its own.
pub(crate) async fn with_account(test: impl AsyncFnOnce(&Account)) {
    let account = Account::open(Emulator::builder(), &[]).await;
    let outcome = AssertUnwindSafe(test(&account)).catch_unwind().await;
    account.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Account {
    /// The configuration of a provider of the test.
    pub(crate) fn config(&self) -> CosmosDBProviderConfig {
        let mut config = CosmosDBProviderConfig::with_client(self.client.clone());
        config.database.clone_from(&self.database);
        config.feed_interval_min = LONGEST_FEED_INTERVAL / 5;
        config.feed_interval_max = LONGEST_FEED_INTERVAL;
        // Nothing rests on a hint.
        config.hints = std::env::var_os("SIDEREAL_DROP_HINTS").is_none();
        config
    }
}

/// Runs a test with one process on an account of its own.
pub(crate) async fn with_process(
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    test: impl AsyncFnOnce(&Process),
) {
    with_process_like(quick(), activities, orchestrations, test).await;
}

/// Starts a process with options of the caller.
pub(crate) async fn with_process_like(
    options: RuntimeOptions,
    activities: ActivityRegistry,
    orchestrations: OrchestrationRegistry,
    test: impl AsyncFnOnce(&Process),
) {
    with_account(async |account| {
        let config = account.config();
        let process = Process::start(config, options, activities, orchestrations).await;
        test(&process).await;
        process.stop().await;
    })
    .await;
}

/// A runtime that does not wait longer than it must.
pub(crate) fn quick() -> RuntimeOptions {
    RuntimeOptions {
        dispatcher_min_poll_interval: Duration::from_millis(10),
        dispatcher_long_poll_timeout: Duration::from_secs(2),
        activity_cancellation_grace_period: Duration::from_millis(100),
        ..RuntimeOptions::default()
    }
}

impl Process {
    pub(crate) async fn start(
        config: CosmosDBProviderConfig,
        options: RuntimeOptions,
        activities: ActivityRegistry,
        orchestrations: OrchestrationRegistry,
    ) -> Self {
        let provider = Arc::new(CosmosDBProvider::new(config).await.unwrap());
        let store = Arc::clone(&provider) as Arc<dyn Provider>;
        let runtime = Runtime::start_with_options(store, activities, orchestrations, options).await;
        let client = Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
        Self { provider, client, runtime }
    }

    /// Ends what is running, and lets go of the account.
    pub(crate) async fn stop(self) {
        self.runtime.shutdown(Some(GRACE_MS)).await;
        self.provider.shutdown().await;
    }

    /// Ends at once, whatever is running: what it has locked stays locked until it expires.
    pub(crate) async fn crash(self) {
        self.runtime.shutdown(Some(0)).await;
        self.provider.shutdown().await;
    }

    /// Starts an orchestration, and waits for its output or its failure.
    pub(crate) async fn run(
        &self,
        instance: &str,
        orchestration: &str,
        input: &str,
    ) -> Result<String, String> {
        self.client.start_orchestration(instance, orchestration, input).await.unwrap();
        self.outcome(instance).await
    }

    /// Waits for the output of an instance, or its failure.
    pub(crate) async fn outcome(&self, instance: &str) -> Result<String, String> {
        match self.client.wait_for_orchestration(instance, PATIENCE).await {
            Ok(OrchestrationStatus::Completed { output, .. }) => Ok(output),
            Ok(OrchestrationStatus::Failed { details, .. }) => Err(details.display_message()),
            other => panic!("{instance}: {other:?}, {:#?}", self.history(instance).await),
        }
    }

    /// Waits until an event of an instance is as the caller says.
    pub(crate) async fn until(&self, instance: &str, is_there: impl Fn(&EventKind) -> bool) {
        let looking = async {
            while !self.history(instance).await.iter().any(|event| is_there(&event.kind)) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        assert!(found.is_ok(), "{instance}: {:?}", self.history(instance).await);
    }

    /// Waits until an instance waits for an event, so that the event is not lost.
    pub(crate) async fn until_waiting(&self, instance: &str, event: &str) {
        let is_waiting = |kind: &EventKind| matches!(kind, EventKind::ExternalSubscribed { name } if name == event);
        self.until(instance, is_waiting).await;
    }

    pub(crate) async fn history(&self, instance: &str) -> Vec<Event> {
        self.provider.read(instance).await.unwrap()
    }
}

/// An orchestration's or activity's text.
pub(crate) fn ok(text: impl Into<String>) -> Result<String, String> {
    Ok(text.into())
}
