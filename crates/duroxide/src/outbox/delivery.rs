//! Delivering messages: creating a document in the partition of another instance.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::WorkItem;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::time::timeout;

use super::Outbox;
use crate::documents::{
    IntentDocument, MessageDocument, PartDocument, Payload, TOMBSTONE_SECONDS, delivery,
};
use crate::failure::{Cause, Failure};
use crate::telemetry::Occurrence;
use crate::work_items::{Enqueued, is_start, message};
use crate::write::Write;
use crate::{PATIENCE_MS, ids};

/// How many messages are delivered at the same time: a turn may have thousands, and one whose target does not answer is
/// waited for while others are delivered.
pub(super) const AT_ONCE: usize = 32;

/// Delivered messages are forgotten in groups: until then others may deliver them again.
const GROUP: usize = 100;

/// The longest that a delivered message waits for others of its group.
const GROUP_WAIT: Duration = Duration::from_millis(200);

/// A delivery after this long could create a message whose tombstone has ended.
const MAX_AGE_MS: i64 = (TOMBSTONE_SECONDS as i64 - 24 * 3600) * 1000;

impl IntentDocument {
    /// Whether it is pending, and a second delivery has no effect.
    pub(crate) fn is_deliverable(&self, now: i64) -> bool {
        self.status == delivery::PENDING && !self.is_too_old(now)
    }

    /// Whether the tombstone of an earlier delivery may have ended.
    pub(crate) fn is_too_old(&self, now: i64) -> bool {
        is_too_old(self.created_at, now)
    }
}

/// Whether a message that was sent at a time can no longer be delivered without the risk of delivering it twice.
pub(crate) fn is_too_old(created_at: i64, now: i64) -> bool {
    now - created_at > MAX_AGE_MS
}

impl Outbox {
    /// Delivers the messages of a turn that was committed. What cannot be delivered now is tried again.
    pub(crate) async fn deliver_all(
        self: Arc<Self>,
        intents: Vec<(IntentDocument, Vec<PartDocument>)>,
    ) {
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let outbox = &self;
        let deliver = |(intent, parts): (IntentDocument, Vec<PartDocument>)| async move {
            let text = match &intent.payload {
                Payload::Inline(text) => text.clone(),
                Payload::Parts { .. } => parts.into_iter().map(|part| part.data).collect(),
            };
            let _under_way = outbox.undelivered.begin(&intent.id, outbox.store.now())?;
            outbox.deliver_once(intent, text, until).await
        };
        let mut deliveries =
            std::pin::pin!(stream::iter(intents).map(deliver).buffer_unordered(AT_ONCE));
        let mut delivered = Vec::new();
        loop {
            match timeout(GROUP_WAIT, deliveries.next()).await {
                Ok(Some(intent)) => delivered.extend(intent),
                Ok(None) => break,
                Err(_) => self.spawn_forget(std::mem::take(&mut delivered)),
            }
            if delivered.len() >= GROUP {
                self.spawn_forget(std::mem::take(&mut delivered));
            }
        }
        self.spawn_forget(delivered);
    }

    /// Delivers a message whose delivery has begun. Returns its intent if it was delivered.
    pub(super) async fn deliver_once(
        self: &Arc<Self>,
        intent: IntentDocument,
        text: String,
        until: i64,
    ) -> Option<IntentDocument> {
        match self.deliver_until(&intent, text, until).await {
            Ok(()) => {
                self.undelivered.done(&intent.id);
                Some(intent)
            }
            Err(failure) => {
                self.not_delivered(&intent, &failure).await;
                None
            }
        }
    }

