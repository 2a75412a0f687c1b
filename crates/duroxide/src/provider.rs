//! The two traits of duroxide: each method is one call of the core.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DeleteInstanceResult, DispatcherCapabilityFilter, ExecutionInfo, ExecutionMetadata,
    InstanceFilter, InstanceInfo, OrchestrationItem, Provider, ProviderAdmin, ProviderError,
    PruneOptions, PruneResult, QueueDepths, ScheduledActivityIdentifier, SessionFetchConfig,
    SystemMetrics, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::ack::Outcome;
use crate::cache::ReplayCache;
use crate::call::about_instance;
use crate::config::Account;
use crate::core::Core;
use crate::deletions::Deletions;
use crate::dispatch::{Dispatch, FeederSettings, PaceSettings};
use crate::ids::check_instances;
use crate::infrastructure::Prepared;
use crate::leases::LeaseSettings;
use crate::outbox::{ReconcilerSettings, Undelivered};
use crate::store::Store;
use crate::work_items::addressee;
use crate::{
    CosmosDBLeaseProvider, CosmosDBProviderConfig, InMemoryLeaseProvider, LeaseProvider, Leases,
    ProviderSetupError, infrastructure,
};

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
    pub(crate) core: Arc<Core>,
    /// One within the process lives as long as its providers.
    _account: Account,
}

impl CosmosDBProvider {
    /// Opens the container, which is created if there is none.
    ///
    /// # Errors
    ///
    /// The account cannot be reached, or the container is another application's.
    pub async fn new(config: CosmosDBProviderConfig) -> Result<Self, ProviderSetupError> {
        let client = config.account.connect().await?;
        let Prepared { mut store, region } = infrastructure::prepare(&client, &config).await?;
        let dispatch = Arc::new(Dispatch::new(config.hints));
        store.telemetry = config.telemetry(&dispatch);
        let (leases, worker_leases) = lease_providers(&config, &store);
        let core = Arc::new(Core {
            store,
            turns: Default::default(),
            items: Default::default(),
            fetches: Default::default(),
            reads: Default::default(),
            dispatch,
            leases,
            worker_leases,
            processes: Default::default(),
            replays: ReplayCache::new(config.history_cache_bytes),
            sessions: Default::default(),
            undelivered: Undelivered::default(),
            strays: Default::default(),
            deletions: Deletions::default(),
            is_short_poll: config.short_poll,
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
        });
        #[cfg(feature = "otel")]
        if let Some(meter) = &config.meter {
            crate::gauges::observe(meter, &core);
        }
        core.learn_processes().await;
        let feeder = FeederSettings {
            pace: PaceSettings {
                shortest: config.feed_interval_min,
                longest: config.feed_interval_max,
            },
            intent_age: config.reconciler_age_threshold,
        };
        core.spawn(Arc::clone(&core).feed(feeder));
        core.spawn(Arc::clone(&core).extend_long_locks());
        core.spawn(Arc::clone(&core).keep_lease(config.lease_duration / 3));
        let settings = ReconcilerSettings {
            interval: config.reconciler_interval,
            scan_interval: config.reconciler_scan_interval,
            age: config.reconciler_age_threshold,
        };
        core.spawn(Arc::clone(&core).reconcile(settings));
        let watch = Arc::clone(&core);
        core.spawn(watch.watch_account(client, region, config.reconciler_scan_interval));
        Ok(Self { core, _account: config.account })
    }

    pub(crate) async fn traced<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        crate::call::traced(&self.core.store.telemetry, operation, call).await
    }

    /// Ends the tasks of the provider, and waits for them. What is undelivered is delivered by the next provider.
    pub async fn shutdown(&self) {
        self.core.shutdown.cancel();
        self.core.tasks.close();
        self.core.tasks.wait().await;
        self.core.leases.release_process().await;
    }
}

