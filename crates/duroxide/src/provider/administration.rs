//! duroxide's `ProviderAdmin`: each method is one call of a part.

use async_trait::async_trait;
use duroxide::Event;
use duroxide::providers::{
    DeleteInstanceResult, ExecutionInfo, InstanceFilter, InstanceInfo, ProviderAdmin,
    ProviderError, PruneOptions, PruneResult, QueueDepths, SystemMetrics,
};
use serde_json::json;

use super::CosmosDBProvider;
use crate::call::about_instance;
use crate::ids::check_instances;

#[async_trait]
impl ProviderAdmin for CosmosDBProvider {
    async fn list_instances(&self) -> Result<Vec<String>, ProviderError> {
        self.traced("list_instances", async {
            self.parts.admin.list_instances("list_instances", "", &[]).await
        })
        .await
    }

    async fn list_instances_by_status(&self, status: &str) -> Result<Vec<String>, ProviderError> {
        self.traced("list_instances_by_status", async {
            let parameters = [("@status", json!(status))];
            let condition = " AND c.status = @status";
            self.parts
                .admin
                .list_instances("list_instances_by_status", condition, &parameters)
                .await
        })
        .await
    }

    async fn list_executions(&self, instance: &str) -> Result<Vec<u64>, ProviderError> {
        self.traced("list_executions", async {
            about_instance(instance);
            let executions = self.parts.admin.executions("list_executions", instance).await?;
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
            self.parts.reader.read_execution(operation, instance, Some(execution_id)).await
        })
        .await
    }

    async fn read_history(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        self.traced("read_history", async {
            about_instance(instance);
            self.parts.reader.read_execution("read_history", instance, None).await
        })
        .await
    }

    async fn latest_execution_id(&self, instance: &str) -> Result<u64, ProviderError> {
        self.traced("latest_execution_id", async {
            about_instance(instance);
            let there = self.parts.reader.visible_instance("latest_execution_id", instance).await?;
            Ok(there.map_or(1, |there| there.current_execution_id))
        })
        .await
    }

    async fn get_instance_info(&self, instance: &str) -> Result<InstanceInfo, ProviderError> {
        self.traced("get_instance_info", async {
            about_instance(instance);
            self.parts.admin.instance_info(instance).await
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
            self.parts.admin.execution_info(instance, execution_id).await
        })
        .await
    }

    async fn get_system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        self.traced("get_system_metrics", async { self.parts.admin.system_metrics().await }).await
    }

    async fn get_queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        self.traced("get_queue_depths", async { self.parts.admin.queue_depths().await }).await
    }

    async fn list_children(&self, instance_id: &str) -> Result<Vec<String>, ProviderError> {
        self.traced("list_children", async {
            about_instance(instance_id);
            self.parts.admin.children("list_children", &[instance_id]).await
        })
        .await
    }

    async fn get_parent_id(&self, instance_id: &str) -> Result<Option<String>, ProviderError> {
        self.traced("get_parent_id", async {
            about_instance(instance_id);
            self.parts.admin.parent(instance_id).await
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
            self.parts.admin.delete_instances(ids, force).await
        })
        .await
    }

    async fn delete_instance_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        self.traced("delete_instance_bulk", async { self.parts.admin.delete_bulk(filter).await })
            .await
    }

    async fn prune_executions(
        &self,
        instance_id: &str,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.traced("prune_executions", async {
            about_instance(instance_id);
            self.parts.admin.prune(instance_id, &options).await
        })
        .await
    }

    async fn prune_executions_bulk(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        self.traced("prune_executions_bulk", async {
            self.parts.admin.prune_bulk(&filter, &options).await
        })
        .await
    }
}
