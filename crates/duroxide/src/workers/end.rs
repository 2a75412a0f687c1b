//! The end of an activity: it is removed, and its completion is enqueued.

use std::sync::Arc;

use duroxide::providers::{ProviderError, WorkItem};
use serde_json::Value;

use super::ahead::{Beside, COMPLETION, Ended};
use super::hold::gone;
use super::removed;
use crate::call::about_instance;
use crate::core::Core;
use crate::documents::{MessageDocument, PartDocument, Payload, WorkerDocument};
use crate::failure::{Cause, Failure};
use crate::fetch::TurnOffer;
use crate::work_items::{Enqueued, addressee, encode, message};
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

const ACK: &str = "ack_work_item";

impl Core {
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
        // Until the end is written.
        let ending = self.fetches.end(token);
        // If others wait for the worker, its time counts more than the turn's: it does not wait for a lock.
        let is_last = ending.as_ref().is_none_or(|ending| !self.dispatch.has_items(&ending.terms));
        let claims = ending.as_ref().and_then(|ending| self.claim_ahead(&ending.terms, instance));
        let turn = message.as_ref().zip(completion.as_ref()).filter(|_| is_last);
        let turn = turn.and_then(|(message, item)| TurnOffer::of(self, message, item));
        match self.write_end(instance, &batch, Beside { turn, claims }, until).await {
            Ok(Ended { is_handed: true, .. }) => message = None,
            Ok(Ended { results, .. }) => {
                if let Some(message) = &mut message {
                    message.etag = results.get(COMPLETION).and_then(|it| it.etag().cloned());
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
        self.spawn_metered("clean_up", async move {
            if let Err(failure) = core.remove_all(&instance, parts).await {
                tracing::debug!(instance, error = %failure.error(), "parts of a payload stay");
            }
        });
    }
}
