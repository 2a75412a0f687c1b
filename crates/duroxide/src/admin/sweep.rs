//! Removes the documents of instances that are marked for deletion.
//!
//! Every batch is conditional on the etag of the marked instance. A process that was paused therefore cannot remove
//! documents of a new instance with the same id, and two processes that remove the same instance do not count a document twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DeleteInstanceResult, ProviderError, WorkItem};
use serde_json::Value;

use super::deletion::ATOMIC;
use super::deletion_plan::{Found, SweepPlan, Swept, sweep};
use crate::ack::replaced;
use crate::core::Core;
use crate::documents::{DELETION_LEASE_MS, InstanceDocument, IntentDocument, TombstoneDocument};
use crate::failure::{Cause, Failure};
use crate::store::Scope;
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

const DOCUMENTS: &str = "SELECT c.id, c.type, c.enqueuedAt FROM c WHERE c.type != 'session'";

const INTENTS: &str = "SELECT * FROM c WHERE c.type = 'outbox_intent'";

/// How many documents are read at once.
const PAGE: u32 = 500;

/// The pause after a batch that met a newer version: another process is removing the same instance.
const OTHER_SWEEPS: Duration = Duration::from_millis(200);

impl Core {
    /// Removes marked instances, given parents first, in the opposite order. Before that, it delivers their pending messages
    /// to instances that stay, and cancels pending starts of their children.
    pub(super) async fn remove_marked(
        self: &Arc<Self>,
        mut marked: Vec<InstanceDocument>,
    ) -> Result<DeleteInstanceResult, ProviderError> {
        let mut settled = 0;
        while let Some(instance) = marked.get(settled).cloned() {
            settled += 1;
            let deleted: HashSet<&str> = marked.iter().map(|it| it.instance_id.as_str()).collect();
            let late = self.settle_messages(&instance, &deleted).await;
            let late = late.map_err(|failure| failure.tell(ATOMIC, &instance.instance_id))?;
            for child in late {
                marked.extend(self.mark(child, true).await?);
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

    /// Delivers or cancels the pending messages of a marked instance. Returns children that were started in the meantime.
    async fn settle_messages(
        self: &Arc<Self>,
        instance: &InstanceDocument,
        deleted: &HashSet<&str>,
    ) -> Result<Vec<InstanceDocument>, Failure> {
        let id = &instance.instance_id;
        let intents: Vec<IntentDocument> =
            self.store.documents(Scope::Partition(id), INTENTS, &[]).await?;
        let mut late = Vec::new();
        for intent in intents.into_iter().filter(|it| instance.has_committed(it.staged_turn)) {
            let text = self.text_of(id, &intent.id, &intent.payload).await?;
            match serde_json::from_str(&text) {
                Ok(WorkItem::StartOrchestration { parent_instance: Some(parent), .. })
                    if parent == *id =>
                {
                    let child = self.prevent_start(&intent).await?;
                    late.extend(child.filter(|it| !deleted.contains(it.instance_id.as_str())));
                }
                _ if deleted.contains(intent.target_instance_id.as_str()) => {}
                _ => match self.deliver(&intent, text).await {
                    Err(failure) if failure.cause == Cause::Refused => {
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
        let there = self.read_instance(target).await?;
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
        while let Err(failure) = self.sweep_once(&mut instance, &mut swept).await {
            match failure.cause {
                Cause::PreconditionFailed | Cause::NotFound | Cause::Ambiguous => {}
                Cause::Conflict | Cause::Transient | Cause::Refused => return Err(failure),
            }
            match self.read_instance(&id).await? {
                Some(there) if there.is_deleting && there.incarnation == instance.incarnation => {
                    instance = there;
                    tokio::time::sleep(self.store.clock().jittered(OTHER_SWEEPS)).await;
                }
                // Another process has removed the rest.
                _ => break,
            }
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
        let query = self.store.query(Scope::Partition(&id), DOCUMENTS, &[]);
        let mut pages = query.with_page_size(PAGE).pages::<Value>();
        while let Some(page) = pages.next().await {
            let rows = self.store.counted_page(page)?.into_items().into_iter();
            let found: Vec<Found> = rows.filter_map(|row| self.store.readable(row)).collect();
            let SweepPlan { writes, swept: planned } = sweep(instance, &found);
            self.remove_fenced(instance, writes, Some(DELETION_LEASE_MS)).await?;
            swept.add(planned);
        }
        let end = [Write::delete(&instance.id, instance.etag.clone())];
        let until = self.store.now().saturating_add(PATIENCE_MS);
        self.store.write(&id, &end, until).await.map(drop)
    }

    /// Removes documents of an instance in as many batches as it takes, each conditional on the version of the instance.
    /// Missing documents are ignored. With a lease in milliseconds, each batch extends the instance's lease.
    pub(crate) async fn remove_fenced(
        &self,
        instance: &mut InstanceDocument,
        writes: Vec<Write>,
        lease: Option<i64>,
    ) -> Result<(), Failure> {
        for mut chunk in write::chunks(writes, replaced(instance).bytes()) {
            while !chunk.is_empty() {
                let now = self.store.now();
                if let Some(lease) = lease {
                    instance.locked_until = Some(now.saturating_add(lease));
                }
                let batch: Vec<Write> =
                    std::iter::once(replaced(instance)).chain(chunk.iter().cloned()).collect();
                let until = now.saturating_add(PATIENCE_MS);
                match self.store.write(&instance.instance_id, &batch, until).await {
                    Ok(results) => {
                        instance.etag = results.first().and_then(|it| it.etag().cloned());
                        break;
                    }
                    Err(failure) => match failure.position {
                        Some(gone @ 1..) if failure.cause == Cause::NotFound => {
                            chunk.remove(gone - 1);
                        }
                        _ => return Err(failure),
                    },
                }
            }
        }
        Ok(())
    }
}

impl Core {
    /// Starts a task that finishes an interrupted deletion, unless one is running.
    pub(crate) fn finish_deletion(self: &Arc<Self>, instance: &str) {
        if !self.deletions.begin(instance) {
            return;
        }
        let (core, id) = (Arc::clone(self), instance.to_owned());
        self.spawn_metered(ATOMIC, async move {
            if let Err(error) = core.finish_abandoned(id.clone()).await {
                tracing::debug!(instance = id, %error, "an interrupted deletion is finished later");
            }
            core.deletions.end(&id);
            // A start may have waited for it.
            core.dispatch.message_enqueued(&id, None, core.store.now(), core.store.now());
        });
    }

    async fn finish_abandoned(self: &Arc<Self>, mut id: String) -> Result<(), ProviderError> {
        // The deletion began with the instance that has started the others.
        let mut seen = HashSet::new();
        while seen.insert(id.clone()) {
            let tell = |failure: Failure| failure.tell(ATOMIC, &id);
            let there = self.read_instance(&id).await.map_err(tell)?;
            let Some(there) = there.filter(|it| it.is_abandoned(self.store.now())) else {
                return Ok(());
            };
            let Some(parent) = there.parent_instance_id else { break };
            let above = self.read_instance(&parent).await.map_err(tell)?;
            match above {
                Some(above) if above.is_deleting => id = parent,
                _ => break,
            }
        }
        tracing::info!(instance = id, "a deletion that was interrupted is finished");
        self.delete_instances(&[id], true).await.map(drop)
    }
}

impl Swept {
    fn add(&mut self, other: Self) {
        self.executions += other.executions;
        self.events += other.events;
        self.messages += other.messages;
    }
}
