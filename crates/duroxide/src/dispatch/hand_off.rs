//! Who waits for work, and eager hand-off: an activity that is scheduled while a worker of this process waits is
//! created locked for it, so that nothing has to be asked for and claimed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duroxide::providers::{TagFilter, WorkItem};

use super::handover::Handover;
use super::items::{ItemHint, ItemHints, Wanted};
use crate::activity_filter::ActivityFilter;
use crate::cache::Version;
use crate::fetch::{LockedTurn, TurnTerms};

/// What a turn gives to a waiting worker with the activity that it schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    pub(crate) token: String,
    pub(crate) locked_until: i64,
    /// The process of the worker.
    pub(crate) owner: Option<String>,
}

/// An activity that is locked for a worker.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) work_item: WorkItem,
    pub(crate) token: String,
    /// How often it was tried, this time included.
    pub(crate) attempts: u32,
    /// Until when.
    pub(crate) locked_until: i64,
    pub(crate) instance: String,
    /// The instance as it was when the activity was locked, if that is known.
    pub(crate) seen: Option<Version>,
}

/// The waiters, FIFO.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) dispatchers: Vec<WaitingDispatcher>,
    pub(super) workers: Vec<Arc<WorkerWaiter>>,
    /// For workers that are about to ask, and for whom an activity is being claimed.
    expected: Vec<Arc<WorkerWaiter>>,
    /// The same for dispatchers.
    expected_dispatchers: Vec<TurnReservation>,
}

/// A dispatcher that waits for a turn.
#[derive(Debug)]
pub(super) struct WaitingDispatcher {
    pub(super) terms: Option<TurnTerms>,
    pub(super) handover: Arc<Handover<LockedTurn>>,
}

/// A dispatcher that a turn will be handed to, once it is locked for it: one that waits, or the next one that asks on
/// these terms.
#[derive(Clone, Debug)]
pub(crate) struct TurnReservation {
    pub(crate) terms: TurnTerms,
    pub(crate) handover: Arc<Handover<LockedTurn>>,
}

