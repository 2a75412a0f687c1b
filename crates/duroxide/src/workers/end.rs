//! The end of an activity: it is removed, and its completion is enqueued.

use std::sync::Arc;

use duroxide::providers::{ProviderError, WorkItem};
use serde_json::Value;

use super::hold::gone;
use super::prefetch::{Beside, COMPLETION, Ended};
use super::{ActivityQueue, removed};
use crate::call::about_instance;
use crate::documents::{MessageDocument, PartDocument, WorkerDocument};
use crate::failure::{Cause, Failure};
use crate::fetch::TurnOffer;
use crate::work_items::{Enqueued, addressee, encode, message};
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

const ACK: &str = "ack_work_item";

impl ActivityQueue {
    /// Finishes an activity: it is removed, and its completion is enqueued, both or none.
    pub(crate) async fn ack_item(
        self: &Arc<Self>,
        token: &str,
        completion: Option<WorkItem>,
    ) -> Result<(), ProviderError> {
        let called = self.store.now();
        let held = self.held_item(ACK, token).await?;
        let item = held.lock().await;
        self.check_item(ACK, token, &item, called)?;
        let instance = &item.instance_id;
        about_instance(instance);
        let (completed, parts) = match &completion {
            Some(completion) => self.completion(token, &item, completion)?,
            None => (None, Vec::new()),
        };
        let mut message = completed;
        let tell = |failure: Failure| failure.tell(ACK, instance);
        // The etag fences what comes after the lock has ended.
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let batch = self.end_batch(&item, message.as_ref(), &parts, until).await.map_err(tell)?;
        // Until the end is written.
        let ending = self.fetches.end(token);
        // If others wait for the worker, its time counts more than the turn's: it does not wait for a lock.
        let is_last = ending.as_ref().is_none_or(|ending| !self.dispatch.has_items(&ending.terms));
        let claims = ending.as_ref().and_then(|ending| self.claim_ahead(&ending.terms, instance));
        let turn = message.as_ref().zip(completion.as_ref()).filter(|_| is_last);
        let turn = turn.and_then(|(message, item)| TurnOffer::of(&self.turns, message, item));
        match self.write_end(instance, &batch, Beside { turn, claims }, until).await {
            Ok(Ended { is_handed: true, .. }) => message = None,
            Ok(Ended { results, .. }) => {
                if let Some(message) = &mut message {
                    message.etag = results.get(COMPLETION).and_then(|it| it.etag().cloned());
                }
            }
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => return Err(tell(failure)),
                Cause::Ambiguous => self.end_again(token, &item, &batch, until).await?,
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                    self.items.remove(token);
                    return Err(gone(ACK, instance));
                }
            },
        }
        self.items.remove(token);
        self.dispatch.item_released(&item.id);
        if let Some(message) = message {
            self.turns.message_is_there(message, completion);
        }
        self.sessions.touch_session(item.session_id.as_deref()).await;
        Ok(())
    }

    /// The batch that ends an activity. Parts of the completion that do not fit into it are written before: without the
    /// completion they are not seen.
    async fn end_batch(
        &self,
        item: &WorkerDocument,
        message: Option<&MessageDocument>,
        parts: &[PartDocument],
        until: i64,
    ) -> Result<Vec<Write>, Failure> {
        let instance = &item.instance_id;
        let create = message.map(|message| Write::create(&message.id, message));
        let consumed = 0..item.work_item.parts();
        let consumed = consumed.map(|number| Write::bury_part(instance, &item.id, number));
        let mut batch: Vec<Write> =
            std::iter::once(removed(item)).chain(create).chain(consumed).collect();
        let parts: Vec<Write> = parts.iter().map(|part| Write::upsert(&part.id, part)).collect();
        if write::fits(&[batch.as_slice(), parts.as_slice()].concat()) {
            batch.extend(parts);
            return Ok(batch);
        }
        for chunk in write::chunks(parts, 0) {
            self.store.write(instance, &chunk, until).await?;
        }
        Ok(batch)
    }

    /// The completion of an activity, as a message to its instance.
    fn completion(
        &self,
        token: &str,
        item: &WorkerDocument,
        completion: &WorkItem,
    ) -> Result<(Option<MessageDocument>, Vec<PartDocument>), ProviderError> {
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
        let enqueued = Enqueued { now, seq, visible_at: 0, is_fenced: true, is_start: false };
        let (message, parts) = message(id, instance, encode(ACK, completion)?, enqueued);
        Ok((Some(message), parts))
    }

    /// After an answer that was lost: an activity that is still locked by the token was not ended, and is ended again.
    async fn end_again(
        &self,
        token: &str,
        item: &WorkerDocument,
        end: &[Write],
        until: i64,
    ) -> Result<(), ProviderError> {
        let (instance, store) = (&item.instance_id, self.store.brief());
        let tell = |failure: Failure| failure.tell(ACK, instance);
        let mut pauses = self.store.pauses();
        loop {
            let read = || store.read::<Value>(instance, &item.id);
            let there = store.patiently(until, read).await.map_err(tell)?;
            // Ended by this call, or by the worker that took the lock over: either way there is nothing left to do.
            if there.is_none_or(|there| there["lockToken"] != token) {
                return Ok(());
            }
            match self.store.write_once(instance, end).await {
                Ok(_) => return Ok(()),
                Err(failure) if failure.cause == Cause::Refused || self.store.now() >= until => {
                    return Err(tell(failure));
                }
                Err(_) => pauses.pause().await,
            }
        }
    }
}
