//! Removes the documents of instances that are marked for deletion.
//!
//! Every batch is conditional on the etag of the marked instance. A process that was paused therefore cannot remove
//! documents of a new instance with the same id, and two processes that remove the same instance do not count a document twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DeleteInstanceResult, ProviderError, WorkItem};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Admin;
use super::deletion::ATOMIC;
use super::deletion_plan::{Found, SweepPlan, Swept, sweep};
use crate::documents::{DELETION_LEASE_MS, InstanceDocument, IntentDocument, TombstoneDocument};
use crate::failure::{Cause, Failure};
use crate::store::Scope;
use crate::write::Write;
use crate::{PATIENCE_MS, ids};

const DOCUMENTS: &str = "SELECT c.id, c.type, c.enqueuedAt FROM c WHERE c.type != 'session'";

const INTENTS: &str = "SELECT * FROM c WHERE c.type = 'outbox_intent'";

/// How many documents are read at once.
// Rows are ids and kinds alone: a page is some tens of kilobytes.
const PAGE: u32 = 500;

/// The pause after a batch that met a newer version: another process is removing the same instance.
const OTHER_SWEEPS: Duration = Duration::from_millis(200);

impl Admin {
    /// Removes marked instances, given parents first, in the opposite order. Before that, it delivers their pending messages
    /// to instances that stay, and cancels pending starts of their children.
    pub(super) async fn remove_marked(
        self: &Arc<Self>,
        mut marked: Vec<InstanceDocument>,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut deleted: HashSet<String> = marked.iter().map(|it| it.instance_id.clone()).collect();
        let mut settled = 0;
        while let Some(instance) = marked.get(settled).cloned() {
            settled += 1;
            let late = self.settle_messages(&instance, &deleted).await;
            let late = late.map_err(|failure| failure.tell(ATOMIC, &instance.instance_id))?;
            let late = self.descendants(ATOMIC, late).await?;
            let late: Vec<String> =
                late.into_iter().filter(|id| deleted.insert(id.clone())).collect();
            for child in self.read_instances(&late).await? {
                marked.extend(self.mark(child, true).await?.map(|child| child.instance));
            }
        }
        let mut result = DeleteInstanceResult::default();
        for instance in marked.into_iter().rev() {
            let id = instance.instance_id.clone();
            let swept = self.sweep(instance).await.map_err(|failure| failure.tell(ATOMIC, &id))?;
            swept.add_to(&mut result);
            result.instances_deleted += 1;
        }
        Ok(result)
    }

    /// Delivers or cancels the pending messages of a marked instance. Returns the ids of children that were started in the
    /// meantime.
    async fn settle_messages(
        self: &Arc<Self>,
        instance: &InstanceDocument,
        deleted: &HashSet<String>,
    ) -> Result<Vec<String>, Failure> {
        let id = &instance.instance_id;
        let intents: Vec<IntentDocument> =
            self.store.documents(Scope::Partition(id), INTENTS, &[]).await?;
        let mut late = Vec::new();
        let is_pending = |it: &IntentDocument| {
            instance.has_committed(it.staged_turn) && it.is_deliverable(self.store.now())
        };
        for intent in intents.into_iter().filter(is_pending) {
            let text = self.store.text_of(id, &intent.id, &intent.payload).await?;
            match serde_json::from_str(&text) {
                Ok(WorkItem::StartOrchestration { parent_instance: Some(parent), .. })
                    if parent == *id =>
                {
                    let child = self.prevent_start(&intent).await?;
                    late.extend(child.map(|it| it.instance_id));
                }
                _ if deleted.contains(&intent.target_instance_id) => {}
                _ => match self.outbox.deliver(&intent, text).await {
                    Err(failure) if failure.can_never_succeed() => {
                        let (id, error) = (&intent.id, failure.error());
                        tracing::error!(id, %error, "a message of a deleted instance is dropped");
                    }
                    delivered => delivered?,
                },
            }
        }
        Ok(late)
    }

    /// Replaces the start of a child by its tombstone, so that a concurrent delivery has no effect. Returns the child, if it
    /// has been started.
    async fn prevent_start(
        &self,
        intent: &IntentDocument,
    ) -> Result<Option<InstanceDocument>, Failure> {
        let target = &intent.target_instance_id;
        let delivered = ids::delivered(&intent.idempotency_key);
        let message: Option<Value> = self.store.read(target, &delivered).await?;
        let tombstone = Write::upsert(&delivered, &TombstoneDocument::of(target, &delivered));
        let until = self.store.now().saturating_add(PATIENCE_MS);
        self.store.write(target, &[tombstone], until).await?;
        let there = self.store.read_instance(target).await?;
        Ok(there.filter(|there| {
            // A dispatcher that has the start has locked it with the instance.
            let has_start = message.as_ref().is_some_and(|message| {
                let token = message["lockToken"].as_str();
                token.is_some() && token == there.lock_token.as_deref()
            });
            match there.is_provisional {
                true => has_start,
                false => there.parent_instance_id.as_deref() == Some(&intent.instance_id),
            }
        }))
    }