impl Drop for CosmosDBProvider {
    fn drop(&mut self) {
        self.core.shutdown.cancel();
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

#[async_trait]
impl Provider for CosmosDBProvider {
    fn name(&self) -> &str {
        "sidereal-duroxide"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn fetch_orchestration_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<(OrchestrationItem, String, u32)>, ProviderError> {
        self.traced("fetch_orchestration_item", async {
            self.core.fetch_turn(lock_timeout, poll_timeout, filter).await
        })
        .await
    }

    async fn ack_orchestration_item(
        &self,
        lock_token: &str,
        execution_id: u64,
        history_delta: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        metadata: ExecutionMetadata,
        cancelled_activities: Vec<ScheduledActivityIdentifier>,
    ) -> Result<(), ProviderError> {
        self.traced("ack_orchestration_item", async {
            let targets = orchestrator_items.iter().filter_map(addressee);
            check_instances("ack_orchestration_item", targets)?;
            let outcome = Outcome {
                execution_id,
                history: history_delta,
                worker_items,
                orchestrator_items,
                metadata,
                cancelled: cancelled_activities,
            };
            self.core.ack_turn(lock_token, outcome).await
        })
        .await
    }

    async fn abandon_orchestration_item(
        &self,
        lock_token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.traced("abandon_orchestration_item", async {
            self.core.abandon_turn(lock_token, delay, ignore_attempt).await
        })
        .await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.traced("renew_orchestration_item_lock", async {
            self.core.renew_turn(token, extend_for).await
        })
        .await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.traced("read", async {
            about_instance(instance);
            self.core.read(instance).await
        })
        .await
    }

    async fn read_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.traced("read_with_execution", async {
            about_instance(instance);
            self.core.read_execution("read_with_execution", instance, Some(execution_id)).await
        })
        .await
    }

    async fn append_with_execution(
        &self,
        instance: &str,
        execution_id: u64,
        new_events: Vec<Event>,
    ) -> Result<(), ProviderError> {
        self.traced("append_with_execution", async {
            about_instance(instance);
            self.core.append(instance, execution_id, &new_events).await
        })
        .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.traced("enqueue_for_orchestrator", async {
            self.core.enqueue_message(&item, delay).await
        })
        .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.traced("enqueue_for_worker", async { self.core.enqueue_item(&item).await }).await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.traced("fetch_work_item", async {
            self.core.fetch_item(lock_timeout, poll_timeout, session, tag_filter).await
        })
        .await
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        self.traced("ack_work_item", async { self.core.ack_item(token, completion).await }).await
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.traced("renew_work_item_lock", async { self.core.renew_item(token, extend_for).await })
            .await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.traced("abandon_work_item", async {
            self.core.abandon_item(token, delay, ignore_attempt).await
        })
        .await
    }

    async fn renew_session_lock(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.traced("renew_session_lock", async {
            self.core.renew_sessions(owner_ids, extend_for, idle_timeout).await
        })
        .await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        _idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.traced("cleanup_orphaned_sessions", async { self.core.clean_up_sessions().await })
            .await
    }

    fn as_management_capability(&self) -> Option<&dyn ProviderAdmin> {
        Some(self)
    }

    async fn get_custom_status(
        &self,
        instance: &str,
        last_seen_version: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        self.traced("get_custom_status", async {
            about_instance(instance);
            self.core.custom_status(instance, last_seen_version).await
        })
        .await
    }

    async fn get_kv_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        self.traced("get_kv_value", async {
            about_instance(instance);
            self.core.key_value(instance, key).await
        })
        .await
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        self.traced("get_kv_all_values", async {
            about_instance(instance);
            self.core.key_values("get_kv_all_values", instance).await
        })
        .await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        self.traced("get_instance_stats", async {
            about_instance(instance);
            self.core.stats(instance).await
        })
        .await
    }
}

#[async_trait]
impl ProviderAdmin for CosmosDBProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.traced("list_instances", async {
            self.core.list_instances("list_instances", "", &[]).await
        })
        .await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.traced("list_instances_by_status", async {
            let parameters = [("@status", json!(status))];
            let condition = " AND c.status = @status";
            self.core.list_instances("list_instances_by_status", condition, &parameters).await
        })
        .await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        self.traced("list_executions", async {
            about_instance(instance);
            let executions = self.core.executions("list_executions", instance).await?;
            Ok(executions.into_iter().map(|execution| execution.execution_id).collect())
        })
        .await
    }

    async fn read_history_with_execution_id(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<Vec<Event>, ProviderError> {
        self.traced("read_history_with_execution_id", async {
            about_instance(instance);
            let operation = "read_history_with_execution_id";
            self.core.read_execution(operation, instance, Some(execution_id)).await
        })
        .await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.traced("read_history", async {
            about_instance(instance);
            self.core.read_execution("read_history", instance, None).await
        })
        .await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        self.traced("latest_execution_id", async {
            about_instance(instance);
            let there = self.core.visible_instance("latest_execution_id", instance).await?;
            Ok(there.map_or(1, |there| there.current_execution_id))
        })
        .await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        self.traced("get_instance_info", async {
            about_instance(instance);
            self.core.instance_info(instance).await
        })
        .await
    }

    async fn get_execution_info(
        &self,
        instance: &str,
        execution_id: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        self.traced("get_execution_info", async {
            about_instance(instance);
            self.core.execution_info(instance, execution_id).await
        })
        .await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        self.traced("get_system_metrics", async { self.core.system_metrics().await }).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        self.traced("get_queue_depths", async { self.core.queue_depths().await }).await
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        self.traced("list_children", async {
            about_instance(instance_id);
            self.core.children("list_children", &[instance_id]).await
        })
        .await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        self.traced("get_parent_id", async {
            about_instance(instance_id);
            self.core.parent(instance_id).await
        })
        .await
    }

    async fn delete_instances_atomic(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.traced("delete_instances_atomic", async {
            check_instances("delete_instances_atomic", ids.iter().map(String::as_str))?;
            self.core.delete_instances(ids, force).await
        })
        .await
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.traced("delete_instance_bulk", async { self.core.delete_bulk(filter).await }).await
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.traced("prune_executions", async {
            about_instance(instance_id);
            self.core.prune(instance_id, &options).await
        })
        .await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.traced("prune_executions_bulk", async {
            self.core.prune_bulk(&filter, &options).await
        })
        .await
    }
}
