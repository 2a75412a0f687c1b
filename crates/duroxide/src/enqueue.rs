//! Enqueueing from outside a turn: by clients and by the runtime.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, WorkItem};
use serde_json::Value;

use crate::clock::millis;
use crate::context::Context;
use crate::dispatch::{Dispatch, ItemHint};
use crate::documents::{PartDocument, Payload, WorkerDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::fetch::TurnFetcher;
use crate::store::Store;
use crate::work_items::{Enqueued, addressee, encode, is_start, message, worker_item};
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

const FOR_ORCHESTRATOR: &str = "enqueue_for_orchestrator";
const FOR_WORKER: &str = "enqueue_for_worker";

/// Enqueues messages and activities from outside a turn.
#[derive(Debug)]
pub(crate) struct Enqueuer {
    store: Store,
    dispatch: Arc<Dispatch>,
    turns: Arc<TurnFetcher>,
}

impl Enqueuer {
    pub(crate) fn new(context: &Context, turns: Arc<TurnFetcher>) -> Self {
        let Context { store, dispatch, .. } = context.clone();
        Self { store, dispatch, turns }
    }
}

impl Enqueuer {
    /// Enqueues a message to an instance. The instance need not be there.
    pub(crate) async fn enqueue_message(
        &self,
        item: &WorkItem,
        delay: Option<Duration>,
    ) -> Result<(), ProviderError> {
        let Some(instance) = addressee(item) else {
            return Err(ProviderError::permanent(
                FOR_ORCHESTRATOR,
                "an activity is no message to an instance",
            ));
        };
        ids::check_instances(FOR_ORCHESTRATOR, [instance])?;
        let id = format!("direct:{}", self.store.clock().new_id());
        let text = encode(FOR_ORCHESTRATOR, item)?;
        let enqueued = Enqueued { is_start: is_start(item), ..self.enqueued(delay) };
        let (mut message, parts) = message(id, instance, text, enqueued);
        let tell = |failure: Failure| failure.tell(FOR_ORCHESTRATOR, instance);
        if self.turns.create_locked(&message, item).await.map_err(tell)? {
            return Ok(());
        }
        let create = Write::create(&message.id, &message);
        let until = self.store.now().saturating_add(PATIENCE_MS);
        message.etag =
            self.store.create_with_parts(instance, create, &parts, until).await.map_err(tell)?;
        self.turns.message_is_there(message, Some(item.clone()));
        Ok(())
    }

    /// Enqueues an activity.
    pub(crate) async fn enqueue_item(&self, item: &WorkItem) -> Result<(), ProviderError> {
        let (mut worker, parts) = worker_item(FOR_WORKER, item, self.enqueued(None))?;
        let instance = worker.instance_id.clone();
        ids::check_instances(FOR_WORKER, [instance.as_str()])?;
        let tell = |failure: Failure| failure.tell(FOR_WORKER, &instance);
        if !self.create_item(&worker, &parts).await.map_err(tell)? {
            // The same activity again, or one that was finished or cancelled: another document of it.
            worker.id = format!("{}:{}", worker.id, self.store.clock().new_id());
            let text = encode(FOR_WORKER, item)?;
            let (payload, parts) = Payload::of(&instance, &worker.id, text);
            worker.work_item = payload;
            let create = Write::create(&worker.id, &worker);
            let until = self.store.now().saturating_add(PATIENCE_MS);
            self.store.create_with_parts(&instance, create, &parts, until).await.map_err(tell)?;
        }
        let hint = ItemHint::of(&worker, None);
        self.dispatch.item_enqueued(hint, worker.visible_at, self.store.now());
        Ok(())
    }

    /// Creates an activity's document; false if another is in its place.
    async fn create_item(
        &self,
        worker: &WorkerDocument,
        parts: &[PartDocument],
    ) -> Result<bool, Failure> {
        let instance = &worker.instance_id;
        let there: Option<Value> = match parts {
            [] => None,
            // Its parts must not overwrite another's.
            _ => self.store.read(instance, &worker.id).await?,
        };
        if there.is_some() {
            return Ok(false);
        }
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let parts: Vec<Write> = parts.iter().map(|part| Write::upsert(&part.id, part)).collect();
        for chunk in write::chunks(parts, 0) {
            self.store.write(instance, &chunk, until).await?;
        }
        let (create, mut was_sent) = ([Write::create(&worker.id, worker)], false);
        loop {
            let Err(failure) = self.store.write(instance, &create, until).await else {
                return Ok(true);
            };
            match failure.cause {
                Cause::Conflict if !was_sent => return Ok(false),
                Cause::Conflict => return self.is_ours(worker).await,
                Cause::Ambiguous if self.store.now() < until => was_sent = true,
                _ => return Err(failure),
            }
        }
    }

    /// Whether the document in an activity's place is the one that was sent, or what its end has left.
    async fn is_ours(&self, worker: &WorkerDocument) -> Result<bool, Failure> {
        let there: Option<Value> = self.store.read(&worker.instance_id, &worker.id).await?;
        Ok(there.is_none_or(|there| {
            there["type"] == kinds::TOMBSTONE
                || (there["seq"] == worker.seq && there["enqueuedAt"] == worker.enqueued_at)
        }))
    }

    fn enqueued(&self, delay: Option<Duration>) -> Enqueued {
        let now = self.store.now();
        Enqueued {
            now,
            seq: self.store.clock().next_sequences(1),
            visible_at: delay.map_or(0, |delay| now.saturating_add(millis(delay))),
            is_fenced: false,
            is_start: false,
        }
    }
}