    /// Removes the documents of a marked instance, the instance itself last.
    async fn sweep(&self, mut instance: InstanceDocument) -> Result<Swept, Failure> {
        let id = instance.instance_id.clone();
        let mut swept = Swept::default();
        let mut give_up = self.store.now().saturating_add(PATIENCE_MS);
        while let Err(failure) = self.sweep_once(&mut instance, &mut swept).await {
            match failure.cause {
                Cause::PreconditionFailed | Cause::NotFound | Cause::Ambiguous => {}
                Cause::Conflict | Cause::Transient | Cause::Refused => return Err(failure),
            }
            let there = self.store.read_instance(&id).await?;
            let there = there.filter(|there| there.incarnation == instance.incarnation);
            // Otherwise another process has removed the rest.
            let Some(there) = there else { break };
            let now = self.store.now();
            match there.etag == instance.etag {
                true if now >= give_up => return Err(failure),
                true => {}
                false => give_up = now.saturating_add(PATIENCE_MS),
            }
            if !there.is_deleting {
                // The deletion that set the mark has taken it back.
                return Err(failure);
            }
            instance = there;
            tokio::time::sleep(self.store.clock().jittered(OTHER_SWEEPS)).await;
        }
        self.replays.forget(&id);
        // Nor does a dispatcher of this process have it any more: its lock went with it.
        self.dispatch.turn_released(&id, self.store.now());
        Ok(swept)
    }

    async fn sweep_once(
        &self,
        instance: &mut InstanceDocument,
        swept: &mut Swept,
    ) -> Result<(), Failure> {
        let id = instance.instance_id.clone();
        let mut pages =
            self.store.pages::<Value>(Scope::Partition(&id), DOCUMENTS, &[], Some(PAGE));
        while let Some(page) = pages.next().await {
            let rows = page?.into_items().into_iter();
            let found: Vec<Found> = rows.filter_map(|row| self.store.readable(row)).collect();
            let SweepPlan { writes, swept: planned } = sweep(instance, &found);
            self.store.remove_fenced(instance, writes, Some(DELETION_LEASE_MS)).await?;
            swept.add(planned);
        }
        let end = [Write::delete(&instance.id, instance.etag.clone())];
        let until = self.store.now().saturating_add(PATIENCE_MS);
        self.store.write(&id, &end, until).await.map(drop)
    }
}

impl Admin {
    /// Finishes interrupted deletions as they are reported, each in a task of its own.
    pub(crate) async fn finish_deletions(self: Arc<Self>, mut reported: mpsc::Receiver<String>) {
        while let Some(id) = reported.recv().await {
            let admin = Arc::clone(&self);
            self.tasks.spawn_metered(ATOMIC, async move { admin.finish_deletion(id).await });
        }
    }

    async fn finish_deletion(self: &Arc<Self>, id: String) {
        let mut root = id.clone();
        match self.abandoned_root(&id).await {
            Ok(Some(found)) if found == id || self.deletions.move_to_root(&id, &found) => {
                root = found;
                tracing::info!(instance = root, "an interrupted deletion is finished");
                if let Err(error) = self.delete_instances(&[root.clone()], true).await {
                    tracing::debug!(instance = root, %error, "it is finished later");
                }
            }
            // Another task finishes it.
            Ok(Some(_)) => return,
            Ok(None) => {}
            Err(failure) => {
                tracing::debug!(instance = id, error = %failure.error(), "it is finished later");
            }
        }
        self.deletions.end(&root);
        // A start may have waited for it.
        let now = self.store.now();
        self.dispatch.message_enqueued(&id, None, now, now);
    }

    /// The topmost marked ancestor of an instance, or itself, whose deletion has made no progress. None if the deletion is in
    /// progress or has ended.
    async fn abandoned_root(&self, instance: &str) -> Result<Option<String>, Failure> {
        let (mut id, mut seen) = (instance.to_owned(), HashSet::new());
        while seen.insert(id.clone()) {
            let there = self.store.read_instance(&id).await?;
            let Some(there) = there.filter(|it| it.is_abandoned(self.store.now())) else {
                return Ok(None);
            };
            let Some(parent) = there.parent_instance_id else { break };
            match self.store.read_instance(&parent).await? {
                Some(above) if above.is_deleting => id = parent,
                _ => break,
            }
        }
        Ok(Some(id))
    }
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.executions += other.executions;
        self.events += other.events;
        self.messages += other.messages;
    }
}
