//! What a worker does with an activity that it has: keeps it, or gives it back.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use serde_json::Value;
use tokio::sync::Mutex;

use super::locked;
use crate::PATIENCE_MS;
use crate::core::Core;
use crate::dispatch::ItemHint;
use crate::documents::WorkerDocument;
use crate::failure::{Cause, Failure};
use crate::lock_token::LockToken;
use crate::store::millis;

const ABANDON: &str = "abandon_work_item";
const RENEW: &str = "renew_work_item_lock";

impl Core {
    /// Extends the lock of an activity.
    pub(crate) async fn renew_item(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let held = self.held_item(RENEW, token).await?;
        let mut item = held.lock().await;
        self.check_item(RENEW, token, &item)?;
        let until = self.store.now().saturating_add(millis(extend_for));
        let mut renewed = item.clone();
        renewed.locked_until = renewed.locked_until.max(Some(until));
        let patience = item.locked_until.unwrap_or_default();
        match self.store.write(&item.instance_id, &[locked(&renewed, 0, None)], patience).await {
            Ok(results) => renewed.etag = results.first().and_then(|it| it.etag().cloned()),
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => {
                    return Err(failure.tell(RENEW, &item.instance_id));
                }
                _ => {
                    self.items.remove(token);
                    let until = renewed.locked_until;
                    return self.reread_renewed(token, &mut item, until, failure).await;
                }
            },
        }
        let until = renewed.locked_until.unwrap_or_default();
        self.items.extend(token, until);
        self.dispatch.item_taken(&item.id, until, self.store.now());
        *item = renewed;
        self.touch_session(item.session_id.as_deref()).await;
        Ok(())
    }

    /// After a renewal that met another version: cancelled or taken over, unless our own answer was lost.
    async fn reread_renewed(
        &self,
        token: &str,
        item: &mut WorkerDocument,
        until: Option<i64>,
        failure: Failure,
    ) -> Result<(), ProviderError> {
        let instance = item.instance_id.clone();
        if failure.cause != Cause::Ambiguous {
            return Err(gone(RENEW, &instance));
        }
        let tell = |failure: Failure| failure.tell(RENEW, &instance);
        let there: Option<WorkerDocument> = match self.store.read(&instance, &item.id).await {
            Ok(there) => there,
            // A tombstone is no activity.
            Err(failure) if failure.cause == Cause::Refused => None,
            Err(failure) => return Err(tell(failure)),
        };
        match there.filter(|there| there.lock_token.as_deref() == Some(token)) {
            Some(there) if there.locked_until >= until => {
                *item = there;
                Ok(())
            }
            Some(_) => Err(tell(failure)),
            None => Err(gone(RENEW, &instance)),
        }
    }

    /// Gives an activity back.
    pub(crate) async fn abandon_item(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let held = self.held_item(ABANDON, token).await?;
        let mut item = held.lock().await;
        let now = self.store.now();
        let visible_at = delay.map_or(now, |delay| now.saturating_add(millis(delay)));
        let attempts = if ignore_attempt && item.attempt_count > 0 { -1 } else { 0 };
        (item.lock_token, item.locked_until) = (None, None);
        let until = now.saturating_add(PATIENCE_MS);
        let release = [locked(&item, attempts, Some(visible_at))];
        let written = self.store.write(&item.instance_id, &release, until).await;
        self.items.remove(token);
        self.dispatch.item_released(&item.id);
        match written {
            Ok(results) => {
                let etag = results.first().and_then(|it| it.etag().cloned());
                item.attempt_count = item.attempt_count.saturating_add_signed(attempts);
                item.visible_at = visible_at;
                let hint = ItemHint::of(&item, etag);
                self.dispatch.item_enqueued(hint, visible_at, self.store.now());
            }
            Err(failure) => match failure.cause {
                // It expires by itself.
                Cause::Ambiguous => {}
                Cause::Transient | Cause::Refused => {
                    return Err(failure.tell(ABANDON, &item.instance_id));
                }
                _ => return Err(gone(ABANDON, &item.instance_id)),
            },
        }
        Ok(())
    }

    /// The activity that a token has locked.
    pub(super) async fn held_item(
        &self,
        operation: &'static str,
        token: &str,
    ) -> Result<Arc<Mutex<WorkerDocument>>, ProviderError> {
        if let Some(held) = self.items.get(token) {
            return Ok(held);
        }
        let invalid = || ProviderError::permanent(operation, "Invalid lock token");
        let parsed: LockToken = token.parse().map_err(|_| invalid())?;
        let id = parsed.worker_item.as_ref().ok_or_else(invalid)?;
        let there: Option<Value> = self
            .store
            .read(&parsed.instance, id)
            .await
            .map_err(|failure| failure.tell(operation, &parsed.instance))?;
        // A tombstone has no lock: the activity was cancelled or finished.
        let there = there.filter(|there| there["lockToken"] == token).ok_or_else(invalid)?;
        let item: WorkerDocument = serde_json::from_value(there).map_err(|_| invalid())?;
        let (now, expires) = (self.store.now(), item.locked_until.unwrap_or_default());
        Ok(self.items.insert(token, item, expires, now))
    }

    pub(super) fn check_item(
        &self,
        operation: &'static str,
        token: &str,
        item: &WorkerDocument,
    ) -> Result<(), ProviderError> {
        let is_held = item.lock_token.as_deref() == Some(token) && item.is_locked(self.store.now());
        match is_held {
            true => Ok(()),
            false => {
                self.items.remove(token);
                Err(gone(operation, &item.instance_id))
            }
        }
    }
}

/// The activity was cancelled, or its lock expired: the worker's result is not wanted.
pub(super) fn gone(operation: &str, instance: &str) -> ProviderError {
    let sentence = format!("{instance}: the activity was cancelled or its lock has expired");
    ProviderError::permanent(operation, sentence)
}
