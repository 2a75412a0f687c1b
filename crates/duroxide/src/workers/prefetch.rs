//! Prefetching: while the end of an activity is written, the next one is claimed for the worker, which asks for it right
//! after. One of the same instance is claimed by the batch that ends the other, one of another instance by a request at the
//! same time: either way the worker waits once. Where activities are short, the same batch claims more of that instance,
//! at most one for each worker.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::WorkItem;
use sidereal::BatchOperationResult;

use super::{ActivityQueue, lock_write};
use crate::activity_filter::WorkerTerms;
use crate::cache::Version;
use crate::clock::millis;
use crate::dispatch::{Claimed, ItemHint, WorkerReservation};
use crate::documents::{InstanceDocument, Payload, WorkerDocument};
use crate::failure::{Cause, Failure};
use crate::fetch::TurnOffer;
use crate::ids;
use crate::lock_token::LockToken;
use crate::locks::is_late;
use crate::write::{MAX_BATCH_WRITES, Write, fits};

/// Where the completion is among the writes of an end.
pub(super) const COMPLETION: usize = 1;

/// Activities of one instance that workers are about to be given: to be claimed by one batch. Dropped before that is
/// done, they are claimed later.
pub(super) struct NextClaims {
    activities: Arc<ActivityQueue>,
    instance: String,
    claims: Vec<NextClaim>,
    lock_timeout: Duration,
}

struct NextClaim {
    reservation: WorkerReservation,
    address: ItemHint,
    /// As it is to be.
    item: WorkerDocument,
    work_item: WorkItem,
}

impl NextClaims {
    /// Those that were reserved, if nothing has to be read for them; they are known whole then.
    fn of(
        activities: &Arc<ActivityQueue>,
        reserved: &[(ItemHint, WorkerReservation)],
        lock_timeout: Duration,
    ) -> Option<Self> {
        let instance = reserved.first()?.0.instance.clone();
        let claims = reserved.iter().map(|(hint, reservation)| {
            let (item, work_item) = readable(hint.document.as_deref()?)?;
            let item = activities.to_be_locked(item.clone(), lock_timeout);
            let (address, reservation) = (hint.address(), reservation.clone());
            Some(NextClaim { reservation, address, item, work_item })
        });
        let claims = claims.collect::<Option<Vec<_>>>()?;
        Some(Self { activities: Arc::clone(activities), instance, claims, lock_timeout })
    }

    /// The claims, beside what the batch does already.
    fn writes(&self) -> Vec<Write> {
        self.claims.iter().map(|claim| lock_write(&claim.item, 1, None)).collect()
    }

    /// Sends them in a batch of their own.
    async fn send(self) {
        let activities = Arc::clone(&self.activities);
        match activities.write_and_see(&self.instance, &self.writes()).await {
            Ok((results, there)) => activities.hand_claimed(self, &results, there.as_ref()),
            Err(failure) if failure.cause == Cause::Ambiguous => activities.release_unknown(self),
            Err(failure) => {
                tracing::debug!(error = %failure.error(), "activities are claimed later");
            }
        }
    }
}

/// Locks that the batch that ends an activity takes as well.
#[derive(Default)]
pub(super) struct Beside {
    /// The turn that its completion is for.
    pub(super) turn: Option<TurnOffer>,
    /// The next activities.
    pub(super) claims: Option<NextClaims>,
}

/// The end of an activity that was written.
pub(super) struct Ended {
    /// Of the end itself.
    pub(super) results: Vec<BatchOperationResult>,
    /// Whether a dispatcher has the completion already.
    pub(super) is_handed: bool,
}

impl Beside {
    /// The batch that ends an activity, with all that is locked: the completion, which is created by it, then the instance,
    /// then activities. None if there is nothing, or it is too much for one batch.
    fn batch(&self, end: &[Write]) -> Option<Vec<Write>> {
        let mut batch = end.to_vec();
        if let Some([instance, message]) = self.turn.as_ref().map(TurnOffer::writes) {
            *batch.get_mut(COMPLETION)? = message.clone();
            batch.push(instance.clone());
        }
        batch.extend(self.claims.iter().flat_map(NextClaims::writes));
        // The instance may be read by the batch too.
        let is_one = fits(&batch) && batch.len() < MAX_BATCH_WRITES;
        (is_one && batch.len() > end.len()).then_some(batch)
    }
}