/// A worker that is parked until an activity is ready.
#[derive(Debug)]
pub(super) struct WorkerWaiter {
    tags: TagFilter,
    /// The name by which it has sessions, if it takes activities of sessions.
    owner: Option<Arc<str>>,
    lock_timeout: Duration,
    is_woken: AtomicBool,
    pub(super) handover: Handover<Claimed>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.dispatchers.is_empty() && self.workers.is_empty()
    }

    /// Wakes a dispatcher. It waits no more: the next turn is another's.
    pub(super) fn wake_dispatcher(&mut self) {
        if !self.dispatchers.is_empty() {
            self.dispatchers.remove(0).handover.wake();
        }
    }

    /// Wakes a worker that takes an activity, and was not woken for another. If its session has an owner, that one.
    pub(super) fn wake_worker(&self, hint: &ItemHint, session_owner: Option<&str>) {
        let takes = |waiter: &&Arc<WorkerWaiter>| {
            let takes_session = waiter.owner.as_deref().is_some_and(|owner| {
                session_owner.is_none_or(|session_owner| session_owner == owner)
            });
            waiter.tags.matches(hint.tag.as_deref())
                && (takes_session || hint.session.is_none())
                && !waiter.is_woken()
        };
        if let Some(waiter) = self.workers.iter().find(takes) {
            waiter.wake();
        }
    }

    /// Wakes workers that something is ready for, at most so many.
    pub(super) fn wake_workers(&self, items: &mut ItemHints, most: usize) {
        let waiting = self.workers.iter().filter(|waiter| !waiter.is_woken());
        for waiter in waiting.filter(|waiter| items.has(waiter.wanted())).take(most) {
            waiter.wake();
        }
    }

    /// What workers wait for.
    pub(super) fn wanted(&self) -> ActivityFilter {
        let mut filter = ActivityFilter::default();
        for waiter in &self.workers {
            filter.include(&waiter.tags, waiter.owner.is_some());
        }
        filter
    }

    /// The names by which waiting workers have sessions.
    pub(super) fn owners(&self) -> HashSet<&str> {
        self.workers.iter().filter_map(|waiter| waiter.owner.as_deref()).collect()
    }

    /// Takes out a worker for an activity that is about to be scheduled.
    pub(super) fn reserve(&mut self, tag: Option<&str>) -> Option<Reservation> {
        let takes = |waiter: &Arc<WorkerWaiter>| waiter.tags.matches(tag) && !waiter.is_woken();
        let waiter = self.workers.remove(self.workers.iter().position(takes)?);
        Some(Reservation(waiter))
    }

    /// Lets a worker wait on whose activity was not committed. Says whether it still does.
    pub(super) fn unreserve(&mut self, reservation: Reservation) -> bool {
        let is_waiting = reservation.0.handover.is_waiting();
        if is_waiting {
            self.workers.insert(0, reservation.0);
        }
        is_waiting
    }

    /// Notes that an activity is being claimed for the next worker that asks on these terms.
    pub(super) fn expect(&mut self, tags: &TagFilter, lock_timeout: Duration) -> Reservation {
        let waiter = WorkerWaiter::new(Wanted { tags, owner: None }, lock_timeout);
        self.expected.push(Arc::clone(&waiter));
        Reservation(waiter)
    }

    /// What an activity is being claimed for, on the terms of a worker that asks.
    pub(super) fn take_expected(
        &mut self,
        tags: &TagFilter,
        lock_timeout: Duration,
    ) -> Option<Arc<WorkerWaiter>> {
        let is_meant = |waiter: &Arc<WorkerWaiter>| {
            waiter.lock_timeout == lock_timeout && waiter.tags == *tags
        };
        let position = self.expected.iter().position(is_meant)?;
        Some(self.expected.remove(position))
    }

    /// For how many workers an activity is being claimed, or kept.
    pub(super) fn expected(&self) -> usize {
        self.expected.len()
    }

    /// Expects a worker no more. Says whether it had not come.
    pub(super) fn forget_expected(&mut self, waiter: &Arc<WorkerWaiter>) -> bool {
        let before = self.expected.len();
        self.expected.retain(|it| !Arc::ptr_eq(it, waiter));
        self.expected.len() < before
    }

    /// Takes out a dispatcher for a turn that is about to be locked.
    pub(super) fn reserve_dispatcher(&mut self) -> Option<TurnReservation> {
        let position = self.dispatchers.iter().position(|waiting| waiting.terms.is_some())?;
        let WaitingDispatcher { terms, handover } = self.dispatchers.remove(position);
        Some(TurnReservation { terms: terms?, handover })
    }

    /// Notes that a turn is being locked for the next dispatcher that asks on these terms.
    pub(super) fn expect_dispatcher(&mut self, terms: &TurnTerms) -> TurnReservation {
        let reservation = TurnReservation { terms: terms.clone(), handover: Arc::default() };
        self.expected_dispatchers.push(reservation.clone());
        reservation
    }

    /// What a turn is being locked for, on the terms of a dispatcher that asks.
    pub(super) fn take_expected_dispatcher(
        &mut self,
        terms: &TurnTerms,
    ) -> Option<Arc<Handover<LockedTurn>>> {
        let position = self.expected_dispatchers.iter().position(|it| it.terms == *terms)?;
        Some(self.expected_dispatchers.remove(position).handover)
    }

    /// Expects a dispatcher no more. Says whether it had not come.
    pub(super) fn forget_expected_dispatcher(&mut self, reservation: &TurnReservation) -> bool {
        let before = self.expected_dispatchers.len();
        let is_other = |it: &TurnReservation| !Arc::ptr_eq(&it.handover, &reservation.handover);
        self.expected_dispatchers.retain(is_other);
        self.expected_dispatchers.len() < before
    }
}

