//! Counts of pending and undeliverable messages between instances.

use duroxide::providers::ProviderError;
use serde::Deserialize;
use serde_json::json;

use super::Admin;
use crate::documents::delivery;
use crate::failure::Failure;
use crate::outbox::is_too_old;
use crate::store::Scope;

/// How many undeliverable messages are returned.
const MAX_NAMED: u32 = 100;

const UNDELIVERABLE: &str = "SELECT TOP @limit c.id, c.instanceId, c.targetInstanceId, c.createdAt, \
     c.attemptCount, c.lastAttemptAt, c.lastError FROM c \
     WHERE c.type = 'outbox_intent' AND c.status = @status";

const COUNT: &str =
    "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'outbox_intent' AND c.status = @status";

/// Counts of messages between instances: see [`CosmosDBProvider::outbox_metrics`](crate::CosmosDBProvider::outbox_metrics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxMetrics {
    /// Messages that wait for delivery.
    pub pending: u64,
    /// Messages that the service refuses for their form or size, or that are too old. They stay until an operator retries
    /// them ([`retry_undeliverable`](crate::CosmosDBProvider::retry_undeliverable)) or deletes their senders.
    pub undeliverable: u64,
    /// The first hundred of those.
    pub examples: Vec<UndeliverableMessage>,
}

/// An undeliverable message.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UndeliverableMessage {
    /// The id of its document.
    pub id: String,
    /// The sender.
    #[serde(rename = "instanceId")]
    pub source: String,
    /// The addressee.
    #[serde(rename = "targetInstanceId")]
    pub target: String,
    /// When it was sent, in milliseconds since 1970.
    pub created_at: i64,
    /// How often delivery was tried.
    pub attempt_count: u32,
    /// When delivery was last tried, in milliseconds since 1970.
    pub last_attempt_at: Option<i64>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// Whether it is older than seven days, so that it cannot be retried: it might arrive a second time.
    #[serde(skip)]
    pub is_too_old: bool,
}

impl Admin {
    /// Counts pending and undeliverable messages.
    pub(crate) async fn outbox_metrics(&self) -> Result<OutboxMetrics, ProviderError> {
        let tell = |failure: Failure| failure.tell("outbox_metrics", "container");
        let count = async |status: &str| {
            let parameters = [("@status", json!(status))];
            let counted: Vec<u64> =
                self.store.values(Scope::Everything, COUNT, &parameters).await?;
            Ok::<u64, Failure>(counted.first().copied().unwrap_or_default())
        };
        let parameters =
            [("@status", json!(delivery::UNDELIVERABLE)), ("@limit", json!(MAX_NAMED))];
        let examples = self.store.documents(Scope::Everything, UNDELIVERABLE, &parameters);
        let mut examples: Vec<UndeliverableMessage> = examples.await.map_err(tell)?;
        let now = self.store.now();
        for message in &mut examples {
            message.is_too_old = is_too_old(message.created_at, now);
        }
        Ok(OutboxMetrics {
            pending: count(delivery::PENDING).await.map_err(tell)?,
            undeliverable: count(delivery::UNDELIVERABLE).await.map_err(tell)?,
            examples,
        })
    }
}
