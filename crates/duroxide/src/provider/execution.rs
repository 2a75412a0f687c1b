//! duroxide's `Provider`: each method is one call of a part.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::providers::{
    DispatcherCapabilityFilter, ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin,
    ProviderError, ScheduledActivityIdentifier, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, SystemStats};

use super::CosmosDBProvider;
use crate::ack::Outcome;
use crate::call::about_instance;
use crate::ids::check_instances;
use crate::work_items::addressee;

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
            self.parts.turns.fetch_turn(lock_timeout, poll_timeout, filter).await
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
            self.parts.committer.ack_turn(lock_token, outcome).await
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
            self.parts.locks.abandon_turn(lock_token, delay, ignore_attempt).await
        })
        .await
    }

    async fn renew_orchestration_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.traced("renew_orchestration_item_lock", async {
            self.parts.locks.renew_turn(token, extend_for).await
        })
        .await
    }

    async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.traced("read", async {
            about_instance(instance);
            self.parts.reader.read(instance).await
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
            self.parts
                .reader
                .read_execution("read_with_execution", instance, Some(execution_id))
                .await
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
            self.parts.reader.append(instance, execution_id, &new_events).await
        })
        .await
    }

    async fn enqueue_for_orchestrator(
        &self,
        item: WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        self.traced("enqueue_for_orchestrator", async {
            self.parts.enqueuer.enqueue_message(&item, delay).await
        })
        .await
    }

    async fn enqueue_for_worker(&self, item: WorkItem) -> Result<(), ProviderError> {
        self.traced("enqueue_for_worker", async { self.parts.enqueuer.enqueue_item(&item).await })
            .await
    }

    async fn fetch_work_item(
        &self,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tag_filter: &TagFilter,
    ) -> Result<Option<(WorkItem, String, u32)>, ProviderError> {
        self.traced("fetch_work_item", async {
            self.parts.activities.fetch_item(lock_timeout, poll_timeout, session, tag_filter).await
        })
        .await
    }

    async fn ack_work_item(
        &self,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        self.traced("ack_work_item", async {
            self.parts.activities.ack_item(token, completion).await
        })
        .await
    }

    async fn renew_work_item_lock(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        self.traced("renew_work_item_lock", async {
            self.parts.activities.renew_item(token, extend_for).await
        })
        .await
    }

    async fn abandon_work_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        self.traced("abandon_work_item", async {
            self.parts.activities.abandon_item(token, delay, ignore_attempt).await
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
            self.parts.sessions.renew_sessions(owner_ids, extend_for, idle_timeout).await
        })
        .await
    }

    async fn cleanup_orphaned_sessions(
        &self,
        _idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        self.traced("cleanup_orphaned_sessions", async {
            self.parts.sessions.clean_up_sessions().await
        })
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
            self.parts.reader.custom_status(instance, last_seen_version).await
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
            self.parts.reader.key_value(instance, key).await
        })
        .await
    }

    async fn get_kv_all_values(
        &self,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        self.traced("get_kv_all_values", async {
            about_instance(instance);
            self.parts.reader.key_values("get_kv_all_values", instance).await
        })
        .await
    }

    async fn get_instance_stats(
        &self,
        instance: &str,
    ) -> Result<Option<SystemStats>, ProviderError> {
        self.traced("get_instance_stats", async {
            about_instance(instance);
            self.parts.reader.stats(instance).await
        })
        .await
    }
}
