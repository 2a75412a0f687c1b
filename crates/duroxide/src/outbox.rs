//! Messages to other instances: remembered with the turn that sends them, delivered afterwards, as often as it takes.
//!
//! A delivery creates a document whose id follows from the turn, so that delivering twice is delivering once: the
//! second meets the message, or the tombstone that its consumption left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::providers::WorkItem;
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use sidereal_protocol::Etag;

use crate::call::metered;
use crate::core::Core;
use crate::documents::{
    DELETION_LEASE_MS, IntentDocument, MessageDocument, PartDocument, Payload, TOMBSTONE_SECONDS,
    delivery, kinds,
};
use crate::failure::{Cause, Failure};
use crate::fetch::ReadMessage;
use crate::store::{Scope, millis};
use crate::work_items::{Enqueued, message};
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

/// What the reconciler's requests are measured as.
pub(crate) const RECONCILER: &str = "reconciler";

/// The work that stopped processes left behind: intents older than a delivery attempt may take, and interrupted deletions.
const LEFT: &str = "SELECT * FROM c \
     WHERE (c.type = 'outbox_intent' AND c.status = 'pending' AND c.createdAt <= @before) \
     OR (c.type = 'instance' AND c.isDeleting = true AND c.updatedAt <= @abandoned \
     AND (IS_NULL(c.lockedUntil) OR c.lockedUntil <= @now))";

/// How many messages are delivered at the same time: a turn may have thousands, and one whose target does not answer is
/// waited for while others are delivered.
const AT_ONCE: usize = 32;

/// How many intents of others are read at once.
const SCAN_PAGE: u32 = 100;

/// The most intents that this process remembers as undelivered; a scan finds the others.
const MAX_REMEMBERED: usize = 10_000;

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

/// Whether a message that was sent at this time can no longer be delivered safely.
pub(crate) fn is_too_old(created_at: i64, now: i64) -> bool {
    now - created_at > MAX_AGE_MS
}

/// Intents that this process could not deliver yet, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Undelivered(Mutex<HashMap<String, IntentDocument>>);

