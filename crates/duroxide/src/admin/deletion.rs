//! Deletion: instances are marked first, all of them, and then removed. What is marked is seen by nobody, and
//! nothing can be committed to it; a deletion that was interrupted goes on where it ended.

use duroxide::providers::{DeleteInstanceResult, InstanceFilter, ProviderError};
use serde_json::json;

use super::deletion_plan::{Found, SweepPlan, Swept, marked, sweep};
use crate::core::Core;
use crate::documents::InstanceDocument;
use crate::failure::{Cause, Failure};
use crate::store::Scope;
use crate::write::Write;

const ATOMIC: &str = "delete_instances_atomic";
const BULK: &str = "delete_instance_bulk";

/// How many instances are deleted at once if nothing is said.
const DEFAULT_LIMIT: usize = 1_000;

/// How often marking an instance is tried against others who change it.
const MARK_ATTEMPTS: usize = 10;

const ALL: &str = "SELECT c.id, c.type, c.enqueuedAt FROM c WHERE c.type != 'session'";

impl Core {
    /// Deletes instances, all or none.
    pub(crate) async fn delete_instances(
        &self,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut instances = Vec::new();
        for id in ids {
            let there = self.read_instance(id).await.map_err(|failure| failure.tell(ATOMIC, id))?;
            let Some(there) = there.filter(|there| !there.is_provisional) else { continue };
            let checked = marked(&there, force, there.updated_at);
            checked.map_err(|sentence| ProviderError::permanent(ATOMIC, sentence))?;
            instances.push(there);
        }
        self.check_orphans(ids).await?;
        let mut all_marked = Vec::new();
        for instance in instances {
            let id = instance.instance_id.clone();
            match self.mark(instance, force).await {
                Ok(there) => all_marked.extend(there),
                Err(error) => {
                    self.unmark(all_marked).await;
                    return Err(error);
                }
            }
            tracing::debug!(instance = id, "marked for deletion");
        }
        // A child may have been started while its parents were marked.
        if let Err(error) = self.check_orphans(ids).await {
            self.unmark(all_marked).await;
            return Err(error);
        }
        let mut result = DeleteInstanceResult::default();
        for instance in &all_marked {
            let swept = self.sweep(instance).await;
            swept
                .map_err(|failure| failure.tell(ATOMIC, &instance.instance_id))?
                .add_to(&mut result);
        }
        result.instances_deleted = ids.len() as u64;
        Ok(result)
    }

    /// Refuses to delete an instance without the instances that it started.
    async fn check_orphans(&self, ids: &[String]) -> Result<(), ProviderError> {
        for id in ids {
            let children = self.children(ATOMIC, id).await?;
            if let Some(child) = children.iter().find(|child| !ids.contains(child)) {
                let sentence = format!(
                    "Cannot delete: instance {id} has child {child} that was created after tree traversal. \
                     Re-fetch the tree and retry."
                );
                return Err(ProviderError::permanent(ATOMIC, sentence));
            }
        }
        Ok(())
    }

    /// Marks an instance, which takes its lock from whoever has it.
    async fn mark(
        &self,
        mut instance: InstanceDocument,
        force: bool,
    ) -> Result<Option<InstanceDocument>, ProviderError> {
        let id = instance.instance_id.clone();
        for _ in 0..MARK_ATTEMPTS {
            if instance.is_deleting {
                return Ok(Some(instance));
            }
            instance = marked(&instance, force, self.store.now())
                .map_err(|sentence| ProviderError::permanent(ATOMIC, sentence))?;
            let write = Write::replace(&instance.id, &instance, instance.etag.clone());
            let failure = match self.store.write_once(&id, &[write]).await {
                Ok(results) => {
                    instance.etag = results.first().and_then(|it| it.etag().cloned());
                    return Ok(Some(instance));
                }
                Err(failure) => failure,
            };
            match failure.cause {
                Cause::PreconditionFailed | Cause::NotFound | Cause::Ambiguous => {}
                _ => return Err(failure.tell(ATOMIC, &id)),
            }
            let there =
                self.read_instance(&id).await.map_err(|failure| failure.tell(ATOMIC, &id))?;
            match there {
                Some(there) => instance = there,
                None => return Ok(None),
            }
        }
        Err(ProviderError::retryable(ATOMIC, format!("Instance {id} is changed all the time.")))
    }

    /// Takes marks back. Best effort: an instance that stays marked is deleted by the next attempt.
    async fn unmark(&self, instances: Vec<InstanceDocument>) {
        for mut instance in instances {
            instance.is_deleting = false;
            let write = Write::replace(&instance.id, &instance, instance.etag.clone());
            if let Err(failure) = self.store.write_once(&instance.instance_id, &[write]).await {
                tracing::error!(
                    instance = instance.instance_id,
                    error = %failure.error(),
                    "an instance stays marked for deletion"
                );
            }
        }
    }

    /// Removes the documents of a marked instance, the instance itself last.
    async fn sweep(&self, instance: &InstanceDocument) -> Result<Swept, Failure> {
        let id = &instance.instance_id;
        let found: Vec<Found> = self.store.documents(Scope::Partition(id), ALL, &[]).await?;
        let SweepPlan { writes, swept } = sweep(instance, &found);
        self.remove_all(id, writes).await?;
        self.remove_all(id, vec![Write::delete(&instance.id, None)]).await?;
        self.replays.forget(id);
        // Nor does a dispatcher of this process have it any more: its lock went with it.
        self.dispatch.turn_released(id, self.store.now());
        Ok(swept)
    }

    /// Deletes instances that have ended, with those they started.
    pub(crate) async fn delete_bulk(
        &self,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut result = DeleteInstanceResult::default();
        let condition = " AND IS_NULL(c.parentInstanceId) AND c.status IN ('Completed', 'Failed', 'ContinuedAsNew')";
        for id in self.filtered(BULK, condition, &filter).await? {
            let tree = self.tree(BULK, &id).await?;
            let deleted = self.delete_instances(&tree, true).await?;
            result.instances_deleted += tree.len() as u64;
            result.executions_deleted += deleted.executions_deleted;
            result.events_deleted += deleted.events_deleted;
            result.queue_messages_deleted += deleted.queue_messages_deleted;
        }
        Ok(result)
    }

    /// An instance and all that descend from it.
    async fn tree(&self, operation: &str, root: &str) -> Result<Vec<String>, ProviderError> {
        let (mut found, mut next) = (Vec::new(), vec![root.to_owned()]);
        while let Some(id) = next.pop() {
            next.extend(self.children(operation, &id).await?);
            found.push(id);
        }
        Ok(found)
    }

    /// Instances that a filter is about.
    pub(crate) async fn filtered(
        &self,
        operation: &str,
        condition: &str,
        filter: &InstanceFilter,
    ) -> Result<Vec<String>, ProviderError> {
        let mut condition = condition.to_owned();
        if filter.instance_ids.is_some() {
            condition.push_str(" AND ARRAY_CONTAINS(@ids, c.instanceId)");
        }
        if filter.completed_before.is_some() {
            condition.push_str(" AND c.completedAt < @before");
        }
        let parameters =
            [("@ids", json!(filter.instance_ids)), ("@before", json!(filter.completed_before))];
        let limit = filter.limit.map_or(DEFAULT_LIMIT, |limit| limit as usize);
        self.list_first(operation, limit, &condition, &parameters).await
    }
}
