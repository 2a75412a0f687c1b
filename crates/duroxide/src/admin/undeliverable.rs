//! Undeliverable messages: made pending again, once an operator has removed what kept them from being delivered.

use duroxide::providers::ProviderError;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::Admin;
use crate::PATIENCE_MS;
use crate::documents::{IntentDocument, delivery};
use crate::failure::{Cause, Failure};
use crate::store::Scope;
use crate::write::Write;

const OPERATION: &str = "retry_undeliverable";

const UNDELIVERABLE: &str =
    "SELECT * FROM c WHERE c.type = 'outbox_intent' AND c.status = 'undeliverable'";

/// How many messages are read at once. The service ends a page earlier if they are large.
const PAGE: u32 = 100;

/// How many messages are changed at the same time.
const AT_ONCE: usize = 16;

/// The most messages of one call.
const MOST: u64 = 10_000;

/// The number of messages that [`retry_undeliverable`](crate::CosmosDBProvider::retry_undeliverable) has changed and left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetriedMessages {
    /// Messages that are pending again.
    pub retried: u64,
    /// Messages older than seven days, which stay undeliverable: the tombstone of an earlier delivery may have ended, so
    /// another delivery could be a second message.
    pub too_old: u64,
}

impl Admin {
    /// Makes undeliverable messages pending again, at most [`MOST`]. Each change is conditional on the version that was read.
    pub(crate) async fn retry_undeliverable(&self) -> Result<RetriedMessages, ProviderError> {
        let tell = |failure: Failure| failure.tell(OPERATION, "container");
        let mut pages =
            self.store.pages::<Value>(Scope::Everything, UNDELIVERABLE, &[], Some(PAGE));
        let mut done = RetriedMessages::default();
        while let Some(page) = pages.next().await {
            let rows = page.map_err(tell)?.into_items();
            let intents = rows.into_iter().filter_map(|row| self.store.readable(row)).collect();
            let page = self.retry_page(intents).await?;
            done.retried += page.retried;
            done.too_old += page.too_old;
            if done.retried + u64::from(PAGE) > MOST {
                break;
            }
        }
        Ok(done)
    }

    /// Changes the messages of a page. A failure does not keep the others of the page from being changed.
    async fn retry_page(
        &self,
        intents: Vec<IntentDocument>,
    ) -> Result<RetriedMessages, ProviderError> {
        let now = self.store.now();
        let (too_old, young): (Vec<_>, Vec<_>) =
            intents.into_iter().partition(|intent| intent.is_too_old(now));
        let retry = async |intent: IntentDocument| {
            let partition = intent.instance_id.clone();
            self.retry(intent).await.map_err(|failure| failure.tell(OPERATION, &partition))
        };
        let outcomes: Vec<Result<bool, ProviderError>> =
            stream::iter(young).map(retry).buffer_unordered(AT_ONCE).collect().await;
        let mut done =
            RetriedMessages { too_old: too_old.len() as u64, ..RetriedMessages::default() };
        for is_retried in outcomes {
            done.retried += u64::from(is_retried?);
        }
        Ok(done)
    }

    /// Makes a message pending again. False if it was changed or removed since it was read.
    async fn retry(&self, mut intent: IntentDocument) -> Result<bool, Failure> {
        intent.status = delivery::PENDING.to_owned();
        // Without an attempt its delivery is due at once.
        (intent.attempt_count, intent.last_attempt_at) = (0, None);
        let write = Write::replace(&intent.id, &intent, intent.etag.clone());
        let until = self.store.now().saturating_add(PATIENCE_MS);
        match self.store.write(&intent.instance_id, &[write], until).await {
            Ok(_) => {
                self.outbox.retry_now(&intent);
                Ok(true)
            }
            Err(failure)
                if matches!(failure.cause, Cause::PreconditionFailed | Cause::NotFound) =>
            {
                Ok(false)
            }
            Err(failure) => Err(failure),
        }
    }
}
