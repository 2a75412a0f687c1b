//! Deletes instances in two phases: it marks all of them, then removes their documents, children before parents.
//!
//! A marked instance is visible to deletions only, and accepts no commits. An interrupted deletion is finished by the next
//! deletion of the instance, by a start with the same id, or by any process that finds the mark.

use std::collections::HashSet;
use std::sync::Arc;

use duroxide::providers::{DeleteInstanceResult, InstanceFilter, ProviderError};
use serde_json::json;

use super::Admin;
use super::deletion_plan::{marked, parents_first};
use super::inspection::PRESENT;
use crate::PATIENCE_MS;
use crate::documents::InstanceDocument;
use crate::failure::Cause;
use crate::write::Write;

pub(super) const ATOMIC: &str = "delete_instances_atomic";
const BULK: &str = "delete_instance_bulk";

/// How many instances are deleted at once if nothing is said.
const DEFAULT_LIMIT: usize = 1_000;

/// Children of so many instances are asked for at once.
const PARENTS_AT_ONCE: usize = 200;

/// How often marking an instance is tried against others who change it.
const MARK_ATTEMPTS: usize = 10;

/// A marked instance.
pub(super) struct Marked {
    pub(super) instance: InstanceDocument,
    /// Whether an earlier deletion marked it, which may have removed some of its documents.
    was_marked: bool,
}

impl Admin {
    /// Deletes instances, all or none. For those that an interrupted deletion has marked, it finishes that deletion, with all
    /// their descendants.
    pub(crate) async fn delete_instances(
        self: &Arc<Self>,
        ids: &[String],
        force: bool,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut ids = ids.to_vec();
        let mut instances = self.read_instances(&ids).await?;
        let begun = instances.iter().filter(|it| it.is_deleting);
        let begun: Vec<String> = begun.map(|it| it.instance_id.clone()).collect();
        if !begun.is_empty() {
            let known: HashSet<&str> = ids.iter().map(String::as_str).collect();
            let mut others = self.descendants(ATOMIC, begun).await?;
            others.retain(|id| !known.contains(id.as_str()));
            instances.extend(self.read_instances(&others).await?);
            ids.extend(others);
        }
        instances.retain(|instance| !instance.is_provisional);
        for instance in &instances {
            let checked = marked(instance, force, instance.updated_at);
            checked.map_err(|sentence| ProviderError::permanent(ATOMIC, sentence))?;
        }
        self.check_orphans(&ids).await?;
        let all = self.mark_all(parents_first(instances), force).await?;
        // A child may have been started while its parents were marked.
        if let Err(error) = self.check_orphans(&ids).await {
            self.unmark(all).await;
            return Err(error);
        }
        self.remove_marked(all.into_iter().map(|marked| marked.instance).collect()).await
    }

    /// Reads instances. Missing ones are left out.
    pub(super) async fn read_instances(
        &self,
        ids: &[String],
    ) -> Result<Vec<InstanceDocument>, ProviderError> {
        let mut found = Vec::new();
        for id in ids {
            let there =
                self.store.read_instance(id).await.map_err(|failure| failure.tell(ATOMIC, id))?;
            found.extend(there);
        }
        Ok(found)
    }

    /// Refuses to delete an instance without the instances that it started.
    async fn check_orphans(&self, ids: &[String]) -> Result<(), ProviderError> {
        let deleted: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let parents: Vec<&str> = ids.iter().map(String::as_str).collect();
        for parents in parents.chunks(PARENTS_AT_ONCE) {
            let children = self.children(ATOMIC, parents).await?;
            if let Some(child) = children.iter().find(|child| !deleted.contains(child.as_str())) {
                let sentence = format!(
                    "Cannot delete: child {child} was created after tree traversal. Re-fetch the tree and retry."
                );
                return Err(ProviderError::permanent(ATOMIC, sentence));
            }
        }
        Ok(())
    }

