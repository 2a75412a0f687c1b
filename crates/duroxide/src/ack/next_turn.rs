//! The next turn of the same instance: messages that came while a turn ran are locked by the batch that commits it, so
//! that the dispatcher goes on with them at once.

use std::sync::Arc;

use super::plan::AckPlan;
use super::{Outcome, TurnCommitter};
use crate::dispatch::TurnReservation;
use crate::held::HeldTurn;
use crate::turn::{FetchPlan, FetchTerms, InstanceView, LockPlan, ReadMessage, TurnTerms, plan};
use crate::write::{self, Write};

/// Messages that came while a turn ran, and the dispatcher that would be given them next. Dropped before they are locked,
/// they wait as any others.
pub(super) struct NextTurn {
    committer: Arc<TurnCommitter>,
    instance: String,
    messages: Vec<ReadMessage>,
    reservation: Option<TurnReservation>,
}

/// A turn that the commit of the last one has locked.
pub(super) struct LockedNext {
    plan: LockPlan,
    token: String,
    reservation: TurnReservation,
}

impl NextTurn {
    /// The next turn of the instance, if it goes on and no other instance has waited longer.
    pub(super) fn of(
        committer: &Arc<TurnCommitter>,
        held: &HeldTurn,
        terms: &TurnTerms,
        outcome: &Outcome,
    ) -> Option<Self> {
        if outcome.metadata.status.is_some() {
            return None;
        }
        let instance = held.instance.instance_id.clone();
        let (mut messages, reservation) = committer.dispatch.reserve_next(&instance, terms)?;
        // What came while the turn was being locked may be part of it.
        messages.retain(|it| held.messages.iter().all(|held| held.id != it.document.id));
        let (committer, reservation) = (Arc::clone(committer), Some(reservation));
        let next = Self { committer, instance, messages, reservation };
        (!next.messages.is_empty()).then_some(next)
    }

    /// The batch that commits a turn, with the locks of the next one; none if it cannot be one batch.
    pub(super) fn lock(&self, commit: &AckPlan) -> Option<(LockPlan, String)> {
        let asked = self.reservation.as_ref()?.terms.asked();
        let messages = self.messages.clone();
        let (lock, token) = self
            .committer
            .turns
            .with_new_token(&self.instance, asked, |terms| plan_next(commit, messages, terms));
        Some((lock?, token))
    }

    /// It was committed so.
    pub(super) fn locked(mut self, plan: LockPlan, token: String) -> Option<LockedNext> {
        let reservation = self.reservation.take()?;
        Some(LockedNext { plan, token, reservation })
    }
}

/// Plans the batch that commits a turn and locks the next one; none if that cannot be one batch. Pure.
pub(crate) fn plan_next(
    commit: &AckPlan,
    messages: Vec<ReadMessage>,
    terms: FetchTerms<'_>,
) -> Option<LockPlan> {
    if !commit.staged.is_empty() {
        return None;
    }
    let instance = Some(commit.instance.clone());
    let view = InstanceView { instance, messages, has_unreadable: false };
    let FetchPlan::Lock(mut lock) = plan(view, terms) else { return None };
    let locks = lock.writes.drain(..).skip(1);
    let instance = std::iter::once(Write::replace_instance(&lock.instance));
    lock.writes = instance.chain(commit.commit.iter().cloned()).chain(locks).collect();
    write::fits(&lock.writes).then_some(*lock)
}

impl Drop for NextTurn {
    fn drop(&mut self) {
        let Some(reservation) = self.reservation.take() else { return };
        let now = self.committer.store.now();
        for message in std::mem::take(&mut self.messages) {
            self.committer.dispatch.message_enqueued(&self.instance, Some(message), now, now);
        }
        self.committer.dispatch.end_turn_reservation(&reservation);
    }
}

impl TurnCommitter {
    /// Hands a turn over that a commit has locked.
    pub(super) fn hand_next(&self, next: LockedNext) {
        let LockedNext { plan, token, reservation } = next;
        self.turns.spawn_hand_over(plan, token, reservation, None);
    }
}
