//! Long polls of dispatchers.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;

use super::TurnFetcher;
use crate::dispatch::{Claim, Parked};
use crate::long_poll::{Polled, long_poll};
use crate::turn::{Asked, LockedTurn, TurnTerms};

/// A dispatcher that polls for a turn.
struct TurnPoll<'a> {
    turns: &'a Arc<TurnFetcher>,
    asked: Asked<'a>,
}

impl TurnFetcher {
    /// Waits for a turn: one that is handed over, or one that a hint is about.
    pub(super) async fn wait_for_turn(
        self: &Arc<Self>,
        asked: Asked<'_>,
        poll_timeout: Duration,
    ) -> Result<Option<LockedTurn>, ProviderError> {
        let poll = TurnPoll { turns: self, asked };
        long_poll(&poll, &self.store, asked.lock_timeout, poll_timeout).await
    }
}

impl Polled for TurnPoll<'_> {
    type Ready = Claim;
    /// The id of an instance.
    type Address = String;
    type Terms = Option<TurnTerms>;
    type Locked = LockedTurn;
    type Error = ProviderError;

    fn next(&self) -> Result<Claim, Parked<Option<TurnTerms>, LockedTurn>> {
        self.turns.dispatch.next_turn(self.asked.terms, self.turns.store.now())
    }

    fn address(claim: &Claim) -> String {
        claim.instance().to_owned()
    }

    async fn lock(&self, claim: Claim) -> Result<Option<LockedTurn>, ProviderError> {
        let (turns, asked) = (Arc::clone(self.turns), self.asked.kept());
        let fetch = async move { turns.fetch_claimed(claim, asked.asked()).await };
        self.turns.tasks.run_detached(self.turns.give_back(), Box::pin(fetch)).await
    }

    fn is_transient(error: &ProviderError) -> bool {
        error.is_retryable()
    }

    fn try_again(&self, instance: String) {
        let now = self.turns.store.now();
        self.turns.dispatch.message_enqueued(&instance, None, now, now);
    }

    fn locked_until(turn: &LockedTurn) -> i64 {
        turn.locked_until
    }

    fn give_back(&self, turn: Box<LockedTurn>) {
        self.turns.spawn_release(turn.token);
    }
}
