//! A turn that is handed to a dispatcher that waits: the batch that creates its message locks it too, so that nothing has
//! to be asked for and locked. So begins an orchestration; and so does a turn that follows an activity, an event or another
//! orchestration, if this process has committed the last one.

use std::sync::Arc;

use duroxide::providers::WorkItem;
use sidereal::BatchOperationResult;

use super::TurnFetcher;
use crate::dispatch::{Claim, TurnReservation};
use crate::documents::{InstanceDocument, MessageDocument};
use crate::failure::{Cause, Failure};
use crate::turn::{LockPlan, ReadMessage, plan_created};
use crate::work_items::{is_of_client, is_start};
use crate::write::Write;

/// A dispatcher that waits, reserved for a message until it is written. Dropped before, it asks again.
#[derive(Debug)]
pub(crate) struct TurnOffer {
    turns: Arc<TurnFetcher>,
    token: String,
    /// None once it is taken.
    parts: Option<(LockPlan, Claim, TurnReservation)>,
}

impl TurnOffer {
    /// None if no dispatcher waits, or something else is known of the instance, or it cannot be locked without being read.
    pub(crate) fn of(
        turns: &Arc<TurnFetcher>,
        message: &MessageDocument,
        item: &WorkItem,
    ) -> Option<Self> {
        let (name, now) = (message.instance_id.as_str(), turns.store.now());
        let is_whole = message.work_item.parts() == 0 && message.visible_at <= now;
        if !is_whole || turns.replays.contains(name) == is_start(item) {
            return None;
        }
        let (claim, reservation) = turns.dispatch.reserve_waiting(name, now)?;
        let known = turns.replays.instance(name);
        let message = ReadMessage { document: message.clone(), item: item.clone() };
        let asked = reservation.terms.asked();
        let (plan, token) =
            turns.with_new_token(name, asked, |terms| plan_created(known, message, terms));
        let Some(plan) = plan else {
            turns.dispatch.end_turn_reservation(&reservation);
            return None;
        };
        Some(Self { turns: Arc::clone(turns), token, parts: Some((plan, claim, reservation)) })
    }

    /// The change of the instance, and the creation of the message.
    pub(crate) fn writes(&self) -> &[Write] {
        self.parts.as_ref().map_or(&[], |(plan, ..)| &plan.writes)
    }

    /// The instance as it will be.
    pub(crate) fn instance(&self) -> Option<&InstanceDocument> {
        self.parts.as_ref().map(|(plan, ..)| &plan.instance)
    }

    /// It was written: the dispatcher is given the turn.
    pub(crate) fn written(mut self, instance: Option<&BatchOperationResult>) {
        let Some((mut plan, claim, reservation)) = self.parts.take() else { return };
        plan.instance.etag = instance.and_then(|it| it.etag().cloned());
        self.turns.spawn_hand_over(plan, self.token.clone(), reservation, Some(claim));
    }

    /// It may have been written: the lock is given back.
    pub(crate) fn unknown(self) {
        self.turns.spawn_release(self.token.clone());
    }
}

impl Drop for TurnOffer {
    fn drop(&mut self) {
        if let Some((_, _, reservation)) = self.parts.take() {
            self.turns.dispatch.end_turn_reservation(&reservation);
        }
    }
}

impl TurnFetcher {
    /// Creates a message, locked for a dispatcher that waits. Says whether that was done. If not, the message is to be
    /// created as any other; it may be there already.
    pub(crate) async fn create_locked(
        self: &Arc<Self>,
        message: &MessageDocument,
        item: &WorkItem,
    ) -> Result<bool, Failure> {
        let Some(offer) = TurnOffer::of(self, message, item) else { return Ok(false) };
        match self.store.write_once(&message.instance_id, offer.writes()).await {
            Ok(results) => {
                offer.written(results.first());
                Ok(true)
            }
            // The message alone would be refused as well.
            Err(failure) if failure.cause == Cause::Refused && !failure.can_never_succeed() => {
                Err(failure)
            }
            Err(failure) => {
                match failure.cause {
                    Cause::Ambiguous => offer.unknown(),
                    // Another process has changed the instance since this one has.
                    _ if failure.position == Some(0) => self.replays.forget(&message.instance_id),
                    _ => {}
                }
                Ok(false)
            }
        }
    }

    /// Tells the dispatchers of a message that this process has written.
    pub(crate) fn message_is_there(&self, document: MessageDocument, item: Option<WorkItem>) {
        let (now, visible_at) = (self.store.now(), document.visible_at);
        let instance = document.instance_id.clone();
        let is_known = document.etag.is_some() && document.work_item.parts() == 0;
        let is_likely =
            !item.as_ref().is_some_and(is_of_client) || self.replays.contains(&instance);
        let known = item.filter(|_| is_known).map(|item| ReadMessage { document, item });
        match is_likely {
            true => self.dispatch.message_enqueued(&instance, known, visible_at, now),
            false => self.dispatch.message_of_unknown(&instance, known, visible_at, now),
        }
    }
}
