//! Hand-off: callers take work that is ready, or wait for it in a queue; work that is locked for a waiter is handed to it, so
//! that nothing has to be polled for and claimed.

use std::collections::HashSet;
use std::sync::Arc;

use duroxide::providers::WorkItem;

use super::claimed::Claimed;
use super::items::{ItemHint, ItemHints};
use super::wait_queue::{Departure, Reservation, WaitQueue, Waiter};
use super::{Dispatch, State};
use crate::activity_filter::{ActivityFilter, WorkerTerms};
use crate::turn::{LockedTurn, ReadMessage, TurnTerms};

/// Dispatchers that wait for a turn. One whose terms vary has none to be reserved by.
pub(super) type Dispatchers = WaitQueue<Option<TurnTerms>, LockedTurn>;

/// Workers that wait for an activity.
pub(super) type Workers = WaitQueue<WorkerTerms, Claimed>;

/// A worker that an activity will be handed to.
pub(crate) type WorkerReservation = Reservation<WorkerTerms, Claimed>;

/// A dispatcher that a turn will be handed to.
#[derive(Clone, Debug)]
pub(crate) struct TurnReservation {
    pub(crate) terms: TurnTerms,
    reservation: Reservation<Option<TurnTerms>, LockedTurn>,
}

impl TurnReservation {
    fn of(reservation: Reservation<Option<TurnTerms>, LockedTurn>) -> Option<Self> {
        let terms = reservation.demand().clone()?;
        Some(Self { terms, reservation })
    }

    /// Hands a turn over. It comes back if the dispatcher has left.
    pub(crate) fn hand(&self, turn: Box<LockedTurn>) -> Result<(), Box<LockedTurn>> {
        self.reservation.hand(turn)
    }

    /// Waits until the dispatcher has taken the turn, or has left.
    pub(crate) async fn left(&self) {
        self.reservation.left().await;
    }
}

impl Workers {
    /// Wakes workers that an activity is ready for, at most a number.
    pub(super) fn wake_for(&mut self, items: &mut ItemHints, most: usize) {
        let mut woken = 0;
        while woken < most && self.wake(|terms| items.has(terms.demand())) {
            woken += 1;
        }
    }

    /// Wakes a worker that takes an activity. If its session has an owner, that one.
    pub(super) fn wake_for_item(&mut self, hint: &ItemHint, session_owner: Option<&str>) {
        self.wake(|terms| {
            let takes_session = terms.owner.as_deref().is_some_and(|owner| {
                session_owner.is_none_or(|session_owner| session_owner == owner)
            });
            terms.tags.matches(hint.tag.as_deref()) && (takes_session || hint.session.is_none())
        });
    }

    /// The activities that workers wait for.
    pub(super) fn filter(&self) -> ActivityFilter {
        let mut filter = ActivityFilter::default();
        for terms in self.demands() {
            filter.include(&terms.tags, terms.owner.is_some());
        }
        filter
    }

    /// The names by which waiting workers have sessions.
    pub(super) fn owners(&self) -> HashSet<&str> {
        self.demands().filter_map(|terms| terms.owner.as_deref()).collect()
    }

    /// Reserves a worker for an activity without a session.
    fn reserve_for(&mut self, tag: Option<&str>) -> Option<WorkerReservation> {
        self.reserve(|terms| terms.tags.matches(tag))
    }

    /// The place of an expected worker that asks on these terms now.
    fn take_expected_on(
        &mut self,
        terms: &WorkerTerms,
    ) -> Option<Arc<Waiter<WorkerTerms, Claimed>>> {
        self.take_expected(|expected| {
            expected.lock_timeout == terms.lock_timeout && expected.tags == terms.tags
        })
    }
}