    /// Creates the message in the other instance's partition, with the patience of a commit.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        intent: &IntentDocument,
        text: String,
    ) -> Result<(), Failure> {
        let until = self.store.now().saturating_add(PATIENCE_MS);
        self.deliver_until(intent, text, until).await
    }

    async fn deliver_until(
        self: &Arc<Self>,
        intent: &IntentDocument,
        text: String,
        until: i64,
    ) -> Result<(), Failure> {
        let target = &intent.target_instance_id;
        let item: Option<WorkItem> = serde_json::from_str(&text).ok();
        let (mut message, parts) = plan_delivery(intent, text);
        if let Some(item) = &item
            && self.turns.create_locked(&message, item).await?
        {
            return Ok(());
        }
        let create = Write::create(&message.id, &message);
        message.etag = self.store.create_with_parts(target, create, &parts, until).await?;
        self.turns.message_is_there(message, item);
        Ok(())
    }

    /// Records a failed delivery: it is tried again, unless it can never succeed.
    async fn not_delivered(&self, intent: &IntentDocument, failure: &Failure) {
        let (id, target, error) = (&intent.id, &intent.target_instance_id, failure.error());
        if failure.can_never_succeed() {
            tracing::error!(id, target, %error, "a message cannot be delivered");
            self.store.telemetry.occurred(Occurrence::MessageUndeliverable);
            self.note(intent, delivery::UNDELIVERABLE, error.to_string()).await;
            return self.undelivered.done(id);
        }
        match failure.cause {
            // A credential, a missing role or a full partition: an operator has to act.
            Cause::Refused => tracing::warn!(id, target, %error, "a delivery is refused for now"),
            _ => tracing::debug!(id, target, %error, "a message is delivered later"),
        }
        let is_first = self.undelivered.failed(intent, self.store.now());
        if is_first && failure.cause == Cause::Refused {
            // Once: operators look for the reason beside the message.
            self.note(intent, delivery::PENDING, error.to_string()).await;
        }
    }

    /// Removes the intents of delivered messages, beside the calls.
    fn spawn_forget(self: &Arc<Self>, intents: Vec<IntentDocument>) {
        if !intents.is_empty() {
            let outbox = Arc::clone(self);
            self.tasks.spawn_metered("outbox", async move { outbox.forget(intents).await });
        }
    }

    /// Removes the intents of delivered messages, with the parts of their payloads. Best effort: one that stays is
    /// delivered again, which has no effect.
    pub(super) async fn forget(&self, intents: Vec<IntentDocument>) {
        let mut by_source: HashMap<String, Vec<Write>> = HashMap::new();
        for intent in intents {
            let writes = by_source.entry(intent.instance_id.clone()).or_default();
            for number in 0..intent.payload.parts() {
                writes.push(Write::delete(&ids::payload_part(&intent.id, number), None));
            }
            writes.push(Write::delete(&intent.id, None));
        }
        for (source, writes) in by_source {
            if let Err(failure) = self.store.remove_all(&source, writes).await {
                tracing::debug!(source, error = %failure.error(), "delivered messages are forgotten later");
            }
        }
    }

    /// Writes the outcome of a delivery that is not tried again into its intent, for people to see. Best effort.
    pub(super) async fn note(&self, intent: &IntentDocument, status: &str, error: String) {
        let mut noted = intent.clone();
        noted.status = status.to_owned();
        noted.attempt_count += 1;
        noted.last_attempt_at = Some(self.store.now());
        noted.last_error = Some(error);
        let write = Write::replace(&noted.id, &noted, None);
        if let Err(failure) = self.store.write_once(&noted.instance_id, &[write]).await {
            tracing::debug!(id = noted.id, error = %failure.error(), "an attempt is not noted");
        }
    }
}

/// The message that a delivery creates: the same whenever, and by whomever, it is made.
pub(crate) fn plan_delivery(
    intent: &IntentDocument,
    text: String,
) -> (MessageDocument, Vec<PartDocument>) {
    let is_start = serde_json::from_str(&text).is_ok_and(|item: WorkItem| is_start(&item));
    let enqueued = Enqueued {
        is_start,
        now: intent.created_at,
        seq: intent.seq,
        visible_at: intent.visible_at,
        is_fenced: false,
    };
    let id = ids::delivered(&intent.idempotency_key);
    message(id, &intent.target_instance_id, text, enqueued)
}
