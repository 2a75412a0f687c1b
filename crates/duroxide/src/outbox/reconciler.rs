//! The reconciler: it delivers messages that were not delivered right after their commit, by this process or another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};

use super::delivery::AT_ONCE;
use super::{FoundIntent, Outbox};
use crate::call::metered;
use crate::clock::millis;
use crate::documents::{DELETION_LEASE_MS, IntentDocument, delivery, kinds};
use crate::failure::Failure;
use crate::store::Scope;

/// The operation that the reconciler's requests are counted under.
pub(crate) const RECONCILER: &str = "reconciler";

/// The work that stopped processes left behind: intents older than a delivery attempt may take, and interrupted deletions.
const LEFT: &str = "SELECT * FROM c \
     WHERE (c.type = 'outbox_intent' AND c.status = 'pending' AND c.createdAt <= @before) \
     OR (c.type = 'instance' AND c.isDeleting = true AND c.updatedAt <= @abandoned \
     AND (IS_NULL(c.lockedUntil) OR c.lockedUntil <= @now))";

/// How many intents of others are read at once.
const SCAN_PAGE: u32 = 100;

/// How long one attempt takes at most: others wait for its place, and it is repeated after a pause.
const ATTEMPT_MS: i64 = 5_000;

/// How often undelivered messages are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReconcilerSettings {
    pub(crate) interval: Duration,
    pub(crate) scan_interval: Duration,
    pub(crate) age: Duration,
}

impl Outbox {
    /// Delivers messages that wait to be delivered again at every tick, and those that others left at every scan.
    pub(crate) async fn reconcile(self: Arc<Self>, settings: ReconcilerSettings) {
        let (mut next_scan, mut is_first) = (tokio::time::Instant::now(), true);
        loop {
            let due = self.undelivered.due(self.store.now());
            let telemetry = &self.store.telemetry;
            metered(telemetry, RECONCILER, self.redeliver(due)).await;
            // A process that polls for work finds undelivered messages too, but for the first time.
            let is_due = tokio::time::Instant::now() >= next_scan;
            if is_due && (is_first || !self.dispatch.is_active()) {
                metered(telemetry, RECONCILER, self.scan(settings.age)).await;
                next_scan = tokio::time::Instant::now() + settings.scan_interval;
                is_first = false;
            }
            tokio::time::sleep(self.store.clock().jittered(settings.interval)).await;
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
        // Page by page: after a long outage there may be more than fit into memory.
        let mut pages =
            self.store.pages::<Value>(Scope::Everything, LEFT, &parameters, Some(SCAN_PAGE));
        while let Some(page) = pages.next().await {
            let page = match page {
                Ok(page) => page,
                Err(failure) => {
                    tracing::warn!(error = %failure.error(), "undelivered messages cannot be looked for");
                    return;
                }
            };
            let (instances, intents): (Vec<Value>, Vec<Value>) =
                page.into_items().into_iter().partition(|row| row["type"] == kinds::INSTANCE);
            let ids = instances.iter().filter_map(|row| row["instanceId"].as_str());
            ids.for_each(|id| self.deletions.report(id));
            let intents = intents.into_iter().filter_map(|row| self.store.readable(row));
            let intents: Vec<IntentDocument> = intents.collect();
            let found = intents.iter().map(|intent| FoundIntent {
                instance: intent.instance_id.clone(),
                id: intent.id.clone(),
                staged_turn: intent.staged_turn,
            });
            let wanted = self.committed(found.collect()).await;
            let is_wanted = |it: &IntentDocument| wanted.iter().any(|wanted| wanted.id == it.id);
            self.redeliver(intents.into_iter().filter(is_wanted).collect()).await;
        }
    }

    /// Delivers intents that a query has found.
    pub(crate) async fn redeliver_found(self: &Arc<Self>, found: Vec<FoundIntent>) {
        let read = |found: FoundIntent| async move {
            match self.store.read::<IntentDocument>(&found.instance, &found.id).await {
                Ok(intent) => intent,
                Err(failure) => {
                    tracing::debug!(id = found.id, error = %failure.error(), "a message is delivered later");
                    None
                }
            }
        };
        let wanted = self.committed(found).await;
        let intents = stream::iter(wanted).map(read).buffer_unordered(AT_ONCE);
        self.redeliver(intents.filter_map(std::future::ready).collect().await).await;
    }

    /// Of intents, those to be delivered now. A turn that was not committed has sent nothing; its sender is read once for all
    /// of its intents.
    async fn committed(&self, found: Vec<FoundIntent>) -> Vec<FoundIntent> {
        let mut wanted = self.undelivered.worth_a_look(found, self.store.now());
        let mut staged: BTreeMap<String, Option<u64>> = BTreeMap::new();
        for it in wanted.iter().filter(|it| it.staged_turn.is_some()) {
            staged.entry(it.instance.clone()).or_default();
        }
        for (instance, turn) in &mut staged {
            match self.store.read_instance(instance).await {
                Ok(there) => *turn = there.map(|there| there.turn),
                Err(failure) => {
                    tracing::debug!(instance, error = %failure.error(), "messages are delivered later");
                }
            }
        }
        wanted.retain(|it| {
            let Some(turn) = it.staged_turn else { return true };
            let is_committed =
                staged.get(&it.instance).copied().flatten().is_some_and(|last| turn <= last);
            match is_committed {
                true => self.undelivered.committed(&it.instance),
                false => self.undelivered.uncommitted(&it.instance, self.store.now()),
            }
            is_committed
        });
        wanted
    }

    async fn redeliver(self: &Arc<Self>, intents: Vec<IntentDocument>) {
        let redeliver = |intent: IntentDocument| async move {
            let _under_way = self.undelivered.begin(&intent.id, self.store.now())?;
            match self.redeliver_one(&intent).await {
                Ok(delivered) => delivered,
                Err(failure) => {
                    tracing::debug!(id = intent.id, error = %failure.error(), "a message is delivered later");
                    self.undelivered.failed(&intent, self.store.now());
                    None
                }
            }
        };
        let redelivered = stream::iter(intents).map(redeliver).buffer_unordered(AT_ONCE);
        let delivered: Vec<IntentDocument> =
            redelivered.filter_map(std::future::ready).collect().await;
        self.forget(delivered).await;
    }

    /// Delivers a message again. Returns its intent if it was delivered.
    async fn redeliver_one(
        self: &Arc<Self>,
        intent: &IntentDocument,
    ) -> Result<Option<IntentDocument>, Failure> {
        if intent.status != delivery::PENDING {
            self.undelivered.done(&intent.id);
            return Ok(None);
        }
        if intent.is_too_old(self.store.now()) {
            let sentence =
                "the message is too old to be delivered without the risk of delivering it twice";
            tracing::error!(id = intent.id, target = intent.target_instance_id, "{sentence}");
            self.note(intent, delivery::UNDELIVERABLE, sentence.to_owned()).await;
            self.undelivered.done(&intent.id);
            return Ok(None);
        }
        let text = self.store.text_of(&intent.instance_id, &intent.id, &intent.payload).await?;
        let until = self.store.now().saturating_add(ATTEMPT_MS);
        Ok(self.deliver_once(intent.clone(), text, until).await)
    }
}
