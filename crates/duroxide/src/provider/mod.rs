//! The provider: its parts, put together, and the two traits of duroxide.

mod administration;
mod execution;
mod operator;

use std::sync::Arc;

use duroxide::providers::ProviderError;

use crate::ack::TurnCommitter;
use crate::admin::Admin;
use crate::cache::ReplayCache;
use crate::config::Account;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::enqueue::Enqueuer;
use crate::fetch::{Strays, TurnFetcher};
use crate::held::HeldItems;
use crate::infrastructure::{self, Prepared};
use crate::last_fetch::LastFetches;
use crate::leases::{CosmosDBLeaseProvider, InMemoryLeaseProvider, LeaseProvider, LeaseSettings};
use crate::locks::Processes;
use crate::outbox::{Outbox, ReconcilerSettings};
use crate::poller::{IntervalSettings, Poller, PollerSettings};
use crate::reader::Reader;
use crate::region_watch::AccountWatch;
use crate::sessions::SessionTable;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::turn_locks::TurnLocks;
use crate::workers::ActivityQueue;
use crate::{CosmosDBProviderConfig, Leases, ProviderSetupError};

/// Stores duroxide's orchestrations in a container of Azure Cosmos DB.
///
/// ```no_run
/// use std::sync::Arc;
/// use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Arc::new(CosmosDBProvider::new(CosmosDBProviderConfig::from_env()?).await?);
/// // … hand it to `duroxide::runtime::Runtime`, and at the end:
/// store.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CosmosDBProvider {
    store: Store,
    tasks: Tasks,
    leases: Arc<dyn LeaseProvider>,
    locks: Arc<TurnLocks>,
    turns: Arc<TurnFetcher>,
    committer: Arc<TurnCommitter>,
    activities: Arc<ActivityQueue>,
    sessions: Arc<SessionTable>,
    enqueuer: Enqueuer,
    reader: Arc<Reader>,
    admin: Arc<Admin>,
    /// One within the process lives as long as its providers.
    _account: Account,
}