impl Drop for NextClaims {
    fn drop(&mut self) {
        let now = self.activities.store.now();
        for claim in std::mem::take(&mut self.claims) {
            self.activities.dispatch.item_enqueued(claim.address, now, now);
            self.activities.dispatch.end_reservation(&claim.reservation);
        }
    }
}

impl ActivityQueue {
    /// Begins to claim the activity that waits longest, if a worker that ends one would be given it next, and more of the
    /// same instance if other workers will ask soon. Those of the instance whose activity ends are returned, for the
    /// batch that ends it.
    pub(super) fn claim_ahead(
        self: &Arc<Self>,
        terms: &WorkerTerms,
        instance: &str,
    ) -> Option<NextClaims> {
        let reserved = self.dispatch.reserve_ahead(terms, self.fetches.soon_asking());
        if let Some(claims) = NextClaims::of(self, &reserved, terms.lock_timeout) {
            if claims.instance == instance {
                return Some(claims);
            }
            self.tasks.spawn_tracked("claim_ahead", claims.send());
            return None;
        }
        let lock_timeout = terms.lock_timeout;
        for (hint, reservation) in reserved {
            let activities = Arc::clone(self);
            let claim = async move { activities.claim_for(hint, reservation, lock_timeout).await };
            self.tasks.spawn_tracked("claim_ahead", claim);
        }
        None
    }

    fn to_be_locked(&self, mut item: WorkerDocument, lock_timeout: Duration) -> WorkerDocument {
        let token = LockToken {
            instance: item.instance_id.clone(),
            worker_item: Some(item.id.clone()),
            nonce: self.store.clock().new_id(),
        };
        item.lock_token = Some(token.to_string());
        item.lock_owner = self.processes.name();
        item.locked_until = Some(self.store.now().saturating_add(millis(lock_timeout)));
        item
    }

    /// Writes the end of an activity, and what is to be locked with it. What cannot be locked does not keep the end from
    /// being written.
    pub(super) async fn write_end(
        self: &Arc<Self>,
        instance: &str,
        end: &[Write],
        beside: Beside,
        until: i64,
    ) -> Result<Ended, Failure> {
        let plain = |results| Ended { results, is_handed: false };
        let Some(batch) = beside.batch(end) else {
            drop(beside);
            return self.store.write(instance, end, until).await.map(plain);
        };
        let written = match &beside.turn {
            Some(turn) => {
                let there = turn.instance().cloned();
                self.store.write_once(instance, &batch).await.map(|results| (results, there))
            }
            None => self.write_and_see(instance, &batch).await,
        };
        match written {
            Ok((mut results, there)) => {
                let locked = results.split_off(end.len());
                let is_handed = self.hand_beside(beside, &locked, there.as_ref());
                Ok(Ended { results, is_handed })
            }
            // It may have been locked too.
            Err(failure) if failure.cause == Cause::Ambiguous => {
                let Beside { turn, claims } = beside;
                turn.into_iter().for_each(TurnOffer::unknown);
                claims.into_iter().for_each(|claims| self.release_unknown(claims));
                Err(failure)
            }
            Err(failure) => {
                // Another process has changed the instance since this one has.
                if beside.turn.is_some() && failure.position == Some(end.len()) {
                    self.replays.forget(instance);
                }
                drop(beside);
                self.store.write(instance, end, until).await.map(plain)
            }
        }
    }

    /// Hands over what the batch of an end has locked. Says whether its message is among that.
    fn hand_beside(
        self: &Arc<Self>,
        beside: Beside,
        locked: &[BatchOperationResult],
        there: Option<&InstanceDocument>,
    ) -> bool {
        let Beside { turn, claims } = beside;
        let (is_handed, claimed) = (turn.is_some(), &locked[usize::from(turn.is_some())..]);
        if let Some(turn) = turn {
            turn.written(locked.first());
        }
        if let Some(claims) = claims {
            self.hand_claimed(claims, claimed, there);
        }
        is_handed
    }

