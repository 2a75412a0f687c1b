//! Prefetching, of one turn: while a dispatcher commits a turn, the one that it would be given next is locked for it. It
//! asks right after, so it waits for one request per turn instead of two.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;

use super::terms::{Asked, LockedTurn, TurnTerms};
use crate::core::Core;
use crate::dispatch::{Claim, ParkedDispatcher, TurnReservation};
use crate::prefetch::is_late;

impl Core {
    /// Waits for a turn: one that was locked ahead, or one that a hint is about.
    pub(super) async fn wait_for_turn(
        self: &Arc<Self>,
        asked: Asked<'_>,
        poll_timeout: Duration,
    ) -> Result<Option<LockedTurn>, ProviderError> {
        let end = tokio::time::Instant::now() + poll_timeout;
        let mut pauses = self.store.pauses();
        loop {
            match self.dispatch.next_turn(asked.terms, self.store.now()) {
                Ok(claim) => {
                    let instance = claim.instance().to_owned();
                    let (core, asked) = (Arc::clone(self), asked.kept());
                    let fetch = async move { core.fetch_claimed(claim, asked.asked()).await };
                    match self.claim_to_the_end(give_back, Box::pin(fetch)).await {
                        Ok(Some(turn)) => return Ok(Some(turn)),
                        Ok(None) => pauses = self.store.pauses(),
                        // The runtime would wait for seconds.
                        Err(error) if error.is_retryable() && tokio::time::Instant::now() < end => {
                            let now = self.store.now();
                            self.dispatch.message_enqueued(&instance, None, now, now);
                            pauses.pause().await;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(parked) => {
                    let waiting = Waiting { core: self, parked };
                    let is_over =
                        tokio::time::timeout_at(end, waiting.parked.wait()).await.is_err();
                    if let Some(turn) = waiting.parked.leave() {
                        // The dispatcher may have been paused since it was handed over.
                        if !is_late(turn.locked_until, asked.lock_timeout, self.store.now()) {
                            return Ok(Some(*turn));
                        }
                        self.spawn_release(turn.token);
                    }
                    if is_over {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Begins to lock the turn that a dispatcher would be given next.
    pub(crate) fn lock_ahead(self: &Arc<Self>, terms: &TurnTerms) {
        let now = self.store.now();
        let Some((claim, reservation)) = self.dispatch.reserve_turn(terms, now) else { return };
        let core = Arc::clone(self);
        self.spawn_to_the_end("lock_ahead", async move { core.lock_for(claim, reservation).await });
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
        if let Err(turn) = reservation.handover.hand(turn) {
            return self.release_turn(&turn.token).await;
        }
        self.keep(reservation.handover.left(), lock_timeout).await;
        if let Some(turn) = self.dispatch.withdraw_turn(reservation) {
            self.release_turn(&turn.token).await;
        }
    }

    /// Gives a turn back that may have been locked, beside the calls.
    pub(crate) fn spawn_release(self: &Arc<Self>, token: String) {
        let core = Arc::clone(self);
        self.spawn_to_the_end("give_back", async move { core.release_turn(&token).await });
    }

    /// As if it had not been tried.
    pub(crate) async fn release_turn(&self, token: &str) {
        self.release_lock(self.abandon_turn(token, None, true)).await;
    }
}

/// Gives a turn back whose dispatcher is gone.
pub(super) fn give_back(core: &Arc<Core>, turn: LockedTurn) {
    core.spawn_release(turn.token);
}

/// A dispatcher that waits, until it is dropped: by its runtime, perhaps, just when a turn is handed to it.
struct Waiting<'a> {
    core: &'a Arc<Core>,
    parked: ParkedDispatcher,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.parked.leave() {
            self.core.spawn_release(turn.token);
        }
    }
}