impl Undelivered {
    pub(crate) fn remember(&self, intent: &IntentDocument) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_REMEMBERED {
            all.insert(intent.id.clone(), intent.clone());
        }
    }

    /// Removes and returns the intents whose next attempt is due.
    fn take(&self, now: i64) -> Vec<IntentDocument> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extract_if(|_, intent| intent.retry_at() <= now).map(|(_, intent)| intent).collect()
    }

    fn contains(&self, id: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

impl Core {
    /// Delivers the messages of a turn that was committed. What cannot be delivered now is tried again.
    pub(crate) async fn deliver_all(
        self: &Arc<Self>,
        intents: Vec<(IntentDocument, Vec<PartDocument>)>,
    ) {
        let deliveries = stream::iter(intents).map(|(intent, parts)| async move {
            let text = match &intent.payload {
                Payload::Inline(text) => text.clone(),
                Payload::Parts { .. } => parts.into_iter().map(|part| part.data).collect(),
            };
            match self.deliver(&intent, text).await {
                Ok(()) => Some(intent),
                Err(failure) => {
                    self.not_delivered(intent, &failure).await;
                    None
                }
            }
        });
        let delivered = deliveries.buffer_unordered(AT_ONCE);
        let done: Vec<IntentDocument> = delivered.filter_map(std::future::ready).collect().await;
        if !done.is_empty() {
            let core = Arc::clone(self);
            self.spawn_metered("outbox", async move { core.forget(done).await });
        }
    }

    /// Creates the message in the other instance's partition.
    pub(crate) async fn deliver(
        self: &Arc<Self>,
        intent: &IntentDocument,
        text: String,
    ) -> Result<(), Failure> {
        let target = &intent.target_instance_id;
        let item: Option<WorkItem> = serde_json::from_str(&text).ok();
        let (mut message, parts) = plan_delivery(intent, text);
        if let Some(item) = &item
            && self.create_locked(&message, item).await
        {
            return Ok(());
        }
        let create = Write::create(&message.id, &message);
        message.etag = self.create_with_parts(target, create, &parts).await?;
        self.message_is_there(message, item);
        Ok(())
    }

    /// Tells the dispatchers of a message that this process has written.
    pub(crate) fn message_is_there(&self, document: MessageDocument, item: Option<WorkItem>) {
        let (now, visible_at) = (self.store.now(), document.visible_at);
        let instance = document.instance_id.clone();
        let is_known = document.etag.is_some() && document.work_item.parts() == 0;
        let known = item.filter(|_| is_known).map(|item| ReadMessage { document, item });
        self.dispatch.message_enqueued(&instance, known, visible_at, now);
    }

    /// Creates a document and the parts of its payload. One that is there already is the same. Says which version
    /// it has, if that is known.
    pub(crate) async fn create_with_parts(
        &self,
        partition: &str,
        create: Write,
        parts: &[PartDocument],
    ) -> Result<Option<Etag>, Failure> {
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let parts: Vec<Write> = parts.iter().map(|part| Write::upsert(&part.id, part)).collect();
        for chunk in write::chunks(parts, 0) {
            self.store.write(partition, &chunk, until).await?;
        }
        let create = [create];
        loop {
            match self.store.write(partition, &create, until).await {
                Ok(results) => return Ok(results.first().and_then(|it| it.etag().cloned())),
                Err(failure) => match failure.cause {
                    Cause::Conflict => return Ok(None),
                    // Whether it was created or not, creating it again tells.
                    Cause::Ambiguous if self.store.now() < until => {}
                    _ => return Err(failure),
                },
            }
        }
    }

    /// Schedules another attempt. A message that the service refuses for its form or size becomes undeliverable.
    async fn not_delivered(&self, intent: IntentDocument, failure: &Failure) {
        let (id, target, error) = (&intent.id, &intent.target_instance_id, failure.error());
        if failure.can_never_succeed() {
            tracing::error!(id, target, %error, "a message cannot be delivered");
            self.note(&intent, delivery::UNDELIVERABLE, error.to_string()).await;
            return;
        }
        match failure.cause {
            // A credential, a missing role or a full partition: an operator has to act.
            Cause::Refused => tracing::warn!(id, target, %error, "a delivery is refused for now"),
            _ => tracing::debug!(id, target, %error, "a message is delivered later"),
        }
        self.undelivered.remember(&intent);
    }

    /// Removes intents that were delivered, with the parts of their payloads. Best effort: one that stays is
    /// delivered again, which changes nothing.
    async fn forget(&self, intents: Vec<IntentDocument>) {
        let mut by_source: HashMap<String, Vec<Write>> = HashMap::new();
        for intent in intents {
            let writes = by_source.entry(intent.instance_id.clone()).or_default();
            for number in 0..intent.payload.parts() {
                writes.push(Write::delete(&ids::payload_part(&intent.id, number), None));
            }
            writes.push(Write::delete(&intent.id, None));
        }
        for (source, writes) in by_source {
            if let Err(failure) = self.remove_all(&source, writes).await {
                tracing::debug!(source, error = %failure.error(), "delivered messages are forgotten later");
            }
        }
    }

    /// Delivers what was not delivered: what this process knows of at every tick, what others left at every scan.
    pub(crate) async fn reconcile(self: Arc<Self>, settings: ReconcilerSettings) {
        let (mut next_scan, mut is_first) = (tokio::time::Instant::now(), true);
        loop {
            let known = self.undelivered.take(self.store.now());
            let telemetry = &self.store.telemetry;
            metered(telemetry, RECONCILER, self.redeliver(known)).await;
            // Whoever looks for work looks for undelivered messages as well, but for the first time.
            let is_due = tokio::time::Instant::now() >= next_scan;
            if is_due && (is_first || !self.dispatch.is_active()) {
                metered(telemetry, RECONCILER, self.scan(settings.age)).await;
                next_scan = tokio::time::Instant::now() + settings.scan_interval;
                is_first = false;
            }
            tokio::time::sleep(settings.interval).await;
        }
    }

    /// Delivers overdue intents and finishes interrupted deletions.
    pub(crate) async fn scan(self: &Arc<Self>, age: Duration) {
        let now = self.store.now();
        let parameters = [
            ("@before", json!(now.saturating_sub(millis(age)))),
            ("@abandoned", json!(now.saturating_sub(DELETION_LEASE_MS))),
            ("@now", json!(now)),
        ];
        let query = self.store.query(Scope::Everything, LEFT, &parameters);
        // Page by page: after a long outage there may be more than fit into memory.
        let mut pages = query.with_page_size(SCAN_PAGE).pages::<Value>();
        while let Some(page) = pages.next().await {
            match page {
                Ok(page) => {
                    self.store.count_page(&page);
                    let (instances, intents): (Vec<Value>, Vec<Value>) = page
                        .into_items()
                        .into_iter()
                        .partition(|row| row["type"] == kinds::INSTANCE);
                    let ids = instances.iter().filter_map(|row| row["instanceId"].as_str());
                    ids.for_each(|id| self.finish_deletion(id));
                    let intents = intents.into_iter();
                    self.redeliver(intents.filter_map(|row| self.store.readable(row)).collect())
                        .await;
                }
                Err(error) => {
                    tracing::warn!(%error, "undelivered messages cannot be looked for");
                    return;
                }
            }
        }
    }

    /// Delivers intents that the feeder has found, by their instances and ids.
    pub(crate) async fn redeliver_found(self: &Arc<Self>, mut found: Vec<(String, String)>) {
        // The reconciler retries those that this process remembers when their back-off ends.
        found.retain(|(_, id)| !self.undelivered.contains(id));
        let read = |(instance, id): (String, String)| async move {
            match self.store.read::<IntentDocument>(&instance, &id).await {
                Ok(intent) => intent,
                Err(failure) => {
                    tracing::debug!(id, error = %failure.error(), "a message is delivered later");
                    None
                }
            }
        };
        let intents = stream::iter(found).map(read).buffer_unordered(AT_ONCE);
        self.redeliver(intents.filter_map(std::future::ready).collect().await).await;
    }

    async fn redeliver(self: &Arc<Self>, intents: Vec<IntentDocument>) {
        let redeliver = |mut intent: IntentDocument| async move {
            if let Err(failure) = self.redeliver_one(&intent).await {
                if !failure.can_never_succeed() {
                    let error = failure.error().to_string();
                    intent = self.note(&intent, delivery::PENDING, error).await;
                }
                self.not_delivered(intent, &failure).await;
            }
        };
        let now = self.store.now();
        let due = intents.into_iter().filter(|intent| intent.retry_at() <= now);
        stream::iter(due).for_each_concurrent(AT_ONCE, redeliver).await;
    }

    async fn redeliver_one(self: &Arc<Self>, intent: &IntentDocument) -> Result<(), Failure> {
        if intent.staged_turn.is_some() {
            let source = self.read_instance(&intent.instance_id).await?;
            // A turn that was not committed has sent nothing.
            if !source.is_some_and(|source| source.has_committed(intent.staged_turn)) {
                return Ok(());
            }
        }
        if intent.is_too_old(self.store.now()) {
            let sentence =
                "a message is too old to be delivered without the risk of delivering it twice";
            tracing::error!(id = intent.id, target = intent.target_instance_id, "{sentence}");
            self.note(intent, delivery::UNDELIVERABLE, sentence.to_owned()).await;
            return Ok(());
        }
        let text = self.text_of(&intent.instance_id, &intent.id, &intent.payload).await?;
        self.deliver(intent, text).await?;
        self.forget(vec![intent.clone()]).await;
        Ok(())
    }

    /// Records an attempt in the intent, for operators and for the back-off of other processes. Returns the intent with the
    /// attempt. Best effort: it may not be stored.
    async fn note(&self, intent: &IntentDocument, status: &str, error: String) -> IntentDocument {
        let mut noted = intent.clone();
        noted.status = status.to_owned();
        noted.attempt_count += 1;
        noted.last_attempt_at = Some(self.store.now());
        noted.last_error = Some(error);
        let write = Write::replace(&noted.id, &noted, None);
        if let Err(failure) = self.store.write_once(&noted.instance_id, &[write]).await {
            tracing::debug!(id = noted.id, error = %failure.error(), "an attempt is not noted");
        }
        noted
    }
}

/// The message that a delivery creates: the same whenever, and by whomever, it is made.
pub(crate) fn plan_delivery(
    intent: &IntentDocument,
    text: String,
) -> (MessageDocument, Vec<PartDocument>) {
    let enqueued = Enqueued {
        now: intent.created_at,
        seq: intent.seq,
        visible_at: intent.visible_at,
        is_fenced: false,
    };
    let id = ids::delivered(&intent.idempotency_key);
    message(id, &intent.target_instance_id, text, enqueued)
}

/// How often undelivered messages are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReconcilerSettings {
    pub(crate) interval: Duration,
    pub(crate) scan_interval: Duration,
    pub(crate) age: Duration,
}