    /// Writes a batch. If the history of the instance is known, the same batch reads the instance, so that a worker's
    /// read of the history is answered without a request.
    async fn write_and_see(
        &self,
        instance: &str,
        batch: &[Write],
    ) -> Result<(Vec<BatchOperationResult>, Option<InstanceDocument>), Failure> {
        if !self.replays.contains(instance) {
            return self.store.write_once(instance, batch).await.map(|results| (results, None));
        }
        let id = ids::instance(instance);
        let written = self.store.write_and_read::<InstanceDocument>(instance, batch, &id).await;
        if let Err(failure) = &written
            && failure.position == Some(batch.len())
            && failure.cause == Cause::NotFound
        {
            self.replays.forget(instance);
        }
        written.map(|(results, there)| (results, there.filter(|there| !there.is_deleting)))
    }

    /// Hands the activities that a batch has claimed to workers that are about to ask.
    fn hand_claimed(
        self: &Arc<Self>,
        mut next: NextClaims,
        results: &[BatchOperationResult],
        there: Option<&InstanceDocument>,
    ) {
        let lock_timeout = next.lock_timeout;
        for (claim, locked) in std::mem::take(&mut next.claims).into_iter().zip(results) {
            let NextClaim { reservation, mut item, work_item, .. } = claim;
            item.attempt_count += 1;
            item.etag = locked.etag().cloned();
            let seen = there.map(Version::of);
            let claimed = self.note_claim(item, work_item, seen, self.store.now());
            if let Err(claimed) = self.hand(&reservation, claimed, lock_timeout) {
                self.give_back(claimed);
                continue;
            }
            let activities = Arc::clone(self);
            self.tasks.spawn_tracked("claim_ahead", async move {
                activities.keep_for_worker(&reservation, lock_timeout).await;
            });
        }
    }

    /// Hands an activity to a worker that is about to ask; it comes back if its lock is half over, or the worker gone.
    fn hand(
        &self,
        reservation: &WorkerReservation,
        claimed: Claimed,
        lock_timeout: Duration,
    ) -> Result<(), Box<Claimed>> {
        let claimed = Box::new(claimed);
        if is_late(claimed.locked_until, lock_timeout, self.store.now()) {
            self.dispatch.end_reservation(reservation);
            return Err(claimed);
        }
        reservation.hand(claimed)
    }

    /// Gives back what may have been claimed: the answer was lost.
    fn release_unknown(self: &Arc<Self>, mut next: NextClaims) {
        for claim in std::mem::take(&mut next.claims) {
            self.dispatch.end_reservation(&claim.reservation);
            let token = claim.item.lock_token.unwrap_or_default();
            let (activities, address) = (Arc::clone(self), claim.address);
            self.tasks.spawn_tracked("give_back", async move {
                // What was not claimed has another token, or none, and is left as it is.
                activities.release(&token).await;
                let now = activities.store.now();
                activities.dispatch.item_enqueued(address, now, now);
            });
        }
    }

    async fn claim_for(
        self: Arc<Self>,
        hint: ItemHint,
        reservation: WorkerReservation,
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
    async fn keep_for_worker(&self, reservation: &WorkerReservation, lock_timeout: Duration) {
        self.tasks.until_taken(reservation.left(), lock_timeout).await;
        if let Some(claimed) = self.dispatch.withdraw(reservation) {
            self.release(&claimed.token).await;
        }
    }

    /// A callback that gives an activity back whose worker is gone.
    pub(super) fn give_back_later(self: &Arc<Self>) -> impl FnOnce(Claimed) + Send + use<> {
        let activities = Arc::clone(self);
        move |claimed| activities.give_back(Box::new(claimed))
    }

    /// Gives back an activity that was locked for a worker that is gone.
    pub(crate) fn give_back(self: &Arc<Self>, claimed: Box<Claimed>) {
        let activities = Arc::clone(self);
        self.tasks
            .spawn_tracked("give_back", async move { activities.release(&claimed.token).await });
    }

    /// As if it had not been tried.
    async fn release(&self, token: &str) {
        self.tasks.release(self.abandon_item(token, None, true)).await;
    }
}

/// An activity with its work item, if nothing has to be read for it.
fn readable(item: &WorkerDocument) -> Option<(&WorkerDocument, WorkItem)> {
    let Payload::Inline(text) = &item.work_item else { return None };
    let is_committed = item.staged_turn.is_none();
    let work_item = is_committed.then(|| serde_json::from_str(text).ok())??;
    Some((item, work_item))
}
