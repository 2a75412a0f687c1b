//! The provider: its parts and tasks, and the two traits of duroxide.

mod administration;
mod execution;
mod operator;
mod parts;

use std::sync::Arc;

use duroxide::providers::ProviderError;

use crate::config::Account;
use crate::context::Context;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::infrastructure::{self, Prepared};
use crate::leases::LeaseProvider;
use crate::outbox::ReconcilerSettings;
use crate::poller::{IntervalSettings, PollerSettings};
use crate::region_watch::AccountWatch;
use crate::{CosmosDBProviderConfig, ProviderSetupError};

use parts::{OpenLeases, Parts};

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
    context: Context,
    parts: Parts,
    leases: Arc<dyn LeaseProvider>,
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
        let leases = OpenLeases::new(&config, &store);
        let context = Context::new(store, dispatch, config.history_cache_bytes);
        let (deletions, reported) = Deletions::new();
        let parts = Parts::new(&context, &leases, deletions, config.short_poll);
        #[cfg(feature = "otel")]
        if let Some(meter) = &config.meter {
            crate::gauges::observe(meter, &context.store, &parts.outbox);
        }
        parts.poller.learn_processes().await;
        let tasks = &context.tasks;
        tasks.spawn(Arc::clone(&parts.poller).poll(poller_settings(&config)));
        tasks.spawn(Arc::clone(&parts.poller).keep_lease(config.lease_duration / 3));
        tasks.spawn(Arc::clone(&parts.activities).extend_long_locks());
        tasks.spawn(Arc::clone(&parts.outbox).reconcile(reconciler_settings(&config)));
        tasks.spawn(Arc::clone(&parts.admin).finish_deletions(reported));
        let watch = AccountWatch { store: context.store.clone(), tasks: tasks.clone() };
        tasks.spawn(watch.watch_account(client, region, config.reconciler_scan_interval));
        let leases = leases.orchestrations;
        Ok(Self { context, parts, leases, _account: config.account })
    }

    async fn traced<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        crate::call::traced(&self.context.store.telemetry, operation, call).await
    }

    /// Ends the tasks of the provider, and waits for them. Undelivered messages are delivered by the next provider.
    pub async fn shutdown(&self) {
        self.context.tasks.shut_down().await;
        self.leases.release_process().await;
    }
}

impl Drop for CosmosDBProvider {
    fn drop(&mut self) {
        self.context.tasks.cancel();
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