impl Dispatch {
    /// An instance for a dispatcher to lock; if no instance is ready, or one is being locked for it, a place in the queue.
    pub(crate) fn next_turn(
        self: &Arc<Self>,
        terms: Option<&TurnTerms>,
        now: i64,
    ) -> Result<Claim, ParkedDispatcher> {
        let mut state = self.state();
        let is_meant = |expected: &Option<TurnTerms>| expected.as_ref() == terms;
        if terms.is_some()
            && let Some(waiter) = state.dispatchers.take_expected(is_meant)
        {
            return Err(self.parked(waiter, Self::dispatcher_leaves));
        }
        if let Some(ready) = state.turns.pop(now) {
            return Ok(self.claim(ready));
        }
        state.seen.dispatchers = true;
        let waiter = state.dispatchers.park(terms.cloned());
        drop(state);
        self.activate();
        Err(self.parked(waiter, Self::dispatcher_leaves))
    }

    /// An activity for a worker to lock; if no activity is ready, or one is being locked for it, a place in the queue.
    pub(crate) fn next_item(
        self: &Arc<Self>,
        terms: WorkerTerms,
    ) -> Result<ItemHint, ParkedWorker> {
        let mut state = self.state();
        if let Some(waiter) = state.workers.take_expected_on(&terms) {
            return Err(self.parked(waiter, Self::worker_leaves));
        }
        if let Some(hint) = state.items.pop(terms.demand()) {
            return Ok(hint);
        }
        let is_new = state.seen.activities.include(&terms.tags, terms.owner.is_some());
        state.seen.is_unasked |= is_new;
        let waiter = state.workers.park(terms);
        drop(state);
        self.activate();
        if is_new {
            self.poller.notify_one();
        }
        Err(self.parked(waiter, Self::worker_leaves))
    }

    fn claim(self: &Arc<Self>, ready: (Arc<str>, Option<Vec<ReadMessage>>)) -> Claim {
        let (instance, messages) = ready;
        Claim { dispatch: Arc::clone(self), instance, messages, is_locked: false }
    }

    /// The instance that a dispatcher would be given next, to be locked before it asks. The next one that asks on its terms
    /// waits for that.
    pub(crate) fn reserve_turn(
        self: &Arc<Self>,
        terms: &TurnTerms,
        now: i64,
    ) -> Option<(Claim, TurnReservation)> {
        let mut state = self.state();
        let ready = state.turns.pop(now)?;
        let reservation = state.dispatchers.expect(Some(terms.clone()));
        Some((self.claim(ready), TurnReservation::of(reservation)?))
    }

    /// A waiting dispatcher, for a message that is about to be created: the same batch locks its instance. `None` if no
    /// dispatcher waits, or the instance is worked on or has other messages.
    pub(crate) fn reserve_waiting(
        self: &Arc<Self>,
        instance: &str,
        now: i64,
    ) -> Option<(Claim, TurnReservation)> {
        if !self.takes_hints {
            return None;
        }
        let mut state = self.state();
        if !state.turns.is_unknown(instance) {
            return None;
        }
        let reservation = TurnReservation::of(state.dispatchers.reserve(Option::is_some)?)?;
        let instance = state.turns.claim(instance, now);
        Some((self.claim((instance, None)), reservation))
    }

    /// The messages that came for an instance while a dispatcher works on it: to be locked by the batch that commits. `None`
    /// if not all are known, or another instance has waited longer.
    pub(crate) fn reserve_next(
        &self,
        instance: &str,
        terms: &TurnTerms,
    ) -> Option<(Vec<ReadMessage>, TurnReservation)> {
        let mut state = self.state();
        let messages = state.turns.take_next(instance)?;
        let reservation = state.dispatchers.expect(Some(terms.clone()));
        Some((messages, TurnReservation::of(reservation)?))
    }

    /// Ends a reservation whose turn could not be locked: its dispatcher looks for itself.
    pub(crate) fn end_turn_reservation(&self, reservation: &TurnReservation) {
        self.state().dispatchers.end(&reservation.reservation);
    }

    /// Takes back a turn that was locked for a dispatcher that has not come.
    pub(crate) fn withdraw_turn(&self, reservation: &TurnReservation) -> Option<Box<LockedTurn>> {
        self.state().dispatchers.withdraw(&reservation.reservation)
    }

    /// Reserves a waiting worker for an activity that is about to be scheduled.
    pub(crate) fn reserve(&self, item: &WorkItem) -> Option<WorkerReservation> {
        let WorkItem::ActivityExecute { session_id: None, tag, .. } = item else { return None };
        self.takes_hints.then(|| self.state().workers.reserve_for(tag.as_deref()))?
    }

