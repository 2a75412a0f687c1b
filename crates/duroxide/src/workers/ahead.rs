//! Prefetching, of one activity: while the end of an activity is written, the next one is claimed for the worker, which
//! asks for it right after. One of the same instance is claimed by the batch that ends the other, one of another instance by a
//! request at the same time: either way the worker waits once.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::WorkItem;
use sidereal::BatchOperationResult;

use super::locked;
use crate::cache::Version;
use crate::call::metered;
use crate::core::Core;
use crate::dispatch::{Claimed, ItemHint, Reservation};
use crate::documents::{InstanceDocument, Payload, WorkerDocument};
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::lock_token::LockToken;
use crate::store::millis;
use crate::write::{MAX_BATCH_WRITES, Write, fits};

/// How long an activity is kept for a worker that has not asked. It asks at once, unless its runtime ends.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// The next activity of a worker, of the instance whose activity it ends: to be claimed by the same batch. Dropped before
/// that is done, it is claimed later.
pub(super) struct NextClaim {
    core: Arc<Core>,
    reservation: Option<Reservation>,
    address: ItemHint,
    /// As it is to be.
    item: WorkerDocument,
    work_item: WorkItem,
    lock_timeout: Duration,
}

impl NextClaim {
    /// The claim, beside what the batch does already.
    fn write(&self) -> Write {
        locked(&self.item, 1, None)
    }
}

impl Drop for NextClaim {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            let now = self.core.store.now();
            self.core.dispatch.item_enqueued(self.address.clone(), now, now);
            self.core.dispatch.end_reservation(&reservation);
        }
    }
}

impl Core {
    /// Begins to claim the activity that waits longest, if a worker that ends one would be given it next. One of the same
    /// instance is returned, for the batch that ends the other.
    pub(super) fn claim_ahead(self: &Arc<Self>, token: &str, instance: &str) -> Option<NextClaim> {
        let terms = self.fetches.take_terms(token)?;
        let (hint, reservation) = self.dispatch.reserve_ahead(&terms)?;
        let known = hint.document.as_deref().filter(|it| it.instance_id == instance);
        if let Some((item, work_item)) = known.and_then(readable) {
            let (address, lock_timeout) = (hint.address(), terms.lock_timeout);
            let item = self.to_be_locked(item.clone(), lock_timeout);
            let (core, reservation) = (Arc::clone(self), Some(reservation));
            return Some(NextClaim { core, reservation, address, item, work_item, lock_timeout });
        }
        let core = Arc::clone(self);
        // Not ended by a shutdown: what it has locked, it gives back.
        let claim = async move { core.claim_for(hint, reservation, terms.lock_timeout).await };
        let telemetry = self.store.telemetry.clone();
        self.tasks.spawn(async move { metered(&telemetry, "claim_ahead", claim).await });
        None
    }

    fn to_be_locked(&self, mut item: WorkerDocument, lock_timeout: Duration) -> WorkerDocument {
        let token = LockToken {
            instance: item.instance_id.clone(),
            worker_item: Some(item.id.clone()),
            nonce: self.store.clock().new_id(),
        };
        item.lock_token = Some(token.to_string());
        item.locked_until = Some(self.store.now().saturating_add(millis(lock_timeout)));
        item
    }

    /// Writes the end of an activity, with the claim of the next one. A claim that cannot be made does not keep the end
    /// from being written.
    pub(super) async fn write_end(
        self: &Arc<Self>,
        instance: &str,
        end: &[Write],
        next: Option<NextClaim>,
        until: i64,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        let with_claim = next.as_ref().map(|next| [end, &[next.write()]].concat());
        // The instance is read by the batch too.
        let with_claim = with_claim.filter(|batch| fits(batch) && batch.len() < MAX_BATCH_WRITES);
        let (Some(next), Some(batch)) = (next, with_claim) else {
            return self.store.write(instance, end, until).await;
        };
        let written = match self.replays.contains(instance) {
            true => {
                let id = ids::instance(instance);
                self.store.write_and_read::<InstanceDocument>(instance, &batch, &id).await
            }
            false => self.store.write_once(instance, &batch).await.map(|results| (results, None)),
        };
        match written {
            Ok((results, there)) => {
                let there = there.filter(|there| !there.is_deleting);
                self.hand_claimed(next, results.get(end.len()), there.as_ref());
                Ok(results)
            }
            // The claim may have been made too.
            Err(failure) if failure.cause == Cause::Ambiguous => {
                self.release_unknown(next);
                Err(failure)
            }
            Err(failure) => {
                let is_without_instance = failure.position == Some(batch.len());
                if is_without_instance && failure.cause == Cause::NotFound {
                    self.replays.forget(instance);
                }
                drop(next);
                self.store.write(instance, end, until).await
            }
        }
    }

    /// Hands the activity that a batch has claimed to the worker that is about to ask.
    fn hand_claimed(
        self: &Arc<Self>,
        mut next: NextClaim,
        locked: Option<&BatchOperationResult>,
        there: Option<&InstanceDocument>,
    ) {
        let Some(reservation) = next.reservation.take() else { return };
        let mut item = next.item.clone();
        item.attempt_count += 1;
        item.etag = locked.and_then(|it| it.etag().cloned());
        let seen = there.map(Version::of);
        let claimed = self.note_claim(item, next.work_item.clone(), seen, self.store.now());
        let (core, lock_timeout) = (Arc::clone(self), next.lock_timeout);
        if let Err(claimed) = self.hand(&reservation, claimed, lock_timeout) {
            return self.give_back(claimed);
        }
        self.tasks.spawn(async move { core.keep_for_worker(&reservation, lock_timeout).await });
    }

    /// Hands an activity to a worker that is about to ask; it comes back if its lock is half over, or the worker gone.
    fn hand(
        &self,
        reservation: &Reservation,
        claimed: Claimed,
        lock_timeout: Duration,
    ) -> Result<(), Box<Claimed>> {
        let claimed = Box::new(claimed);
        if claimed.is_late(millis(lock_timeout), self.store.now()) {
            self.dispatch.end_reservation(reservation);
            return Err(claimed);
        }
        reservation.hand(claimed)
    }

    /// Gives back what may have been claimed: the answer was lost.
    fn release_unknown(self: &Arc<Self>, mut next: NextClaim) {
        let Some(reservation) = next.reservation.take() else { return };
        self.dispatch.end_reservation(&reservation);
        let token = next.item.lock_token.clone().unwrap_or_default();
        let (core, address) = (Arc::clone(self), next.address.clone());
        let release = async move {
            // What was not claimed has another token, or none, and is left as it is.
            core.release(&token).await;
            let now = core.store.now();
            core.dispatch.item_enqueued(address, now, now);
        };
        let telemetry = self.store.telemetry.clone();
        self.tasks.spawn(async move { metered(&telemetry, "give_back", release).await });
    }

    async fn claim_for(
        self: Arc<Self>,
        hint: ItemHint,
        reservation: Reservation,
        lock_timeout: Duration,
    ) {
        let address = hint.address();
        match self.claim_hinted(hint, lock_timeout, None).await {
            Ok(Some(claimed)) => match self.hand(&reservation, claimed, lock_timeout) {
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

/// An activity with its work item, if nothing has to be read for it.
fn readable(item: &WorkerDocument) -> Option<(&WorkerDocument, WorkItem)> {
    let Payload::Inline(text) = &item.work_item else { return None };
    let is_committed = item.staged_turn.is_none();
    let work_item = is_committed.then(|| serde_json::from_str(text).ok())??;
    Some((item, work_item))
}