impl CosmosDBProvider {
    /// Opens the container, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// [`ProviderSetupError`] if the account cannot be reached, or the container belongs to another application.
    pub async fn new(config: CosmosDBProviderConfig) -> Result<Self, ProviderSetupError> {
        let client = config.account.connect().await?;
        let Prepared { mut store, region } = infrastructure::prepare(&client, &config).await?;
        let dispatch = Arc::new(Dispatch::new(config.hints));
        store.telemetry = config.telemetry(&dispatch);
        let (leases, worker_leases) = lease_providers(&config, &store);
        let tasks = Tasks::new(store.telemetry.clone());
        let processes = Arc::new(Processes::default());
        let replays = Arc::new(ReplayCache::new(config.history_cache_bytes));
        let fetches = Arc::new(LastFetches::default());
        let (deletions, reported) = Deletions::new();
        let deletions = Arc::new(deletions);

        let locks =
            Arc::new(TurnLocks::new(store.clone(), Arc::clone(&dispatch), Arc::clone(&replays)));
        let turns = Arc::new(TurnFetcher {
            store: store.clone(),
            dispatch: Arc::clone(&dispatch),
            replays: Arc::clone(&replays),
            processes: Arc::clone(&processes),
            leases: Arc::clone(&leases),
            locks: Arc::clone(&locks),
            deletions: Arc::clone(&deletions),
            tasks: tasks.clone(),
            strays: Strays::default(),
            is_short_poll: config.short_poll,
        });
        let sessions = Arc::new(SessionTable::new(
            store.clone(),
            Arc::clone(&dispatch),
            Arc::clone(&processes),
        ));
        let activities = Arc::new(ActivityQueue {
            store: store.clone(),
            dispatch: Arc::clone(&dispatch),
            replays: Arc::clone(&replays),
            processes: Arc::clone(&processes),
            leases: Arc::clone(&worker_leases),
            turns: Arc::clone(&turns),
            sessions: Arc::clone(&sessions),
            tasks: tasks.clone(),
            items: HeldItems::default(),
            fetches: Arc::clone(&fetches),
            is_short_poll: config.short_poll,
        });
        let outbox = Arc::new(Outbox::new(
            store.clone(),
            Arc::clone(&dispatch),
            Arc::clone(&turns),
            Arc::clone(&deletions),
            tasks.clone(),
        ));
        let committer = Arc::new(TurnCommitter {
            store: store.clone(),
            dispatch: Arc::clone(&dispatch),
            replays: Arc::clone(&replays),
            processes: Arc::clone(&processes),
            locks: Arc::clone(&locks),
            turns: Arc::clone(&turns),
            activities: Arc::clone(&activities),
            outbox: Arc::clone(&outbox),
            tasks: tasks.clone(),
        });
        let reader = Arc::new(Reader::new(store.clone(), Arc::clone(&replays), fetches));
        let admin = Arc::new(Admin {
            store: store.clone(),
            dispatch: Arc::clone(&dispatch),
            replays,
            reader: Arc::clone(&reader),
            outbox: Arc::clone(&outbox),
            deletions: Arc::clone(&deletions),
            tasks: tasks.clone(),
        });
        let poller = Arc::new(Poller {
            store: store.clone(),
            dispatch: Arc::clone(&dispatch),
            leases: Arc::clone(&leases),
            worker_leases,
            processes,
            turns: Arc::clone(&turns),
            locks: Arc::clone(&locks),
            activities: Arc::clone(&activities),
            outbox: Arc::clone(&outbox),
            deletions,
            tasks: tasks.clone(),
        });
        #[cfg(feature = "otel")]
        if let Some(meter) = &config.meter {
            crate::gauges::observe(meter, &store, &outbox);
        }
        poller.learn_processes().await;
        tasks.spawn(Arc::clone(&poller).poll(poller_settings(&config)));
        tasks.spawn(Arc::clone(&activities).extend_long_locks());
        tasks.spawn(poller.keep_lease(config.lease_duration / 3));
        tasks.spawn(outbox.reconcile(reconciler_settings(&config)));
        tasks.spawn(Arc::clone(&admin).finish_deletions(reported));
        let watch = AccountWatch { store: store.clone(), tasks: tasks.clone() };
        tasks.spawn(watch.watch_account(client, region, config.reconciler_scan_interval));
        let enqueuer = Enqueuer { store: store.clone(), dispatch, turns: Arc::clone(&turns) };
        Ok(Self {
            store,
            tasks,
            leases,
            locks,
            turns,
            committer,
            activities,
            sessions,
            enqueuer,
            reader,
            admin,
            _account: config.account,
        })
    }

    async fn traced<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        crate::call::traced(&self.store.telemetry, operation, call).await
    }

    /// Ends the tasks of the provider, and waits for them. Undelivered messages are delivered by the next provider.
    pub async fn shutdown(&self) {
        self.tasks.shut_down().await;
        self.leases.release_process().await;
    }
}

impl Drop for CosmosDBProvider {
    fn drop(&mut self) {
        self.tasks.cancel();
    }
}

fn poller_settings(config: &CosmosDBProviderConfig) -> PollerSettings {
    let interval =
        IntervalSettings { shortest: config.feed_interval_min, longest: config.feed_interval_max };
    PollerSettings { interval, intent_age: config.reconciler_age_threshold }
}

fn reconciler_settings(config: &CosmosDBProviderConfig) -> ReconcilerSettings {
    ReconcilerSettings {
        interval: config.reconciler_interval,
        scan_interval: config.reconciler_scan_interval,
        age: config.reconciler_age_threshold,
    }
}

fn lease_providers(
    config: &CosmosDBProviderConfig,
    store: &Store,
) -> (Arc<dyn LeaseProvider>, Arc<dyn LeaseProvider>) {
    let settings =
        LeaseSettings { duration: config.lease_duration, dispatchers: config.orch_concurrency };
    match &config.leases {
        Leases::InMemory => (
            Arc::new(InMemoryLeaseProvider::new(config.orch_concurrency)),
            Arc::new(InMemoryLeaseProvider::new(config.worker_concurrency)),
        ),
        Leases::CosmosDB => {
            let leases = CosmosDBLeaseProvider::new(store.clone(), settings);
            let workers = leases.for_workers(config.worker_concurrency);
            (Arc::new(leases), Arc::new(workers))
        }
        Leases::Custom { orchestrations, workers } => {
            (Arc::clone(orchestrations), Arc::clone(workers))
        }
    }
}
