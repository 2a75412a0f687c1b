//! A turn that is handed to a dispatcher that waits: the batch that creates its message locks it too, so that nothing has
//! to be asked for and locked. So begins an orchestration; and so does a turn that follows an activity, an event or another
//! orchestration, if this process has committed the last one.

use std::sync::Arc;

use duroxide::providers::WorkItem;
use sidereal::BatchOperationResult;

use super::{LockPlan, ReadMessage, plan_created};
use crate::core::Core;
use crate::dispatch::{Claim, TurnReservation};
use crate::documents::{InstanceDocument, MessageDocument};
use crate::failure::{Cause, Failure};
use crate::work_items::is_start;
use crate::write::Write;

/// A dispatcher that waits, reserved for a message until it is written. Dropped before, it asks again.
#[derive(Debug)]
pub(crate) struct TurnOffer {
    core: Arc<Core>,
    token: String,
    /// None once it is taken.
    parts: Option<(LockPlan, Claim, TurnReservation)>,
}

impl TurnOffer {
    /// None if no dispatcher waits, or something else is known of the instance, or it cannot be locked without being read.
    pub(crate) fn of(core: &Arc<Core>, message: &MessageDocument, item: &WorkItem) -> Option<Self> {
        let (name, now) = (message.instance_id.as_str(), core.store.now());
        let is_whole = message.work_item.parts() == 0 && message.visible_at <= now;
        if !is_whole || core.replays.contains(name) == is_start(item) {
            return None;
        }
        let (claim, reservation) = core.dispatch.reserve_waiting(name, now)?;
        let known = core.replays.instance(name);
        let message = ReadMessage { document: message.clone(), item: item.clone() };
        let asked = reservation.terms.asked();
        let (plan, token) =
            core.with_new_token(name, asked, |terms| plan_created(known, message, terms));
        let Some(plan) = plan else {
            core.dispatch.end_turn_reservation(&reservation);
            return None;
        };
        Some(Self { core: Arc::clone(core), token, parts: Some((plan, claim, reservation)) })
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
        let (core, token) = (Arc::clone(&self.core), self.token.clone());
        self.core.spawn_to_the_end("hand_over", async move {
            match core.locked(plan, token.clone(), reservation.terms.asked()).await {
                Ok(turn) => {
                    claim.locked();
                    core.hand_turn(turn, &reservation).await;
                }
                Err(failure) => {
                    tracing::debug!(error = %failure.error(), "a turn is given back");
                    core.dispatch.end_turn_reservation(&reservation);
                    core.release_turn(&token).await;
                }
            }
        });
    }

    /// It may have been written: nobody works with the lock then.
    pub(crate) fn unknown(self) {
        self.core.spawn_release(self.token.clone());
    }
}

impl Drop for TurnOffer {
    fn drop(&mut self) {
        if let Some((_, _, reservation)) = self.parts.take() {
            self.core.dispatch.end_turn_reservation(&reservation);
        }
    }
}

impl Core {
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
}