    /// Marks instances in their order, all or none.
    async fn mark_all(
        &self,
        instances: Vec<InstanceDocument>,
        force: bool,
    ) -> Result<Vec<Marked>, ProviderError> {
        let mut all = Vec::new();
        for instance in instances {
            match self.mark(instance, force).await {
                Ok(marked) => all.extend(marked),
                Err(error) => {
                    self.unmark(all).await;
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    /// Marks an instance, which takes the lock from its holder.
    pub(super) async fn mark(
        &self,
        mut instance: InstanceDocument,
        force: bool,
    ) -> Result<Option<Marked>, ProviderError> {
        let id = instance.instance_id.clone();
        let mut sent_at = None;
        for _ in 0..MARK_ATTEMPTS {
            if instance.is_deleting {
                // Its own mark, if only the answer was lost.
                let was_marked = sent_at != Some(instance.updated_at);
                return Ok(Some(Marked { instance, was_marked }));
            }
            let now = self.store.now();
            sent_at = Some(now);
            instance = marked(&instance, force, now)
                .map_err(|sentence| ProviderError::permanent(ATOMIC, sentence))?;
            let write = Write::replace(&instance.id, &instance, instance.etag.clone());
            let failure =
                match self.store.write(&id, &[write], now.saturating_add(PATIENCE_MS)).await {
                    Ok(results) => {
                        instance.etag = results.first().and_then(|it| it.etag().cloned());
                        return Ok(Some(Marked { instance, was_marked: false }));
                    }
                    Err(failure) => failure,
                };
            match failure.cause {
                Cause::PreconditionFailed | Cause::NotFound | Cause::Ambiguous => {}
                _ => return Err(failure.tell(ATOMIC, &id)),
            }
            let there =
                self.store.read_instance(&id).await.map_err(|failure| failure.tell(ATOMIC, &id))?;
            match there {
                Some(there) => instance = there,
                None => return Ok(None),
            }
        }
        Err(ProviderError::retryable(ATOMIC, format!("Instance {id} is changed all the time.")))
    }

    /// Removes the marks of this deletion in the opposite order. Best effort: an instance that stays marked is deleted
    /// later.
    async fn unmark(&self, all: Vec<Marked>) {
        for Marked { mut instance, .. } in all.into_iter().rev().filter(|it| !it.was_marked) {
            instance.is_deleting = false;
            let write = Write::replace(&instance.id, &instance, instance.etag.clone());
            let until = self.store.now().saturating_add(PATIENCE_MS);
            if let Err(failure) = self.store.write(&instance.instance_id, &[write], until).await {
                tracing::error!(
                    instance = instance.instance_id,
                    error = %failure.error(),
                    "an instance stays marked for deletion"
                );
            }
        }
    }

    /// Deletes instances that have ended, with those they started, and those whose deletion was interrupted.
    pub(crate) async fn delete_bulk(
        self: &Arc<Self>,
        filter: InstanceFilter,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut result = DeleteInstanceResult::default();
        let condition = format!(
            "{PRESENT} AND IS_NULL(c.parentInstanceId) \
             AND (IS_DEFINED(c.isDeleting) OR c.status IN ('Completed', 'Failed', 'ContinuedAsNew'))"
        );
        for id in self.filtered(BULK, &condition, &filter).await? {
            let tree = self.descendants(BULK, vec![id]).await?;
            let deleted = self.delete_instances(&tree, true).await?;
            result.instances_deleted += deleted.instances_deleted;
            result.executions_deleted += deleted.executions_deleted;
            result.events_deleted += deleted.events_deleted;
            result.queue_messages_deleted += deleted.queue_messages_deleted;
        }
        Ok(result)
    }

    /// Instances and all their descendants, each once.
    pub(super) async fn descendants(
        &self,
        operation: &str,
        roots: Vec<String>,
    ) -> Result<Vec<String>, ProviderError> {
        let mut known: HashSet<String> = roots.iter().cloned().collect();
        let (mut found, mut begun) = (roots, 0);
        while begun < found.len() {
            let end = found.len().min(begun + PARENTS_AT_ONCE);
            let parents: Vec<&str> = found[begun..end].iter().map(String::as_str).collect();
            let children = self.children(operation, &parents).await?;
            begun = end;
            found.extend(children.into_iter().filter(|child| known.insert(child.clone())));
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
            condition.push_str(" AND (IS_DEFINED(c.isDeleting) OR c.completedAt < @before)");
        }
        let parameters =
            [("@ids", json!(filter.instance_ids)), ("@before", json!(filter.completed_before))];
        let limit = filter.limit.map_or(DEFAULT_LIMIT, |limit| limit as usize);
        self.list_first(operation, limit, &condition, &parameters).await
    }
}
