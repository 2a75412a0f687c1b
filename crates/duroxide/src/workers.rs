//! Activities: fetched, finished, renewed and given back by workers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::call::about_instance;
use crate::core::Core;
use crate::dispatch::{Handed, ItemHint, ParkedWorker, Wanted};
use crate::documents::{
    MessageDocument, PartDocument, Payload, TombstoneDocument, WorkerDocument, kinds,
};
use crate::failure::{Cause, Failure};
use crate::leases::{ALL_SLOTS, Slots, caller_id};
use crate::lock_token::LockToken;
use crate::store::{Scope, millis};
use crate::work_items::{Enqueued, addressee, encode, message};
use crate::write::{self, Change, Write};
use crate::{PATIENCE_MS, ids};

const FETCH: &str = "fetch_work_item";
const ACK: &str = "ack_work_item";
const ABANDON: &str = "abandon_work_item";
const RENEW: &str = "renew_work_item_lock";

/// How many candidates are read at once.
const CANDIDATE_PAGE: u32 = 50;

/// When an activity is tried again whose session another worker has.
const TAKEN_SESSION_MS: i64 = 250;

/// What a worker is given: the activity, its token, how often it was tried.
pub(crate) type FetchedItem = (WorkItem, String, u32);

impl Core {
    /// Fetches an activity.
    pub(crate) async fn fetch_item(
        self: &Arc<Self>,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<FetchedItem>, ProviderError> {
        if matches!(tags, TagFilter::None) {
            return Ok(None);
        }
        let found = match poll_timeout.is_zero() || self.is_short_poll {
            true => self.look_for_item_in_slots(lock_timeout, session, tags).await,
            false => self.wait_for_item(lock_timeout, poll_timeout, session, tags).await,
        };
        found.map_err(|failure| failure.tell(FETCH, "candidates"))
    }

    /// Waits for an activity: one that is handed over, or one that a hint is about.
    async fn wait_for_item(
        self: &Arc<Self>,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<FetchedItem>, Failure> {
        let end = tokio::time::Instant::now() + poll_timeout;
        loop {
            let wanted = Wanted { tags, sessions: session.is_some() };
            match self.dispatch.next_item(wanted, millis(lock_timeout)) {
                Ok(hint) => {
                    if let Some(item) = self.claim_hinted(hint, lock_timeout, session).await? {
                        return Ok(Some(item));
                    }
                }
                Err(parked) => {
                    let waiting = Waiting { core: self, parked };
                    let is_over =
                        tokio::time::timeout_at(end, waiting.parked.wait()).await.is_err();
                    if let Some(handed) = waiting.parked.leave() {
                        return Ok(Some(self.accept(*handed)));
                    }
                    if is_over {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Takes over an activity that was locked for this worker when it was scheduled.
    fn accept(&self, handed: Handed) -> FetchedItem {
        let Handed { work_item, token, document } = handed;
        // Without its version it is read again when it is needed.
        if document.etag.is_some() {
            let (expires, now) = (document.locked_until.unwrap_or_default(), self.store.now());
            self.items.insert(&token, document, expires, now);
        }
        (work_item, token, 1)
    }

    /// Releases an activity that was locked for a worker that is gone.
    pub(crate) fn give_back(self: &Arc<Self>, handed: Box<Handed>) {
        let core = Arc::clone(self);
        self.spawn(async move {
            let (_, token, _) = core.accept(*handed);
            if let Err(error) = core.abandon_item(&token, None, true).await {
                tracing::debug!(%error, "an activity that nobody took waits for its lock to end");
            }
        });
    }

    /// Claims an activity that a hint is about.
    async fn claim_hinted(
        &self,
        hint: ItemHint,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
    ) -> Result<Option<FetchedItem>, Failure> {
        if let (Some(id), Some(config)) = (&hint.session, session)
            && !self.claim_session(id, config).await?
        {
            // Another worker has the session, perhaps one of this process.
            let now = self.store.now();
            self.dispatch.item_enqueued(hint, now.saturating_add(TAKEN_SESSION_MS), now);
            return Ok(None);
        }
        let item = match hint.document {
            Some(document) => *document,
            None => match self.read_item(&hint.instance, &hint.id).await? {
                Some(item) if !item.is_locked(self.store.now()) => item,
                _ => return Ok(None),
            },
        };
        match self.is_committed(&item).await? {
            true => self.claim_item(item, lock_timeout).await,
            false => Ok(None),
        }
    }

    /// Reads an activity; none if it was finished or cancelled.
    async fn read_item(&self, instance: &str, id: &str) -> Result<Option<WorkerDocument>, Failure> {
        let there: Option<Value> = self.store.read(instance, id).await?;
        let there = there.filter(|there| there["type"] == kinds::WORKER_ITEM);
        Ok(there.and_then(|there| self.store.readable(there)))
    }

    /// Looks once: with short polls in the slots of the worker first, then everywhere.
    async fn look_for_item_in_slots(
        &self,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<FetchedItem>, Failure> {
        if self.is_short_poll {
            let slots = self.worker_leases.acquire_slots(caller_id()).await;
            let slots: Slots = slots.into_iter().collect();
            if !slots.is_all()
                && let Some(item) = self.look_for_item(lock_timeout, session, tags, slots).await?
            {
                return Ok(Some(item));
            }
        }
        self.look_for_item(lock_timeout, session, tags, ALL_SLOTS).await
    }

    async fn look_for_item(
        &self,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
        slots: Slots,
    ) -> Result<Option<FetchedItem>, Failure> {
        let (text, names) = candidates(session.is_some(), tags, slots);
        let parameters = [
            ("@now", json!(self.store.now())),
            ("@tags", json!(names)),
            ("@slots", json!(slots.to_vec())),
        ];
        let query = self.store.query(Scope::Everything, &text, &parameters);
        let mut pages = query.with_page_size(CANDIDATE_PAGE).pages::<Value>();
        let mut taken_sessions = HashSet::new();
        while let Some(page) = pages.next().await {
            let rows = self.store.counted_page(page)?.into_items();
            let readable = rows.into_iter().filter_map(|row| self.store.readable(row));
            let mut items: Vec<WorkerDocument> = readable.collect();
            items.sort_by(|one, other| one.order().cmp(&other.order()));
            for item in items {
                let is_taken =
                    item.session_id.as_ref().is_some_and(|id| taken_sessions.contains(id));
                if is_taken || !self.is_committed(&item).await? {
                    continue;
                }
                if let (Some(id), Some(config)) = (&item.session_id, session)
                    && !self.claim_session(id, config).await?
                {
                    taken_sessions.insert(id.clone());
                    continue;
                }
                if let Some(fetched) = self.claim_item(item, lock_timeout).await? {
                    return Ok(Some(fetched));
                }
            }
        }
        Ok(None)
    }

    /// Whether an activity of a turn that was written in several batches counts.
    async fn is_committed(&self, item: &WorkerDocument) -> Result<bool, Failure> {
        if item.staged_turn.is_none() {
            return Ok(true);
        }
        let instance = self.read_instance(&item.instance_id).await?;
        Ok(instance.is_some_and(|instance| instance.has_committed(item.staged_turn)))
    }

    /// Locks an activity; none if another worker was faster.
    async fn claim_item(
        &self,
        mut item: WorkerDocument,
        lock_timeout: Duration,
    ) -> Result<Option<FetchedItem>, Failure> {
        let nonce = self.store.clock().new_id();
        let (instance, worker_item) = (item.instance_id.clone(), Some(item.id.clone()));
        let token = LockToken { instance: instance.clone(), worker_item, nonce }.to_string();
        let text = self.text_of(&instance, &item.id, &item.work_item).await?;
        let work_item: WorkItem = match serde_json::from_str(&text) {
            Ok(work_item) => work_item,
            Err(error) => {
                tracing::error!(instance, id = item.id, %error, "an activity cannot be read and is left out");
                return Ok(None);
            }
        };
        // The lease begins with the claim, however long the search took.
        let now = self.store.now();
        item.locked_until = Some(now.saturating_add(millis(lock_timeout)));
        item.lock_token = Some(token.clone());
        let lock = locked(&item, 1, None);
        item.attempt_count += 1;
        match self.store.write_once(&instance, &[lock]).await {
            Ok(results) => item.etag = results.first().and_then(|it| it.etag().cloned()),
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
        let (attempts, expires) = (item.attempt_count, item.locked_until.unwrap_or_default());
        self.dispatch.item_taken(&item.id, expires, now);
        self.items.insert(&token, item, expires, now);
        Ok(Some((work_item, token, attempts)))
    }

    /// Finishes an activity: it is removed, and its completion is enqueued, both or none.
    pub(crate) async fn ack_item(
        self: &Arc<Self>,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        let held = self.held_item(ACK, token).await?;
        let item = held.lock().await;
        self.check_item(ACK, token, &item)?;
        let instance = &item.instance_id;
        about_instance(instance);
        let mut batch = vec![removed(&item)];
        let (mut parts, mut message) = (Vec::new(), None);
        if let Some(completion) = &completion {
            let (document, its_parts) = self.completion(token, &item, completion)?;
            batch.push(Write::create(&document.id, &document));
            (message, parts) = (Some(document), its_parts);
        }
        let tell = |failure: Failure| failure.tell(ACK, instance);
        let until =
            self.store.now().saturating_add(PATIENCE_MS).min(item.locked_until.unwrap_or(0));
        let parts: Vec<Write> = parts.iter().map(|part| Write::upsert(&part.id, part)).collect();
        let is_whole = write::fits(&[batch.as_slice(), parts.as_slice()].concat());
        match is_whole {
            true => batch.extend(parts),
            // Nobody sees them without the completion.
            false => {
                for chunk in write::chunks(parts, 0) {
                    self.store.write(instance, &chunk, until).await.map_err(tell)?;
                }
            }
        }
        match self.store.write(instance, &batch, until).await {
            Ok(results) => {
                if let Some(message) = &mut message {
                    message.etag = results.get(1).and_then(|it| it.etag().cloned());
                }
            }
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => return Err(tell(failure)),
                Cause::Ambiguous => self.check_removed(token, &item, failure).await?,
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                    self.items.remove(token);
                    return Err(gone(ACK, instance));
                }
            },
        }
        self.items.remove(token);
        self.dispatch.item_released(&item.id);
        if let Some(message) = message {
            self.message_is_there(message, completion);
        }
        self.touch_session(item.session_id.as_deref()).await;
        self.remove_parts(instance, &item.id, &item.work_item);
        Ok(())
    }

    /// The completion of an activity, as a message to its instance.
    fn completion(
        &self,
        token: &str,
        item: &WorkerDocument,
        completion: &WorkItem,
    ) -> Result<(MessageDocument, Vec<PartDocument>), ProviderError> {
        let is_completion = matches!(
            completion,
            WorkItem::ActivityCompleted { .. } | WorkItem::ActivityFailed { .. }
        );
        let instance = &item.instance_id;
        if !is_completion || addressee(completion) != Some(instance.as_str()) {
            let sentence = "an activity ends with a completion for its own instance";
            return Err(ProviderError::permanent(ACK, sentence));
        }
        let nonce = token.rsplit('.').next().unwrap_or_default();
        let id = format!("{}:completion:{nonce}", ids::part(instance));
        let now = self.store.now();
        let seq = self.store.clock().next_sequences(1);
        let enqueued = Enqueued { now, seq, visible_at: now, is_fenced: true };
        Ok(message(id, instance, encode(ACK, completion)?, enqueued))
    }

    /// After an answer that was lost: an activity that is still locked by the token was not finished.
    async fn check_removed(
        &self,
        token: &str,
        item: &WorkerDocument,
        failure: Failure,
    ) -> Result<(), ProviderError> {
        let tell = |failure: Failure| failure.tell(ACK, &item.instance_id);
        let there: Option<Value> =
            self.store.read(&item.instance_id, &item.id).await.map_err(tell)?;
        match there.is_some_and(|there| there["lockToken"] == token) {
            true => Err(tell(failure)),
            // Finished by this call, or by whoever took the lock over: either way there is nothing left to do.
            false => Ok(()),
        }
    }

    /// The parts of a payload whose document is gone. Best effort: they are seen by nobody.
    pub(crate) fn remove_parts(self: &Arc<Self>, instance: &str, owner: &str, payload: &Payload) {
        let part = |number| Write::delete(&ids::payload_part(owner, number), None);
        let parts: Vec<Write> = (0..payload.parts()).map(part).collect();
        if parts.is_empty() {
            return;
        }
        let (core, instance) = (Arc::clone(self), instance.to_owned());
        self.spawn(async move {
            if let Err(failure) = core.remove_all(&instance, parts).await {
                tracing::debug!(instance, error = %failure.error(), "parts of a payload stay");
            }
        });
    }

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
                    return self.reread_renewed(token, &mut item, failure).await;
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
            Some(there) => {
                *item = there;
                Ok(())
            }
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
    async fn held_item(
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

    fn check_item(
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

/// A worker that waits, until it is dropped: by its runtime, perhaps, just when an activity is handed to it.
struct Waiting<'a> {
    core: &'a Arc<Core>,
    parked: ParkedWorker,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(handed) = self.parked.leave() {
            self.core.give_back(handed);
        }
    }
}

/// The query for activities that wait, and the tags it is about.
fn candidates(with_sessions: bool, tags: &TagFilter, slots: Slots) -> (String, Vec<String>) {
    let mut text = String::from(
        "SELECT * FROM c WHERE c.type = 'worker_queue' AND c.visibleAt <= @now \
         AND (IS_NULL(c.lockedUntil) OR c.lockedUntil <= @now)",
    );
    if !slots.is_all() {
        text.push_str(" AND ARRAY_CONTAINS(@slots, c.dispatchSlot)");
    }
    if !with_sessions {
        text.push_str(" AND IS_NULL(c.sessionId)");
    }
    let names = match tags {
        TagFilter::Tags(names) => {
            text.push_str(" AND ARRAY_CONTAINS(@tags, c.tag)");
            names.iter().cloned().collect()
        }
        TagFilter::DefaultAnd(names) => {
            text.push_str(" AND (IS_NULL(c.tag) OR ARRAY_CONTAINS(@tags, c.tag))");
            names.iter().cloned().collect()
        }
        TagFilter::DefaultOnly => {
            text.push_str(" AND IS_NULL(c.tag)");
            Vec::new()
        }
        TagFilter::Any | TagFilter::None => Vec::new(),
    };
    text.push_str(" ORDER BY c.enqueuedAt");
    (text, names)
}

/// The lock of an activity as it is to be.
pub(crate) fn locked(item: &WorkerDocument, attempts: i32, visible_at: Option<i64>) -> Write {
    let change = Change::Lock {
        token: item.lock_token.clone(),
        until: item.locked_until,
        attempts,
        visible_at,
        if_match: item.etag.clone(),
    };
    Write { id: item.id.clone(), change }
}

/// Removes a finished activity. What could be created a second time leaves a tombstone.
pub(crate) fn removed(item: &WorkerDocument) -> Write {
    match item.is_fenced {
        true => Write::delete(&item.id, item.etag.clone()),
        false => {
            let tombstone = TombstoneDocument::of(&item.instance_id, &item.id);
            Write::replace(&item.id, &tombstone, item.etag.clone())
        }
    }
}

/// The activity was cancelled, or its lock expired: the worker's result is not wanted.
fn gone(operation: &str, instance: &str) -> ProviderError {
    let sentence = format!("{instance}: the activity was cancelled or its lock has expired");
    ProviderError::permanent(operation, sentence)
}
