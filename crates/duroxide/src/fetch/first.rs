//! The first turn of an instance, handed to a dispatcher that waits: the batch that enqueues the start creates the
//! instance locked for it, so that nothing has to be asked for and locked.

use std::sync::Arc;

use duroxide::providers::WorkItem;

use super::{LockPlan, ReadMessage, plan_first};
use crate::core::Core;
use crate::dispatch::{Claim, TurnReservation};
use crate::documents::MessageDocument;
use crate::failure::Cause;

/// A dispatcher that waits, reserved for a start until it is written. Dropped before, it asks again.
struct Offer<'a> {
    core: &'a Core,
    reservation: Option<TurnReservation>,
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.core.dispatch.end_turn_reservation(&reservation);
        }
    }
}

impl Core {
    /// Enqueues the start of an instance, locked for a dispatcher that waits. Says whether that was done. If not, the
    /// message is to be enqueued as any other; it may be there already.
    pub(crate) async fn enqueue_locked(
        self: &Arc<Self>,
        document: &MessageDocument,
        item: &WorkItem,
    ) -> bool {
        let instance = document.instance_id.as_str();
        let reserved = self.dispatch.reserve_start(instance, self.store.now());
        let Some((claim, reservation)) = reserved else { return false };
        let terms = reservation.terms.clone();
        let mut offer = Offer { core: self, reservation: Some(reservation) };
        let start = ReadMessage { document: document.clone(), item: item.clone() };
        let (mut plan, token) =
            self.with_new_token(instance, terms.asked(), |terms| plan_first(start, terms));
        match self.store.write_once(instance, &plan.writes).await {
            Ok(results) => plan.instance.etag = results.first().and_then(|it| it.etag().cloned()),
            Err(failure) => {
                // Nobody works with the lock, if it was got.
                if failure.cause == Cause::Ambiguous {
                    self.spawn_release(token);
                }
                return false;
            }
        }
        if let Some(reservation) = offer.reservation.take() {
            self.hand_first(plan, token, claim, reservation).await;
        }
        true
    }

    async fn hand_first(
        self: &Arc<Self>,
        plan: LockPlan,
        token: String,
        claim: Claim,
        reservation: TurnReservation,
    ) {
        match self.locked(plan, token.clone(), reservation.terms.asked()).await {
            Ok(turn) => {
                claim.locked();
                let core = Arc::clone(self);
                let hand = async move { core.hand_turn(turn, &reservation).await };
                self.spawn_to_the_end("hand_over", hand);
            }
            // Nothing is read for a first turn.
            Err(failure) => {
                tracing::debug!(error = %failure.error(), "a first turn is given back");
                self.dispatch.end_turn_reservation(&reservation);
                self.spawn_release(token);
            }
        }
    }
}
