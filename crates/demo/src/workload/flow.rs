//! Orchestrations, started at a steady rate on a duroxide runtime, and the events that some of them wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use duroxide::Client;
use duroxide::providers::Provider;
use duroxide::runtime::{Runtime, RuntimeOptions};
use sidereal::ContainerClient;
use sidereal_duroxide::CosmosDBProvider;
use tokio::task::JoinSet;

use super::orchestrations::{self, APPROVALS};
use super::orders::{Order, Shape};
use super::steps;
use super::traffic::every;
use crate::observe::Observer;

/// Dispatchers of each kind. A turn waits for the account, not for a processor: in a slow region many have to wait
/// side by side.
const DISPATCHERS: usize = 24;

/// How long a start or an event is tried on.
const PATIENCE: Duration = Duration::from_secs(30);

/// The wait between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// How long what is running may take to finish when the runtime ends, in milliseconds.
const GRACE_MS: u64 = 1_000;

/// A duroxide runtime on the provider, and the orchestrations that are started on it.
pub(crate) struct Flow {
    runtime: Arc<Runtime>,
    provider: Arc<CosmosDBProvider>,
    client: Client,
    seed: u64,
    started: AtomicU32,
}

impl Flow {
    /// Starts the runtime.
    pub(crate) async fn open(
        provider: Arc<CosmosDBProvider>,
        (effects, receipts): (ContainerClient, ContainerClient),
        observer: &Arc<Observer>,
        seed: u64,
    ) -> Self {
        let options = RuntimeOptions {
            orchestration_concurrency: DISPATCHERS,
            worker_concurrency: DISPATCHERS,
            ..RuntimeOptions::default()
        };
        let store = || Arc::clone(&provider) as Arc<dyn Provider>;
        let activities = steps::registry(effects, receipts, observer);
        let orchestrations = orchestrations::registry();
        let runtime =
            Runtime::start_with_options(store(), activities, orchestrations, options).await;
        let client = Client::new(store());
        Self { runtime, provider, client, seed, started: AtomicU32::new(0) }
    }

    /// How many orders were started: from the first on, without gaps.
    pub(crate) fn started(&self) -> u32 {
        // Relaxed: a number to look at; who counts on it waits for `run` first.
        self.started.load(Ordering::Relaxed)
    }

    /// The seed that its orders follow from.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Starts orders until it is over, and sends their events.
    ///
    /// # Errors
    ///
    /// One could not be started, or sent its event, for longer than any outage of the demo lasts.
    pub(crate) async fn run(
        self: &Arc<Self>,
        per_second: u32,
        until: Instant,
    ) -> Result<(), String> {
        let mut due = every(Duration::from_secs(1) / per_second.max(1));
        let mut under_way = JoinSet::new();
        while Instant::now() < until {
            due.tick().await;
            while let Some(joined) = under_way.try_join_next() {
                joined.map_err(|error| error.to_string())??;
            }
            // Relaxed: only the numbers have to differ; the orders are joined before they are counted.
            let order = Order::nth(self.seed, self.started.fetch_add(1, Ordering::Relaxed));
            let flow = Arc::clone(self);
            under_way.spawn(async move { flow.start(&order).await });
        }
        while let Some(joined) = under_way.join_next().await {
            joined.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    /// Starts an order, and sends its event if it waits for one.
    async fn start(&self, order: &Order) -> Result<(), String> {
        let input = serde_json::to_string(order).expect("texts and numbers are JSON");
        let name = order.shape.name();
        persistently(|| self.client.start_orchestration(&order.id, name, input.clone())).await?;
        if order.shape == Shape::ExternalEvent {
            tokio::time::sleep(order.wait()).await;
            let approval = order.approval();
            persistently(|| self.client.enqueue_event(&order.id, APPROVALS, approval.clone()))
                .await?;
        }
        Ok(())
    }

    /// Ends the runtime and lets go of the account.
    pub(crate) async fn close(&self) {
        Arc::clone(&self.runtime).shutdown(Some(GRACE_MS)).await;
        self.provider.shutdown().await;
    }
}

/// Tries on while an outage lasts. A start that is repeated meets its own instance and changes nothing; of two equal
/// events an order takes one.
async fn persistently<E, F>(mut call: impl FnMut() -> F) -> Result<(), String>
where
    E: std::fmt::Display,
    F: Future<Output = Result<(), E>>,
{
    let began = Instant::now();
    loop {
        match call().await {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > PATIENCE => return Err(error.to_string()),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
