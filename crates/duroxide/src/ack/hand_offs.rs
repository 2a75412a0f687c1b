//! Giving the activities of a turn to workers that wait for them.

use std::sync::Arc;

use super::Outcome;
use super::commit::Etags;
use crate::cache::Version;
use crate::core::Core;
use crate::dispatch::{Claimed, HandOff, ItemHint, Reservation};
use crate::documents::{InstanceDocument, WorkerDocument};
use crate::lock_token::LockToken;
use crate::prefetch::is_late;
use crate::store::millis;
use duroxide::providers::WorkItem;

/// Workers that wait, reserved for the activities of a turn until it is committed. Dropped before, they wait on.
#[derive(Debug)]
pub(super) struct HandOffs<'a> {
    core: &'a Arc<Core>,
    /// For each activity, what its worker is given.
    pub(super) handed: Vec<Option<HandOff>>,
    reservations: Vec<Option<Reservation>>,
}

impl<'a> HandOffs<'a> {
    /// Reserves a worker for each activity that one waits for.
    pub(super) fn reserve(core: &'a Arc<Core>, instance: &str, outcome: &Outcome) -> Self {
        let reservations: Vec<Option<Reservation>> =
            outcome.worker_items.iter().map(|item| core.dispatch.reserve(item)).collect();
        let now = core.store.now();
        let hand_off = |(item, reserved): (&WorkItem, &Option<Reservation>)| {
            let WorkItem::ActivityExecute { execution_id, id, .. } = item else { return None };
            let token = LockToken {
                instance: instance.to_owned(),
                worker_item: Some(crate::ids::worker_item(instance, *execution_id, *id)),
                nonce: core.store.clock().new_id(),
            };
            let locked_until = now.saturating_add(millis(reserved.as_ref()?.lock_timeout()));
            let owner = core.processes.name();
            Some(HandOff { token: token.to_string(), locked_until, owner })
        };
        let handed = outcome.worker_items.iter().zip(&reservations).map(hand_off).collect();
        Self { core, handed, reservations }
    }

    /// The turn is committed: hands the activities over, and tells of those that nobody waited for.
    pub(super) fn give(
        mut self,
        instance: &InstanceDocument,
        workers: &[Option<WorkerDocument>],
        items: Vec<WorkItem>,
        etags: &Etags,
    ) {
        let now = self.core.store.now();
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
                    let claimed = self.core.note_claim(document, work_item, seen, now);
                    self.hand(reservation, Box::new(claimed), now);
                }
                (_, reservation) => {
                    self.unreserve(reservation);
                    let hint = ItemHint::of(worker, etag);
                    self.core.dispatch.item_enqueued(hint, worker.visible_at, now);
                }
            }
        }
    }

    fn hand(&self, reservation: Reservation, claimed: Box<Claimed>, now: i64) {
        if is_late(claimed.locked_until, reservation.lock_timeout(), now) {
            self.core.dispatch.unreserve(reservation);
            return self.core.give_back(claimed);
        }
        if let Err(claimed) = reservation.handover().hand(claimed) {
            self.core.give_back(claimed);
        }
    }

    fn unreserve(&self, reservation: Option<Reservation>) {
        if let Some(reservation) = reservation {
            self.core.dispatch.unreserve(reservation);
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
