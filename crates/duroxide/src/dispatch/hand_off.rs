//! Who waits for work, and eager hand-off: an activity that is scheduled while a worker of this process waits is
//! created locked for it, so that nothing has to be asked for and claimed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide::providers::{TagFilter, WorkItem};
use tokio::sync::Notify;

use super::items::ItemHint;
use crate::cache::Version;

/// What a turn gives to a waiting worker with the activity that it schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    pub(crate) token: String,
    pub(crate) locked_until: i64,
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

impl Claimed {
    /// Whether locking it took so long that the lock might end before the activity does: a runtime renews a lock by
    /// the time at which it was given it.
    pub(crate) fn is_late(&self, lock_timeout_ms: i64, now: i64) -> bool {
        self.locked_until.saturating_sub(now) < lock_timeout_ms / 2
    }
}

/// The waiters, FIFO.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) dispatchers: Vec<Arc<DispatcherWaiter>>,
    pub(super) workers: Vec<Arc<WorkerWaiter>>,
    /// For workers that are about to ask, and for whom an activity is being claimed.
    expected: Vec<Arc<WorkerWaiter>>,
}

/// A dispatcher that is parked until a turn is ready.
#[derive(Debug, Default)]
pub(super) struct DispatcherWaiter {
    pub(super) woken: Notify,
}

/// A worker that is parked until an activity is ready.
#[derive(Debug)]
pub(super) struct WorkerWaiter {
    tags: TagFilter,
    sessions: bool,
    lock_timeout_ms: i64,
    is_woken: AtomicBool,
    state: Mutex<WaiterState>,
    pub(super) woken: Notify,
    left: Notify,
}

#[derive(Debug)]
enum WaiterState {
    Waiting,
    Handed(Box<Claimed>),
    /// The worker has gone.
    Left,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.dispatchers.is_empty() && self.workers.is_empty()
    }

    /// Wakes a dispatcher. It waits no more: the next turn is another's.
    pub(super) fn wake_dispatcher(&mut self) {
        if !self.dispatchers.is_empty() {
            self.dispatchers.remove(0).woken.notify_one();
        }
    }

    /// Wakes a worker that takes an activity, and was not woken for another.
    pub(super) fn wake_worker(&self, hint: &ItemHint) {
        let takes = |waiter: &&Arc<WorkerWaiter>| {
            waiter.tags.matches(hint.tag.as_deref())
                && (waiter.sessions || hint.session.is_none())
                // Relaxed: changed under the lock of the list.
                && !waiter.is_woken.load(Ordering::Relaxed)
        };
        if let Some(waiter) = self.workers.iter().find(takes) {
            waiter.is_woken.store(true, Ordering::Relaxed);
            waiter.woken.notify_one();
        }
    }

    /// Takes out a worker for an activity that is about to be scheduled.
    pub(super) fn reserve(&mut self, tag: Option<&str>) -> Option<Reservation> {
        let takes = |waiter: &Arc<WorkerWaiter>| {
            waiter.tags.matches(tag) && !waiter.is_woken.load(Ordering::Relaxed)
        };
        let waiter = self.workers.remove(self.workers.iter().position(takes)?);
        Some(Reservation(waiter))
    }

    /// Lets a worker wait on whose activity was not committed. Says whether it still does.
    pub(super) fn unreserve(&mut self, reservation: Reservation) -> bool {
        let is_waiting = matches!(*reservation.0.state(), WaiterState::Waiting);
        if is_waiting {
            self.workers.insert(0, reservation.0);
        }
        is_waiting
    }

    /// Notes that an activity is being claimed for the next worker that asks on these terms.
    pub(super) fn expect(&mut self, tags: &TagFilter, lock_timeout_ms: i64) -> Reservation {
        let waiter = WorkerWaiter::new(tags, false, lock_timeout_ms);
        self.expected.push(Arc::clone(&waiter));
        Reservation(waiter)
    }

    /// What an activity is being claimed for, on the terms of a worker that asks.
    pub(super) fn take_expected(
        &mut self,
        tags: &TagFilter,
        lock_timeout_ms: i64,
    ) -> Option<Arc<WorkerWaiter>> {
        let is_meant = |waiter: &Arc<WorkerWaiter>| {
            waiter.lock_timeout_ms == lock_timeout_ms && waiter.tags == *tags
        };
        let position = self.expected.iter().position(is_meant)?;
        Some(self.expected.remove(position))
    }

    /// Expects a worker no more. Says whether it had not come.
    pub(super) fn forget_expected(&mut self, waiter: &Arc<WorkerWaiter>) -> bool {
        let before = self.expected.len();
        self.expected.retain(|it| !Arc::ptr_eq(it, waiter));
        self.expected.len() < before
    }
}

