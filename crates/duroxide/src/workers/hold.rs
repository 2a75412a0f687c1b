//! The lock of an activity: renewed, or given back.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use serde_json::Value;
use tokio::sync::Mutex;

use super::{ActivityQueue, lock_write};
use crate::PATIENCE_MS;
use crate::clock::millis;
use crate::dispatch::ItemHint;
use crate::documents::WorkerDocument;
use crate::failure::Cause;
use crate::lock_token::LockToken;

const ABANDON: &str = "abandon_work_item";
const RENEW: &str = "renew_work_item_lock";
const KEEPER: &str = "extend_long_locks";

/// Locks that are at least so long are extended when they are half over.
const LONG_LOCK_MS: i64 = 15_000;

/// How often locks that are half over are looked for.
const KEEPER_INTERVAL: Duration = Duration::from_secs(1);

impl ActivityQueue {
    /// Extends the lock of an activity. The runtime cancels the activity after an error, so an outage is waited for.
    pub(crate) async fn renew_item(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let called = self.store.now();
        let held = self.held_item(RENEW, token).await?;
        let mut item = held.lock().await;
        self.check_item(RENEW, token, &item, called)?;
        let give_up = self.store.now().saturating_add(PATIENCE_MS);
        self.renew_lock(token, &mut item, extend_for, give_up).await?;
        let (until, now) = (item.locked_until.unwrap_or_default(), self.store.now());
        self.extend_midway(token, until, now);
        self.sessions.touch_session(item.session_id.as_deref()).await;
        Ok(())
    }

    /// Extends a lock, until it is extended, gone, or a moment has come. The etag fences what comes after an outage that was
    /// longer than the lock.
    async fn renew_lock(
        &self,
        token: &str,
        item: &mut WorkerDocument,
        extend_for: Duration,
        give_up: i64,
    ) -> Result<(), ProviderError> {
        let instance = item.instance_id.clone();
        let mut pauses = self.store.pauses();
        loop {
            let mut renewed = item.clone();
            let until = self.store.now().saturating_add(millis(extend_for));
            renewed.locked_until = renewed.locked_until.max(Some(until));
            let write = [lock_write(&renewed, 0, None)];
            let failure = match self.store.renew_once(&instance, &write).await {
                Ok(results) => {
                    renewed.etag = results.first().and_then(|it| it.etag().cloned());
                    *item = renewed;
                    break;
                }
                Err(failure) => failure,
            };
            match failure.cause {
                Cause::Transient => {}
                Cause::Ambiguous => {
                    *item = self.reread(token, item, give_up).await?;
                    if item.locked_until >= renewed.locked_until {
                        break;
                    }
                }
                Cause::Refused => return Err(failure.tell(RENEW, &instance)),
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                    self.items.remove(token);
                    return Err(gone(RENEW, &instance));
                }
            }
            if self.store.now() >= give_up {
                return Err(failure.tell(RENEW, &instance));
            }
            pauses.pause().await;
        }
        let until = item.locked_until.unwrap_or_default();
        self.items.extend(token, until);
        self.dispatch.item_taken(&item.id, until, self.store.now());
        Ok(())
    }

    /// After a renewal whose answer was lost: the activity as it is, if the token has it still.
    async fn reread(
        &self,
        token: &str,
        item: &WorkerDocument,
        give_up: i64,
    ) -> Result<WorkerDocument, ProviderError> {
        let store = self.store.brief();
        let read = || store.read::<WorkerDocument>(&item.instance_id, &item.id);
        let there = match store.patiently(give_up, read).await {
            Ok(there) => there,
            // A tombstone is not an activity.
            Err(failure) if failure.cause == Cause::Refused => None,
            Err(failure) => return Err(failure.tell(RENEW, &item.instance_id)),
        };
        there.filter(|there| there.lock_token.as_deref() == Some(token)).ok_or_else(|| {
            self.items.remove(token);
            gone(RENEW, &item.instance_id)
        })
    }

    /// Has the provider extend a long lock once when half of it is over: the runtime renews in its last seconds, and an outage
    /// that begins then would be longer than what is left. Only once, so that a worker that is gone does not keep it.
    pub(super) fn extend_midway(&self, token: &str, until: i64, now: i64) {
        let length = until.saturating_sub(now);
        if length >= LONG_LOCK_MS {
            self.items.extend_at(token, now + length / 2);
        }
    }

    /// Extends long locks of activities that are half over, until the provider is shut down.
    pub(crate) async fn extend_long_locks(self: Arc<Self>) {
        loop {
            tokio::time::sleep(KEEPER_INTERVAL).await;
            for (token, item) in self.items.take_due(self.store.now()) {
                let activities = Arc::clone(&self);
                self.tasks.spawn_metered(KEEPER, async move {
                    activities.extend_long_lock(&token, &item).await;
                });
            }
        }
    }

    /// Extends a lock by half of its length, unless the worker is renewing or ending it. Best effort: the runtime renews it.
    async fn extend_long_lock(&self, token: &str, item: &Mutex<WorkerDocument>) {
        let Ok(mut item) = item.try_lock() else { return };
        let now = self.store.now();
        let left = item.locked_until.unwrap_or_default().saturating_sub(now).max(0);
        if item.lock_token.as_deref() != Some(token) || left == 0 {
            return;
        }
        let length = Duration::from_millis(left.unsigned_abs()) * 2;
        let give_up = now.saturating_add(PATIENCE_MS);
        if let Err(error) = self.renew_lock(token, &mut item, length, give_up).await {
            tracing::debug!(%error, "the lock of an activity is left to its worker");
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
        let visible_at = delay.map_or(0, |delay| now.saturating_add(millis(delay)));
        let attempts = if ignore_attempt && item.attempt_count > 0 { -1 } else { 0 };
        (item.lock_token, item.locked_until, item.lock_owner) = (None, None, None);
        let until = now.saturating_add(PATIENCE_MS);
        let release = [lock_write(&item, attempts, Some(visible_at))];
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
        let (store, until) = (self.store.brief(), self.store.now().saturating_add(PATIENCE_MS));
        let there = store.patiently(until, || store.read::<Value>(&parsed.instance, id)).await;
        let there = there.map_err(|failure| failure.tell(operation, &parsed.instance))?;
        // A tombstone has no lock: the activity was cancelled or finished.
        let there = there.filter(|there| there["lockToken"] == token).ok_or_else(invalid)?;
        let item: WorkerDocument = serde_json::from_value(there).map_err(|_| invalid())?;
        let (now, expires) = (self.store.now(), item.locked_until.unwrap_or_default());
        Ok(self.items.insert(token, item, expires, now))
    }

    /// Refuses a lock that was gone when a call began. What was gone later than that, the etag tells.
    pub(super) fn check_item(
        &self,
        operation: &'static str,
        token: &str,
        item: &WorkerDocument,
        now: i64,
    ) -> Result<(), ProviderError> {
        let is_held = item.lock_token.as_deref() == Some(token) && item.lock().is_live(now);
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