/// A worker that an activity will be handed to, once it is locked for it: by the turn that schedules it, or by a claim.
#[derive(Clone, Debug)]
pub(crate) struct Reservation(Arc<WorkerWaiter>);

impl Reservation {
    /// For how long the worker locks activities.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.0.lock_timeout
    }

    /// Who it is for.
    pub(super) fn waiter(&self) -> &Arc<WorkerWaiter> {
        &self.0
    }

    /// Where the activity is handed over.
    pub(crate) fn handover(&self) -> &Handover<Claimed> {
        &self.0.handover
    }
}

impl WorkerWaiter {
    pub(super) fn new(wanted: Wanted<'_>, lock_timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            tags: wanted.tags.clone(),
            owner: wanted.owner.map(Arc::from),
            lock_timeout,
            is_woken: AtomicBool::new(false),
            handover: Handover::default(),
        })
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { tags: &self.tags, owner: self.owner.as_deref() }
    }

    fn is_woken(&self) -> bool {
        // Relaxed: changed under the lock of the list.
        self.is_woken.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        self.is_woken.store(true, Ordering::Relaxed);
        self.handover.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Duration = Duration::from_secs(30);

    fn claimed() -> Box<Claimed> {
        let work_item = WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let (token, instance) = ("t".to_owned(), "i".to_owned());
        Box::new(Claimed { work_item, token, attempts: 1, locked_until: 1, instance, seen: None })
    }

    fn waiter(tags: &TagFilter) -> Arc<WorkerWaiter> {
        WorkerWaiter::new(Wanted { tags, owner: None }, LOCK)
    }

    #[test]
    fn a_worker_gets_what_it_was_reserved_for() {
        let mut parked = Parked::default();
        let waiter = waiter(&TagFilter::DefaultOnly);
        parked.workers.push(Arc::clone(&waiter));
        assert!(parked.reserve(Some("gpu")).is_none(), "it takes no tags");
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.reserve(None).is_none(), "it is spoken for");
        assert!(reservation.handover().hand(claimed()).is_ok());
        assert!(waiter.handover.leave().is_some());
    }

    #[test]
    fn what_is_handed_to_a_worker_that_has_gone_comes_back() {
        let mut parked = Parked::default();
        let waiter = waiter(&TagFilter::Any);
        parked.workers.push(Arc::clone(&waiter));
        let reservation = parked.reserve(None).unwrap();
        assert!(waiter.handover.leave().is_none());
        assert_eq!(reservation.handover().hand(claimed()).unwrap_err().token, "t");
    }

    #[test]
    fn a_worker_that_is_expected_gets_what_was_claimed_on_its_terms() {
        let mut parked = Parked::default();
        let reservation = parked.expect(&TagFilter::DefaultOnly, LOCK);
        assert!(parked.take_expected(&TagFilter::Any, LOCK).is_none(), "other tags");
        assert!(parked.take_expected(&TagFilter::DefaultOnly, LOCK / 2).is_none(), "another lock");
        assert!(reservation.handover().hand(claimed()).is_ok());
        let waiter = parked.take_expected(&TagFilter::DefaultOnly, LOCK).unwrap();
        assert!(waiter.handover.leave().is_some());
        assert!(!parked.forget_expected(&waiter), "it has come");
        let reservation = parked.expect(&TagFilter::DefaultOnly, LOCK);
        assert!(parked.forget_expected(reservation.waiter()));
        assert!(parked.take_expected(&TagFilter::DefaultOnly, LOCK).is_none());
    }

    #[test]
    fn a_reservation_that_came_to_nothing_lets_the_worker_wait_on() {
        let mut parked = Parked::default();
        parked.workers.push(waiter(&TagFilter::Any));
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.unreserve(reservation));
        let reservation = parked.reserve(None).unwrap();
        reservation.handover().leave();
        assert!(!parked.unreserve(reservation), "it has gone");
    }
}