/// A worker that an activity will be handed to, once it is locked for it: by the turn that schedules it, or by a claim.
#[derive(Debug)]
pub(crate) struct Reservation(Arc<WorkerWaiter>);

impl Reservation {
    /// For how long the worker locks activities.
    pub(crate) fn lock_timeout_ms(&self) -> i64 {
        self.0.lock_timeout_ms
    }

    /// Who it is for.
    pub(super) fn waiter(&self) -> &Arc<WorkerWaiter> {
        &self.0
    }

    /// Hands an activity over; it comes back if the worker has gone.
    pub(crate) fn hand(&self, claimed: Box<Claimed>) -> Result<(), Box<Claimed>> {
        let mut state = self.0.state();
        match *state {
            WaiterState::Waiting => {
                *state = WaiterState::Handed(claimed);
                self.0.woken.notify_one();
                Ok(())
            }
            WaiterState::Handed(_) | WaiterState::Left => Err(claimed),
        }
    }

    /// Waits until the worker has taken what was handed over, or has gone.
    pub(crate) async fn left(&self) {
        self.0.left.notified().await;
    }
}

impl WorkerWaiter {
    pub(super) fn new(tags: &TagFilter, sessions: bool, lock_timeout_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            tags: tags.clone(),
            sessions,
            lock_timeout_ms,
            is_woken: AtomicBool::new(false),
            state: Mutex::new(WaiterState::Waiting),
            woken: Notify::new(),
            left: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, WaiterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was handed over. From now on nothing is.
    pub(super) fn leave(&self) -> Option<Box<Claimed>> {
        self.left.notify_one();
        match std::mem::replace(&mut *self.state(), WaiterState::Left) {
            WaiterState::Handed(claimed) => Some(claimed),
            WaiterState::Waiting | WaiterState::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_worker_gets_what_it_was_reserved_for() {
        let mut parked = Parked::default();
        let waiter = WorkerWaiter::new(&TagFilter::DefaultOnly, false, 30_000);
        parked.workers.push(Arc::clone(&waiter));
        assert!(parked.reserve(Some("gpu")).is_none(), "it takes no tags");
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.reserve(None).is_none(), "it is spoken for");
        assert!(reservation.hand(claimed()).is_ok());
        assert!(waiter.leave().is_some());
    }

    #[test]
    fn what_is_handed_to_a_worker_that_has_gone_comes_back() {
        let mut parked = Parked::default();
        let waiter = WorkerWaiter::new(&TagFilter::Any, false, 30_000);
        parked.workers.push(Arc::clone(&waiter));
        let reservation = parked.reserve(None).unwrap();
        assert!(waiter.leave().is_none());
        assert_eq!(reservation.hand(claimed()).unwrap_err().token, "t");
    }

    #[test]
    fn a_worker_that_is_expected_gets_what_was_claimed_on_its_terms() {
        let mut parked = Parked::default();
        let reservation = parked.expect(&TagFilter::DefaultOnly, 30_000);
        assert!(parked.take_expected(&TagFilter::Any, 30_000).is_none(), "other tags");
        assert!(parked.take_expected(&TagFilter::DefaultOnly, 1_000).is_none(), "another lock");
        assert!(reservation.hand(claimed()).is_ok());
        let waiter = parked.take_expected(&TagFilter::DefaultOnly, 30_000).unwrap();
        assert!(waiter.leave().is_some());
        assert!(!parked.forget_expected(&waiter), "it has come");
        let reservation = parked.expect(&TagFilter::DefaultOnly, 30_000);
        assert!(parked.forget_expected(reservation.waiter()));
        assert!(parked.take_expected(&TagFilter::DefaultOnly, 30_000).is_none());
    }

    #[test]
    fn a_reservation_that_came_to_nothing_lets_the_worker_wait_on() {
        let mut parked = Parked::default();
        parked.workers.push(WorkerWaiter::new(&TagFilter::Any, false, 30_000));
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.unreserve(reservation));
        let reservation = parked.reserve(None).unwrap();
        reservation.0.leave();
        assert!(!parked.unreserve(reservation), "it has gone");
    }
}