    /// Releases a reservation whose commit failed, and wakes the worker for work that it may have missed while reserved.
    pub(crate) fn unreserve(&self, reservation: WorkerReservation) {
        let State { workers, items, .. } = &mut *self.state();
        if workers.unreserve(reservation) {
            workers.wake_for(items, 1);
        }
    }

    /// The activities of one instance that workers would be given next, to be claimed before they ask. The next ones that ask
    /// on these terms wait for that claim. At most `most` are prefetched in all.
    pub(crate) fn reserve_ahead(
        &self,
        terms: &WorkerTerms,
        most: usize,
    ) -> Vec<(ItemHint, WorkerReservation)> {
        let mut reserved: Vec<(ItemHint, WorkerReservation)> = Vec::new();
        if !self.takes_hints {
            return reserved;
        }
        let mut state = self.state();
        while state.workers.expected() < most {
            // A session is claimed by the worker itself, when it asks. Its activity is not passed over for a younger one.
            let is_next = |hint: &ItemHint| {
                hint.session.is_none()
                    && reserved.first().is_none_or(|(first, _)| first.is_beside(hint))
            };
            let Some(hint) = state.items.pop_if(terms.demand(), is_next) else { break };
            let expected = WorkerTerms { owner: None, ..terms.clone() };
            reserved.push((hint, state.workers.expect(expected)));
        }
        reserved
    }

    /// Whether activities wait for a worker that asks on these terms, or are claimed for one.
    pub(crate) fn has_items(&self, terms: &WorkerTerms) -> bool {
        let mut state = self.state();
        state.workers.expected() > 0 || state.items.has(terms.demand())
    }

    /// Ends a reservation whose activity could not be locked: its worker looks for itself.
    pub(crate) fn end_reservation(&self, reservation: &WorkerReservation) {
        self.state().workers.end(reservation);
    }

    /// Takes back an activity that was claimed for a worker that has not come.
    pub(crate) fn withdraw(&self, reservation: &WorkerReservation) -> Option<Box<Claimed>> {
        self.state().workers.withdraw(reservation)
    }

    fn parked<D, T>(
        self: &Arc<Self>,
        waiter: Arc<Waiter<D, T>>,
        leave: Leave<D, T>,
    ) -> Parked<D, T> {
        Parked { dispatch: Arc::clone(self), waiter, leave, has_left: false }
    }

    fn dispatcher_leaves(
        &self,
        waiter: &Arc<Waiter<Option<TurnTerms>, LockedTurn>>,
    ) -> Option<Box<LockedTurn>> {
        let State { dispatchers, turns, .. } = &mut *self.state();
        let Departure { handed, may_be_woken } = dispatchers.leave(waiter);
        // Lost wakeup: a waiter that was woken and then cancelled passes it on.
        if may_be_woken && turns.has_ready() {
            dispatchers.wake(|_| true);
        }
        handed
    }

    fn worker_leaves(&self, waiter: &Arc<Waiter<WorkerTerms, Claimed>>) -> Option<Box<Claimed>> {
        let State { workers, items, .. } = &mut *self.state();
        let Departure { handed, may_be_woken } = workers.leave(waiter);
        // Lost wakeup, as above; a worker that was handed an activity has not missed one.
        if may_be_woken && handed.is_none() {
            workers.wake_for(items, 1);
        }
        handed
    }
}

type Leave<D, T> = fn(&Dispatch, &Arc<Waiter<D, T>>) -> Option<Box<T>>;

/// A caller that waits in a queue, until it leaves or is dropped.
#[derive(Debug)]
pub(crate) struct Parked<D, T> {
    dispatch: Arc<Dispatch>,
    waiter: Arc<Waiter<D, T>>,
    leave: Leave<D, T>,
    has_left: bool,
}

/// A dispatcher that waits for a turn.
pub(crate) type ParkedDispatcher = Parked<Option<TurnTerms>, LockedTurn>;

/// A worker that waits for an activity.
pub(crate) type ParkedWorker = Parked<WorkerTerms, Claimed>;

