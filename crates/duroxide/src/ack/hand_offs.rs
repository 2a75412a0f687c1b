//! Giving the activities of a turn to workers that wait for them.

use std::sync::Arc;

use super::commit::Etags;
use super::{Outcome, TurnCommitter};
use crate::cache::Version;
use crate::clock::millis;
use crate::dispatch::{Claimed, HandOff, ItemHint, WorkerReservation};
use crate::documents::{InstanceDocument, WorkerDocument};
use crate::lock_token::LockToken;
use crate::locks::is_late;
use duroxide::providers::WorkItem;

/// Workers that wait, reserved for the activities of a turn until it is committed. Dropped before, they wait on.
#[derive(Debug)]
pub(super) struct HandOffs<'a> {
    committer: &'a Arc<TurnCommitter>,
    /// For each activity, what its worker is given.
    pub(super) handed: Vec<Option<HandOff>>,
    reservations: Vec<Option<WorkerReservation>>,
}

impl<'a> HandOffs<'a> {
    /// Reserves a worker for each activity that one waits for.
    pub(super) fn reserve(
        committer: &'a Arc<TurnCommitter>,
        instance: &str,
        outcome: &Outcome,
    ) -> Self {
        let reservations: Vec<Option<WorkerReservation>> =
            outcome.worker_items.iter().map(|item| committer.dispatch.reserve(item)).collect();
        let now = committer.store.now();
        let hand_off = |(item, reserved): (&WorkItem, &Option<WorkerReservation>)| {
            let WorkItem::ActivityExecute { execution_id, id, .. } = item else { return None };
            let token = LockToken {
                instance: instance.to_owned(),
                worker_item: Some(crate::ids::worker_item(instance, *execution_id, *id)),
                nonce: committer.store.clock().new_id(),
            };
            let locked_until = now.saturating_add(millis(reserved.as_ref()?.demand().lock_timeout));
            let owner = committer.processes.name();
            Some(HandOff { token: token.to_string(), locked_until, owner })
        };
        let handed = outcome.worker_items.iter().zip(&reservations).map(hand_off).collect();
        Self { committer, handed, reservations }
    }

    /// The turn is committed: hands the activities over; those without a waiting worker become hints.
    pub(super) fn give(
        mut self,
        instance: &InstanceDocument,
        workers: &[Option<WorkerDocument>],
        items: Vec<WorkItem>,
        etags: &Etags,
    ) {
        let now = self.committer.store.now();
        let reservations = std::mem::take(&mut self.reservations);
        for ((reservation, worker), work_item) in reservations.into_iter().zip(workers).zip(items) {
            let Some(worker) = worker else {
                self.unreserve(reservation);
                continue;
            };
            let etag = etags.get(&worker.id).cloned();
            match (&worker.lock_token, reservation) {
                (Some(_), Some(reservation)) => {
                    let document = WorkerDocument { etag, ..worker.clone() };
                    let seen = Some(Version::of(instance));
                    let claimed =
                        self.committer.activities.note_claim(document, work_item, seen, now);
                    self.hand(reservation, Box::new(claimed), now);
                }
                (_, reservation) => {
                    self.unreserve(reservation);
                    let hint = ItemHint::of(worker, etag);
                    self.committer.dispatch.item_enqueued(hint, worker.visible_at, now);
                }
            }
        }
    }

    fn hand(&self, reservation: WorkerReservation, claimed: Box<Claimed>, now: i64) {
        if is_late(claimed.locked_until, reservation.demand().lock_timeout, now) {
            self.committer.dispatch.unreserve(reservation);
            return self.committer.activities.give_back(claimed);
        }
        if let Err(claimed) = reservation.hand(claimed) {
            self.committer.activities.give_back(claimed);
        }
    }

    fn unreserve(&self, reservation: Option<WorkerReservation>) {
        if let Some(reservation) = reservation {
            self.committer.dispatch.unreserve(reservation);
        }
    }
}

impl Drop for HandOffs<'_> {
    fn drop(&mut self) {
        for reservation in std::mem::take(&mut self.reservations) {
            self.unreserve(reservation);
        }
    }
}
