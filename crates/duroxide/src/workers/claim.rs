//! Locking an activity for a worker.

use std::time::Duration;

use duroxide::providers::{SessionFetchConfig, WorkItem};
use serde_json::Value;

use super::{ActivityQueue, lock_write};
use crate::cache::Version;
use crate::call::about_instance;
use crate::clock::millis;
use crate::dispatch::{Claimed, ItemHint};
use crate::documents::{InstanceDocument, WorkerDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::lock_token::LockToken;
use crate::sessions::SessionClaim;
use crate::telemetry::{Occurrence, Queue, Retried};
use crate::write::Write;

/// When an activity is tried again whose session was changed by another worker just now.
const CHANGED_SESSION_MS: i64 = 250;

/// When an activity is tried again whose turn is being committed: the process that commits it is told at once.
const UNCOMMITTED_MS: i64 = 1_000;

/// When an activity is tried again that cannot be read.
const UNREADABLE_MS: i64 = 10_000;

impl ActivityQueue {
    /// Claims an activity that a hint is about.
    pub(super) async fn claim_hinted(
        &self,
        hint: ItemHint,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
    ) -> Result<Option<Claimed>, Failure> {
        if let (Some(id), Some(config)) = (&hint.session, session) {
            let claim = self.sessions.claim_session(id, config).await?;
            let now = self.store.now();
            match claim {
                SessionClaim::Claimed => {}
                // It waits for the worker that has it, or for the end of its lock.
                SessionClaim::Held => {
                    self.dispatch.item_enqueued(hint, now, now);
                    return Ok(None);
                }
                SessionClaim::Changed => {
                    let visible_at = now.saturating_add(CHANGED_SESSION_MS);
                    self.dispatch.item_enqueued(hint, visible_at, now);
                    return Ok(None);
                }
            }
        }
        let item = match hint.document {
            Some(document) => *document,
            None => match self.read_item(&hint.instance, &hint.id).await? {
                Some(item)
                    if !item.lock().holds(&self.processes.lock_view(self.store.lock_time())) =>
                {
                    item
                }
                _ => return Ok(None),
            },
        };
        match self.is_committed(&item).await? {
            true => self.claim_item(item, lock_timeout).await,
            false => {
                self.leave_alone(&item.id, UNCOMMITTED_MS);
                Ok(None)
            }
        }
    }

    /// Reads an activity; none if it was finished or cancelled.
    async fn read_item(&self, instance: &str, id: &str) -> Result<Option<WorkerDocument>, Failure> {
        let there: Option<Value> = self.store.read(instance, id).await?;
        let there = there.filter(|there| there["type"] == kinds::WORKER_ITEM);
        let Some(there) = there else { return Ok(None) };
        let item = self.store.readable(there);
        if item.is_none() {
            self.leave_alone(id, UNREADABLE_MS);
        }
        Ok(item)
    }

    /// Has an activity not tried for a while that cannot be claimed: every look would find it again.
    fn leave_alone(&self, id: &str, pause_ms: i64) {
        let now = self.store.now();
        self.dispatch.item_unready(id, now.saturating_add(pause_ms), now);
    }

    /// Whether an activity of a turn that was written in several batches counts.
    pub(super) async fn is_committed(&self, item: &WorkerDocument) -> Result<bool, Failure> {
        if item.staged_turn.is_none() {
            return Ok(true);
        }
        let instance = self.store.read_instance(&item.instance_id).await?;
        Ok(instance.is_some_and(|instance| instance.has_committed(item.staged_turn)))
    }

    /// Locks an activity; none if another worker was faster.
    pub(super) async fn claim_item(
        &self,
        mut item: WorkerDocument,
        lock_timeout: Duration,
    ) -> Result<Option<Claimed>, Failure> {
        let nonce = self.store.clock().new_id();
        let (instance, worker_item) = (item.instance_id.clone(), Some(item.id.clone()));
        let token = LockToken { instance: instance.clone(), worker_item, nonce }.to_string();
        let text = self.store.text_of(&instance, &item.id, &item.work_item).await?;
        let work_item: WorkItem = match serde_json::from_str(&text) {
            Ok(work_item) => work_item,
            Err(error) => {
                tracing::error!(instance, id = item.id, %error, "an activity cannot be read and is left out");
                self.leave_alone(&item.id, UNREADABLE_MS);
                return Ok(None);
            }
        };
        // The lease begins with the claim, however long the search took.
        let now = self.store.now();
        if item.lock().is_live(now) {
            self.store.telemetry.occurred(Occurrence::LockTakenOver);
        }
        item.lock_token = Some(token.clone());
        item.locked_until = Some(now.saturating_add(millis(lock_timeout)));
        item.lock_owner = self.processes.name();
        let lock = lock_write(&item, 1, None);
        item.attempt_count += 1;
        let mut seen = None;
        match self.lock_item(&instance, lock).await {
            Ok(locked) => (item.etag, seen) = (locked.etag, locked.seen),
            Err(failure) => match failure.cause {
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => return Ok(None),
                Cause::Ambiguous => {
                    let there: Option<WorkerDocument> =
                        self.store.read(&instance, &item.id).await?;
                    match there.filter(|there| there.lock_token == item.lock_token) {
                        Some(there) => item = there,
                        None => return Ok(None),
                    }
                }
                Cause::Transient | Cause::Refused => return Err(failure),
            },
        }
        about_instance(&instance);
        Ok(Some(self.note_claim(item, work_item, seen, now)))
    }

    /// Takes note of an activity that is locked.
    pub(crate) fn note_claim(
        &self,
        item: WorkerDocument,
        work_item: WorkItem,
        seen: Option<Version>,
        now: i64,
    ) -> Claimed {
        let ready = item.visible_at.max(item.enqueued_at);
        self.store.telemetry.claimed(Queue::Worker, now.saturating_sub(ready));
        if item.attempt_count > 1 {
            self.store.telemetry.retried(Retried::Activity);
        }
        let token = item.lock_token.clone().unwrap_or_default();
        let (attempts, instance) = (item.attempt_count, item.instance_id.clone());
        let locked_until = item.locked_until.unwrap_or_default();
        self.dispatch.item_taken(&item.id, locked_until, now);
        // Without its version it is read again when it is needed: what ends it is conditional.
        if item.etag.is_some() {
            self.items.insert(&token, item, locked_until, now);
            self.extend_midway(&token, locked_until, now);
        }
        Claimed { work_item, token, attempts, locked_until, instance, seen }
    }

    /// Writes a lock. If the history of the instance is known, the same batch reads the instance, so that the worker's
    /// read of the history is answered without a request.
    async fn lock_item(&self, instance: &str, lock: Write) -> Result<Locked, Failure> {
        let writes = [lock];
        if self.replays.contains(instance) {
            let id = ids::instance(instance);
            match self.store.write_and_read::<InstanceDocument>(instance, &writes, &id).await {
                Ok((results, there)) => {
                    let etag = results.first().and_then(|it| it.etag().cloned());
                    let there = there.filter(|there| !there.is_deleting);
                    return Ok(Locked { etag, seen: there.as_ref().map(Version::of) });
                }
                // Nothing was written, since there is no instance any more.
                Err(failure)
                    if failure.cause == Cause::NotFound
                        && failure.position == Some(writes.len()) =>
                {
                    self.replays.forget(instance);
                }
                Err(failure) => return Err(failure),
            }
        }
        let results = self.store.write_once(instance, &writes).await?;
        let etag = results.first().and_then(|it| it.etag().cloned());
        Ok(Locked { etag, seen: None })
    }
}

/// A lock that was written.
struct Locked {
    etag: Option<sidereal_protocol::Etag>,
    /// The instance as it was then.
    seen: Option<Version>,
}
