//! Claiming ahead: while the end of an activity is written, the next one is claimed for the worker, which asks for it
//! right after. It waits for one request then, not for two.

use std::sync::Arc;
use std::time::Duration;

use crate::call::metered;
use crate::core::Core;
use crate::dispatch::{Claimed, ItemHint, Reservation};

/// How long an activity is kept for a worker that has not asked. It asks at once, unless its runtime ends.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

impl Core {
    /// Claims the activity that waits longest, if a worker that ends one would be given it next.
    pub(super) fn claim_ahead(self: &Arc<Self>, token: &str) {
        let Some(terms) = self.fetches.take_terms(token) else { return };
        let Some((hint, reservation)) = self.dispatch.reserve_ahead(&terms) else { return };
        let core = Arc::clone(self);
        // Not ended by a shutdown: what it has locked, it gives back.
        let claim = async move { core.claim_for(hint, reservation, terms.lock_timeout).await };
        let telemetry = self.store.telemetry.clone();
        self.tasks.spawn(async move { metered(&telemetry, "claim_ahead", claim).await });
    }

    async fn claim_for(
        self: Arc<Self>,
        hint: ItemHint,
        reservation: Reservation,
        lock_timeout: Duration,
    ) {
        let address = hint.address();
        match self.claim_hinted(hint, lock_timeout, None).await {
            Ok(Some(claimed)) => match reservation.hand(Box::new(claimed)) {
                Ok(()) => self.keep_for_worker(&reservation, lock_timeout).await,
                Err(claimed) => self.release(&claimed.token).await,
            },
            Ok(None) => self.dispatch.end_reservation(&reservation),
            Err(failure) => {
                tracing::debug!(error = %failure.error(), "an activity is claimed later");
                let now = self.store.now();
                self.dispatch.item_enqueued(address, now, now);
                self.dispatch.end_reservation(&reservation);
            }
        }
    }

    /// Waits until the worker has taken what was claimed for it; if it does not, the activity is given back.
    async fn keep_for_worker(&self, reservation: &Reservation, lock_timeout: Duration) {
        let longest = LONGEST_HOLD.min(lock_timeout / 4);
        tokio::select! {
            () = reservation.left() => return,
            () = tokio::time::sleep(longest) => {}
            () = self.shutdown.cancelled() => {}
        }
        if let Some(claimed) = self.dispatch.withdraw(reservation) {
            self.release(&claimed.token).await;
        }
    }

    /// Gives back an activity that was locked for a worker that is gone.
    pub(crate) fn give_back(self: &Arc<Self>, claimed: Box<Claimed>) {
        let core = Arc::clone(self);
        let telemetry = self.store.telemetry.clone();
        let release = async move { core.release(&claimed.token).await };
        self.tasks.spawn(async move { metered(&telemetry, "give_back", release).await });
    }

    /// As if it had not been tried. A shutdown does not wait long for it: a lock ends by itself.
    async fn release(&self, token: &str) {
        let too_long = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(LONGEST_HOLD).await;
        };
        tokio::select! {
            released = self.abandon_item(token, None, true) => if let Err(error) = released {
                tracing::debug!(%error, "an activity that nobody took waits for its lock to end");
            },
            () = too_long => {}
        }
    }
}