impl<D, T> Parked<D, T> {
    /// Waits until work was handed over, or may be ready.
    pub(crate) async fn wait(&self) {
        self.waiter.handover().woken().await;
    }

    /// Leaves the queue. Returns the work that was handed over.
    pub(crate) fn leave(mut self) -> Option<Box<T>> {
        self.has_left = true;
        (self.leave)(&self.dispatch, &self.waiter)
    }
}

impl<D, T> Drop for Parked<D, T> {
    fn drop(&mut self) {
        if !self.has_left {
            // Work that was handed over just now stays locked until its lock ends; a long poll leaves explicitly instead.
            drop((self.leave)(&self.dispatch, &self.waiter));
        }
    }
}

/// An instance that a dispatcher is about to lock. If it does not, or is dropped meanwhile, the instance is ready for others.
#[derive(Debug)]
pub(crate) struct Claim {
    dispatch: Arc<Dispatch>,
    instance: Arc<str>,
    messages: Option<Vec<ReadMessage>>,
    is_locked: bool,
}

impl Claim {
    pub(crate) fn instance(&self) -> &str {
        &self.instance
    }

    /// The messages of the instance, if this process knows them all.
    pub(crate) fn take_messages(&mut self) -> Option<Vec<ReadMessage>> {
        self.messages.take()
    }

    /// Marks the instance as locked: the end of its turn releases it.
    pub(crate) fn locked(mut self) {
        self.is_locked = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_locked {
            // The time is that of an order only: nothing expires by it.
            self.dispatch.turn_released(&self.instance, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duroxide::providers::TagFilter;

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

    fn terms(tags: &TagFilter, lock_timeout: Duration) -> WorkerTerms {
        WorkerTerms { tags: tags.clone(), owner: None, lock_timeout }
    }

    #[test]
    fn a_worker_gets_what_it_was_reserved_for() {
        let mut workers = Workers::default();
        let waiter = workers.park(terms(&TagFilter::DefaultOnly, LOCK));
        assert!(workers.reserve_for(Some("gpu")).is_none(), "it takes no tags");
        let reservation = workers.reserve_for(None).unwrap();
        assert!(workers.reserve_for(None).is_none(), "it is spoken for");
        assert!(reservation.hand(claimed()).is_ok());
        assert!(workers.leave(&waiter).handed.is_some());
    }

    #[test]
    fn what_is_handed_to_a_worker_that_has_gone_comes_back() {
        let mut workers = Workers::default();
        let waiter = workers.park(terms(&TagFilter::Any, LOCK));
        let reservation = workers.reserve_for(None).unwrap();
        assert!(workers.leave(&waiter).handed.is_none());
        assert_eq!(reservation.hand(claimed()).unwrap_err().token, "t");
    }

    #[test]
    fn a_worker_that_is_expected_gets_what_was_claimed_on_its_terms() {
        let mut workers = Workers::default();
        let (default_only, any) = (&TagFilter::DefaultOnly, &TagFilter::Any);
        let reservation = workers.expect(terms(default_only, LOCK));
        assert!(workers.take_expected_on(&terms(any, LOCK)).is_none(), "other tags");
        assert!(workers.take_expected_on(&terms(default_only, LOCK / 2)).is_none(), "another lock");
        assert!(reservation.hand(claimed()).is_ok());
        let waiter = workers.take_expected_on(&terms(default_only, LOCK)).unwrap();
        assert!(workers.leave(&waiter).handed.is_some());
        assert!(workers.withdraw(&reservation).is_none(), "it has come");
        let reservation = workers.expect(terms(default_only, LOCK));
        assert!(workers.withdraw(&reservation).is_none(), "nothing was handed over");
        assert!(workers.take_expected_on(&terms(default_only, LOCK)).is_none());
    }

    #[test]
    fn a_reservation_that_came_to_nothing_lets_the_worker_wait_on() {
        let mut workers = Workers::default();
        let waiter = workers.park(terms(&TagFilter::Any, LOCK));
        let reservation = workers.reserve_for(None).unwrap();
        assert!(workers.unreserve(reservation));
        let reservation = workers.reserve_for(None).unwrap();
        workers.leave(&waiter);
        assert!(!workers.unreserve(reservation), "it has gone");
    }
}
