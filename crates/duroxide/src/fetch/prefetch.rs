//! Prefetch of a turn: while a dispatcher commits a turn, the one that it would be given next is locked for it. It asks right
//! after, so it waits for one request per turn instead of two.

use std::sync::Arc;

use super::TurnFetcher;
use crate::dispatch::{Claim, TurnReservation};
use crate::locks::is_late;
use crate::turn::{LockPlan, LockedTurn, TurnTerms};

impl TurnFetcher {
    /// Begins to lock the turn that a dispatcher would be given next.
    pub(crate) fn lock_ahead(self: &Arc<Self>, terms: &TurnTerms) {
        let now = self.store.now();
        let Some((claim, reservation)) = self.dispatch.reserve_turn(terms, now) else { return };
        let turns = Arc::clone(self);
        self.tasks
            .spawn_tracked("lock_ahead", async move { turns.lock_for(claim, reservation).await });
    }

    async fn lock_for(self: Arc<Self>, claim: Claim, reservation: TurnReservation) {
        let instance = claim.instance().to_owned();
        match self.fetch_claimed(claim, reservation.terms.asked()).await {
            Ok(Some(turn)) => self.hand_turn(turn, &reservation).await,
            Ok(None) => self.dispatch.end_turn_reservation(&reservation),
            Err(error) => {
                tracing::debug!(%error, "a turn is locked later");
                let now = self.store.now();
                self.dispatch.message_enqueued(&instance, None, now, now);
                self.dispatch.end_turn_reservation(&reservation);
            }
        }
    }

    /// Hands a turn to the dispatcher that it was locked for, and gives it back if that does not take it.
    pub(crate) async fn hand_turn(&self, turn: LockedTurn, reservation: &TurnReservation) {
        let (turn, lock_timeout) = (Box::new(turn), reservation.terms.lock_timeout);
        if is_late(turn.locked_until, lock_timeout, self.store.now()) {
            self.dispatch.end_turn_reservation(reservation);
            return self.release_turn(&turn.token).await;
        }
        if let Err(turn) = reservation.hand(turn) {
            return self.release_turn(&turn.token).await;
        }
        self.tasks.until_taken(reservation.left(), lock_timeout).await;
        if let Some(turn) = self.dispatch.withdraw_turn(reservation) {
            self.release_turn(&turn.token).await;
        }
    }

    /// Reads what a locked turn needs and hands it over, beside the calls. The claim of its instance ends with the turn then.
    pub(crate) fn spawn_hand_over(
        self: &Arc<Self>,
        plan: LockPlan,
        token: String,
        reservation: TurnReservation,
        claim: Option<Claim>,
    ) {
        let turns = Arc::clone(self);
        self.tasks.spawn_tracked("hand_over", async move {
            match turns.read_locked_turn(plan, token.clone(), reservation.terms.asked()).await {
                Ok(turn) => {
                    claim.into_iter().for_each(Claim::locked);
                    turns.hand_turn(turn, &reservation).await;
                }
                Err(failure) => {
                    tracing::debug!(error = %failure.error(), "a turn is given back");
                    turns.dispatch.end_turn_reservation(&reservation);
                    turns.release_turn(&token).await;
                }
            }
        });
    }

    /// Gives a turn back that may have been locked, beside the calls.
    pub(crate) fn spawn_release(self: &Arc<Self>, token: String) {
        let turns = Arc::clone(self);
        self.tasks.spawn_tracked("give_back", async move { turns.release_turn(&token).await });
    }

    /// A callback that gives a turn back whose dispatcher is gone.
    pub(super) fn give_back(self: &Arc<Self>) -> impl FnOnce(LockedTurn) + Send + use<> {
        let turns = Arc::clone(self);
        move |turn| turns.spawn_release(turn.token)
    }

    /// Gives a turn back without counting an attempt.
    pub(crate) async fn release_turn(&self, token: &str) {
        self.tasks.release(self.locks.abandon_turn(token, None, true)).await;
    }
}
