//! The validation suite of duroxide's own runtime, on an account of three regions with session consistency.
//!
//! The functions that start a clock of their own run alone: see `TIMED`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../it/account.rs"]
mod account;
mod functions;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_validation::{ProviderFactory, long_polling, race_replay};
use duroxide::providers::Provider;
use futures_util::FutureExt;
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::{Emulator, Latitude};
use tokio::sync::RwLock;

use account::Account;

/// Functions that assert how long something takes have the machine to themselves.
static TIMED: RwLock<()> = RwLock::const_new(());

/// Latitudes after which a request is sent again later: off where the time that something takes is asserted.
const DELAYING: &[Latitude] =
    &[Latitude::StaleReplicas, Latitude::ConflictingWrites, Latitude::PassingSplits];

/// Runs the functions of a module beside each other, each on a store of its own: they wait more than they work.
macro_rules! validations {
    ($module:ident: $($name:ident),+ $(,)?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $module() {
            let mut running = crate::Running::default();
            $(
                running.add(stringify!($name), async {
                    let store = crate::Store::open().await;
                    let function = duroxide::provider_validation::$module::$name(&store);
                    crate::end(function, &store).await;
                });
            )+
            running.end().await;
        }
    };
}
use validations;

/// Functions that run beside each other.
#[derive(Default)]
struct Running(Vec<(&'static str, tokio::task::JoinHandle<()>)>);

impl Running {
    /// Starts a function, unless one that is timed runs.
    fn add(&mut self, name: &'static str, function: impl Future<Output = ()> + Send + 'static) {
        let function = async move {
            let _together = TIMED.read().await;
            function.await;
        };
        self.0.push((name, tokio::spawn(function)));
    }

    /// Waits for all of them, and names those that failed.
    async fn end(self) {
        let mut failed = Vec::new();
        for (name, function) in self.0 {
            if function.await.is_err() {
                failed.push(name);
            }
        }
        assert!(failed.is_empty(), "these failed: {failed:?}");
    }
}

/// An account, and containers of it for the providers of one test.
struct Store {
    account: Account,
    containers: Mutex<Vec<String>>,
    is_short_poll: bool,
}

impl Store {
    async fn open() -> Self {
        Self::open_without(&[]).await
    }

    /// One whose answers may be odd, and are not delayed.
    async fn open_prompt() -> Self {
        Self::open_without(DELAYING).await
    }

    async fn open_without(left_out: &[Latitude]) -> Self {
        let emulator = Emulator::builder()
            .regions(["West US", "East US", "UK South"])
            .replication_delay(Duration::from_millis(20))
            .partitions(2);
        let account = Account::open(emulator, left_out).await;
        Self { account, containers: Mutex::default(), is_short_poll: false }
    }

    fn last_container(&self) -> ContainerClient {
        let containers = self.containers.lock().unwrap();
        self.account.client.database(&self.account.database).container(containers.last().unwrap())
    }
}

/// Runs a function to its end, removes what it has left, and fails if it did.
async fn end(function: impl Future<Output = ()>, store: &Store) {
    let outcome = AssertUnwindSafe(function).catch_unwind().await;
    store.account.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

#[async_trait]
impl ProviderFactory for Store {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        static CREATED: AtomicU32 = AtomicU32::new(0);
        let container = format!("test-{}", CREATED.fetch_add(1, Ordering::Relaxed));
        self.containers.lock().unwrap().push(container.clone());
        let mut config = CosmosDBProviderConfig::with_client(self.account.client.clone());
        config.database.clone_from(&self.account.database);
        config.container = container;
        config.short_poll = self.is_short_poll;
        // Nothing rests on a hint: the suite passes without them, only later.
        config.hints = std::env::var_os("SIDEREAL_DROP_HINTS").is_none();
        Arc::new(CosmosDBProvider::new(config).await.unwrap())
    }

    fn lock_timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    async fn corrupt_instance_history(&self, instance: &str) {
        let container = self.last_container();
        let history = container
            .query("SELECT * FROM c WHERE c.type = 'history'")
            .with_partition_key(instance)
            .items::<Value>()
            .collect()
            .await
            .unwrap();
        for mut event in history {
            event["eventData"] = "no event".into();
            container.upsert_item(instance, &event, None).await.unwrap();
        }
        // As whatever changes a history does: nobody goes by what they remember of it.
        let patch = Patch::new().increment("/revision", 1);
        let id = format!("{instance}:instance");
        match container.patch_item(instance, &id, patch, None).await {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }

    async fn get_max_attempt_count(&self, instance: &str) -> u32 {
        let attempts: Vec<u32> = self
            .last_container()
            .query("SELECT VALUE c.attemptCount FROM c WHERE c.type = 'orch_queue'")
            .with_partition_key(instance)
            .items()
            .collect()
            .await
            .unwrap();
        attempts.into_iter().max().unwrap_or_default()
    }
}

/// A provider of its own, alone on the machine.
macro_rules! timed {
    ($($name:ident($is_short:literal $(, $more:expr)?);)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let _alone = TIMED.write().await;
                let store = Store { is_short_poll: $is_short, ..Store::open_prompt().await };
                let provider = store.create_provider().await;
                let function = long_polling::$name(&*provider $(, $more)?);
                end(function, &store).await;
            }
        )+
    };
}

timed! {
    test_short_poll_returns_immediately(true, Duration::from_millis(500));
    test_short_poll_work_item_returns_immediately(true, Duration::from_millis(500));
    test_long_poll_waits_for_timeout(false);
    test_long_poll_work_item_waits_for_timeout(false);
    test_fetch_respects_timeout_upper_bound(false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_continue_as_new_transition_delivery() {
    let _together = TIMED.read().await;
    for stamp in ["0.1.30", "0.1.31"] {
        let store = Store::open().await;
        let function = race_replay::test_continue_as_new_transition_delivery(&store, stamp);
        end(function, &store).await;
    }
}

/// It takes an instance that is not given out for one that is hidden: a dispatcher that has it locked and waits for an answer
/// is not to be met.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_continue_as_new_unregistered_backoff() {
    let _alone = TIMED.write().await;
    let store = Store::open_prompt().await;
    let function = race_replay::test_continue_as_new_unregistered_backoff(&store);
    end(function, &store).await;
}

/// Every function that the suite has is wired here.
#[test]
fn all_functions_of_the_suite_are_wired() {
    let wired = include_str!("functions.rs").lines().filter(|line| line.ends_with(',')).count();
    let by_hand = 5 + 2;
    assert_eq!(wired + by_hand, 233);
}
