//! Lists and metrics.

use std::collections::HashMap;

use duroxide::providers::{ExecutionInfo, InstanceInfo, ProviderError, QueueDepths, SystemMetrics};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Admin;
use crate::documents::{ExecutionDocument, InstanceDocument, Payload, kinds};
use crate::failure::Failure;
use crate::ids;
use crate::reader::HistorySize;
use crate::store::Scope;

/// The condition of instances that clients see.
pub(super) const VISIBLE: &str =
    "c.type = 'instance' AND c.isProvisional = false AND NOT IS_DEFINED(c.isDeleting)";

/// The condition of instances that clients see or that are being deleted.
pub(super) const PRESENT: &str = "c.type = 'instance' AND c.isProvisional = false";

/// Visible, and not locked by a dispatcher or worker.
const DUE: &str = " AND c.visibleAt <= @now AND (IS_NULL(c.lockedUntil) OR c.lockedUntil <= @now)";

/// How many instances are read at the same time.
const AT_ONCE: usize = 32;

#[derive(Deserialize)]
struct Counted {
    status: Option<String>,
    n: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Staged {
    instance_id: String,
    staged_turn: u64,
    n: u64,
}

impl Admin {
    /// Lists the ids of instances that satisfy a condition, which may be empty.
    pub(crate) async fn list_instances(
        &self,
        operation: &str,
        condition: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Vec<String>, ProviderError> {
        self.list(operation, "", &format!("{VISIBLE}{condition}"), parameters).await
    }

    /// Lists the instance ids of documents that satisfy a condition: the oldest, up to a limit.
    pub(super) async fn list_first(
        &self,
        operation: &str,
        limit: usize,
        condition: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Vec<String>, ProviderError> {
        let parameters = [parameters, &[("@limit", json!(limit))]].concat();
        self.list(operation, "TOP @limit ", condition, &parameters).await
    }

    async fn list(
        &self,
        operation: &str,
        top: &str,
        condition: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Vec<String>, ProviderError> {
        let text =
            format!("SELECT {top}VALUE c.instanceId FROM c WHERE {condition} ORDER BY c.createdAt");
        let found = self.store.values(Scope::Everything, &text, parameters).await;
        found.map_err(|failure| failure.tell(operation, "instances"))
    }

    /// Reads the executions of an instance, in their order.
    pub(crate) async fn executions(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<Vec<ExecutionDocument>, ProviderError> {
        let text = "SELECT * FROM c WHERE c.type = 'execution'";
        let found = self.store.documents(Scope::Partition(instance), text, &[]).await;
        let mut found: Vec<ExecutionDocument> =
            found.map_err(|failure| failure.tell(operation, instance))?;
        found.sort_by_key(|execution| execution.execution_id);
        Ok(found)
    }

    /// Describes an instance.
    pub(crate) async fn instance_info(
        &self,
        instance: &str,
    ) -> Result<InstanceInfo, ProviderError> {
        const OPERATION: &str = "get_instance_info";
        let there = self.expect_instance(OPERATION, instance).await?;
        let owner = ids::execution(instance, there.current_execution_id);
        let output = self.output(OPERATION, instance, &owner, there.output.as_ref()).await?;
        Ok(InstanceInfo {
            instance_id: there.instance_id,
            orchestration_name: there.orchestration_name.unwrap_or_default(),
            orchestration_version: there
                .orchestration_version
                .unwrap_or_else(|| "unknown".to_owned()),
            current_execution_id: there.current_execution_id,
            status: there.status,
            output,
            created_at: there.created_at.unsigned_abs(),
            updated_at: there.updated_at.unsigned_abs(),
            parent_instance_id: there.parent_instance_id,
        })
    }

    async fn output(
        &self,
        operation: &str,
        instance: &str,
        owner: &str,
        output: Option<&Payload>,
    ) -> Result<Option<String>, ProviderError> {
        let Some(output) = output else { return Ok(None) };
        let text = self.store.text_of(instance, owner, output).await;
        text.map(Some).map_err(|failure| failure.tell(operation, instance))
    }

    /// Reads an instance that clients see; an error if it does not exist.
    pub(crate) async fn expect_instance(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<InstanceDocument, ProviderError> {
        let there = self.reader.visible_instance(operation, instance).await?;
        there.ok_or_else(|| not_found(operation, instance))
    }

    /// Describes an execution.
    pub(crate) async fn execution_info(
        &self,
        instance: &str,
        execution: u64,
    ) -> Result<ExecutionInfo, ProviderError> {
        const OPERATION: &str = "get_execution_info";
        let tell = |failure: Failure| failure.tell(OPERATION, instance);
        let id = ids::execution(instance, execution);
        let document: Option<ExecutionDocument> =
            self.store.read(instance, &id).await.map_err(tell)?;
        let Some(document) = document else {
            let sentence = format!("Execution {execution} not found for instance {instance}");
            return Err(ProviderError::permanent(OPERATION, sentence));
        };
        let there = self.store.read_instance(instance).await.map_err(tell)?;
        let size = match there.filter(|there| !there.is_deleting) {
            Some(there) => self.reader.history_size(&there, execution).await.map_err(tell)?,
            None => HistorySize::default(),
        };
        let output = self.output(OPERATION, instance, &id, document.output.as_ref()).await?;
        Ok(ExecutionInfo {
            execution_id: execution,
            status: document.status,
            output,
            started_at: document.started_at.unsigned_abs(),
            completed_at: document.completed_at.map(i64::unsigned_abs),
            event_count: usize::try_from(size.events).unwrap_or(usize::MAX),
        })
    }

    /// Counts instances by status, executions and events.
    pub(crate) async fn system_metrics(&self) -> Result<SystemMetrics, ProviderError> {
        let tell = |failure: Failure| failure.tell("get_system_metrics", "container");
        let by_status =
            format!("SELECT c.status, COUNT(1) AS n FROM c WHERE {VISIBLE} GROUP BY c.status");
        let counted: Vec<Counted> =
            self.store.values(Scope::Everything, &by_status, &[]).await.map_err(tell)?;
        let of = |status: &str| {
            let those = counted.iter().filter(|row| row.status.as_deref() == Some(status));
            those.map(|row| row.n).sum()
        };
        Ok(SystemMetrics {
            total_instances: counted.iter().map(|row| row.n).sum(),
            total_executions: self.count("c.type = 'execution'").await.map_err(tell)?,
            running_instances: of("Running"),
            completed_instances: of("Completed"),
            failed_instances: of("Failed"),
            total_events: self.count_committed(kinds::HISTORY, "").await.map_err(tell)?,
        })
    }

    /// Counts messages and activities that are due: visible, not locked, and of committed turns.
    pub(crate) async fn queue_depths(&self) -> Result<QueueDepths, ProviderError> {
        let tell = |failure: Failure| failure.tell("get_queue_depths", "container");
        let orchestrator = self.count_committed(kinds::MESSAGE, DUE).await.map_err(tell)?;
        let worker = self.count_committed(kinds::WORKER_ITEM, DUE).await.map_err(tell)?;
        let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Ok(QueueDepths {
            orchestrator_queue: size(orchestrator),
            worker_queue: size(worker),
            timer_queue: 0,
        })
    }

    async fn count(&self, condition: &str) -> Result<u64, Failure> {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {condition}");
        let parameters = [("@now", json!(self.store.now()))];
        let counted: Vec<u64> = self.store.values(Scope::Everything, &text, &parameters).await?;
        Ok(counted.first().copied().unwrap_or_default())
    }

    /// Counts documents, without those of turns that were not committed.
    async fn count_committed(&self, kind: &str, condition: &str) -> Result<u64, Failure> {
        let condition = format!("c.type = '{kind}'{condition}");
        let whole = self.count(&format!("{condition} AND NOT IS_DEFINED(c.stagedTurn)")).await?;
        let text = format!(
            "SELECT c.instanceId, c.stagedTurn, COUNT(1) AS n FROM c \
             WHERE {condition} AND IS_DEFINED(c.stagedTurn) GROUP BY c.instanceId, c.stagedTurn"
        );
        let parameters = [("@now", json!(self.store.now()))];
        let staged: Vec<Staged> = self.store.values(Scope::Everything, &text, &parameters).await?;
        let mut by_instance: HashMap<&str, Vec<&Staged>> = HashMap::new();
        for group in &staged {
            by_instance.entry(&group.instance_id).or_default().push(group);
        }
        let count = async |(instance, groups): (&str, Vec<&Staged>)| {
            let Some(there) = self.store.read_instance(instance).await? else { return Ok(0) };
            let committed = groups.iter().filter(|it| there.has_committed(Some(it.staged_turn)));
            Ok::<u64, Failure>(committed.map(|group| group.n).sum())
        };
        let counts = stream::iter(by_instance).map(count).buffer_unordered(AT_ONCE);
        counts.try_fold(whole, async |sum, count| Ok(sum + count)).await
    }

    /// The children of instances, marked ones included.
    pub(crate) async fn children(
        &self,
        operation: &str,
        instances: &[&str],
    ) -> Result<Vec<String>, ProviderError> {
        let condition = format!("{PRESENT} AND ARRAY_CONTAINS(@parents, c.parentInstanceId)");
        self.list(operation, "", &condition, &[("@parents", json!(instances))]).await
    }

    /// The parent of an instance. A marked instance whose parent no longer exists has none, so that its deletion can be
    /// finished.
    pub(crate) async fn parent(&self, instance: &str) -> Result<Option<String>, ProviderError> {
        const OPERATION: &str = "get_parent_id";
        let tell = |failure: Failure| failure.tell(OPERATION, instance);
        let there = self.store.read_instance(instance).await.map_err(tell)?;
        let there = there.filter(|there| !there.is_provisional);
        let there = there.ok_or_else(|| not_found(OPERATION, instance))?;
        let Some(parent) = there.parent_instance_id else { return Ok(None) };
        if there.is_deleting && self.store.read_instance(&parent).await.map_err(tell)?.is_none() {
            return Ok(None);
        }
        Ok(Some(parent))
    }
}

fn not_found(operation: &str, instance: &str) -> ProviderError {
    ProviderError::permanent(operation, format!("Instance {instance} not found"))
}
