//! Who waits for work, and eager hand-off: an activity that is scheduled while a worker of this process waits is
//! created locked for it, so that nothing has to be asked for and claimed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide::providers::{TagFilter, WorkItem};
use tokio::sync::Notify;

use super::items::ItemHint;
use crate::documents::WorkerDocument;

/// What a turn gives to a waiting worker with the activity that it schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    pub(crate) token: String,
    pub(crate) locked_until: i64,
}

/// An activity that was committed in the name of a worker.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) work_item: WorkItem,
    pub(crate) token: String,
    pub(crate) document: WorkerDocument,
}

/// Those who wait, the one that waits longest first.
#[derive(Debug, Default)]
pub(super) struct Parked {
    pub(super) dispatchers: Vec<Arc<DispatcherPlace>>,
    pub(super) workers: Vec<Arc<WorkerPlace>>,
}

/// Where a dispatcher waits for a turn.
#[derive(Debug, Default)]
pub(super) struct DispatcherPlace {
    pub(super) woken: Notify,
}

/// Where a worker waits for an activity.
#[derive(Debug)]
pub(super) struct WorkerPlace {
    tags: TagFilter,
    sessions: bool,
    lock_timeout_ms: i64,
    is_woken: AtomicBool,
    state: Mutex<PlaceState>,
    pub(super) woken: Notify,
}

#[derive(Debug)]
enum PlaceState {
    Waiting,
    Handed(Box<Handed>),
    /// The worker has gone.
    Left,
}

impl Parked {
    /// Wakes a dispatcher. It waits no more: the next turn is another's.
    pub(super) fn wake_dispatcher(&mut self) {
        if !self.dispatchers.is_empty() {
            self.dispatchers.remove(0).woken.notify_one();
        }
    }

    /// Wakes a worker that takes an activity, and was not woken for another.
    pub(super) fn wake_worker(&self, hint: &ItemHint) {
        let takes = |place: &&Arc<WorkerPlace>| {
            place.tags.matches(hint.tag.as_deref())
                && (place.sessions || hint.session.is_none())
                // Relaxed: changed under the lock of the list.
                && !place.is_woken.load(Ordering::Relaxed)
        };
        if let Some(place) = self.workers.iter().find(takes) {
            place.is_woken.store(true, Ordering::Relaxed);
            place.woken.notify_one();
        }
    }

    /// Takes out a worker for an activity that is about to be scheduled.
    pub(super) fn reserve(&mut self, tag: Option<&str>) -> Option<Reservation> {
        let takes = |place: &Arc<WorkerPlace>| {
            place.tags.matches(tag) && !place.is_woken.load(Ordering::Relaxed)
        };
        let place = self.workers.remove(self.workers.iter().position(takes)?);
        Some(Reservation(place))
    }

    /// Lets a worker wait on whose activity was not committed. Says whether it still does.
    pub(super) fn unreserve(&mut self, reservation: Reservation) -> bool {
        let is_waiting = matches!(*reservation.0.state(), PlaceState::Waiting);
        if is_waiting {
            self.workers.insert(0, reservation.0);
        }
        is_waiting
    }
}

/// A worker that an activity will be handed to, if the turn that schedules it is committed.
#[derive(Debug)]
pub(crate) struct Reservation(Arc<WorkerPlace>);

impl Reservation {
    /// For how long the worker locks activities.
    pub(crate) fn lock_timeout_ms(&self) -> i64 {
        self.0.lock_timeout_ms
    }

    /// Hands an activity over; it comes back if the worker has gone.
    pub(crate) fn hand(self, handed: Box<Handed>) -> Result<(), Box<Handed>> {
        let mut state = self.0.state();
        match *state {
            PlaceState::Waiting => {
                *state = PlaceState::Handed(handed);
                self.0.woken.notify_one();
                Ok(())
            }
            PlaceState::Handed(_) | PlaceState::Left => Err(handed),
        }
    }
}

impl WorkerPlace {
    pub(super) fn new(tags: &TagFilter, sessions: bool, lock_timeout_ms: i64) -> Arc<Self> {
        Arc::new(Self {
            tags: tags.clone(),
            sessions,
            lock_timeout_ms,
            is_woken: AtomicBool::new(false),
            state: Mutex::new(PlaceState::Waiting),
            woken: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, PlaceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was handed over. From now on nothing is.
    pub(super) fn leave(&self) -> Option<Box<Handed>> {
        match std::mem::replace(&mut *self.state(), PlaceState::Left) {
            PlaceState::Handed(handed) => Some(handed),
            PlaceState::Waiting | PlaceState::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work_items::{Enqueued, worker_item};

    fn handed() -> Box<Handed> {
        let work_item = WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let enqueued = Enqueued { now: 1, seq: 1, visible_at: 1, is_fenced: true };
        let (document, _) = worker_item("test", &work_item, enqueued).unwrap();
        Box::new(Handed { work_item, token: "t".to_owned(), document })
    }

    #[test]
    fn a_worker_gets_what_it_was_reserved_for() {
        let mut parked = Parked::default();
        let place = WorkerPlace::new(&TagFilter::DefaultOnly, false, 30_000);
        parked.workers.push(Arc::clone(&place));
        assert!(parked.reserve(Some("gpu")).is_none(), "it takes no tags");
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.reserve(None).is_none(), "it is spoken for");
        assert!(reservation.hand(handed()).is_ok());
        assert!(place.leave().is_some());
    }

    #[test]
    fn what_is_handed_to_a_worker_that_has_gone_comes_back() {
        let mut parked = Parked::default();
        let place = WorkerPlace::new(&TagFilter::Any, false, 30_000);
        parked.workers.push(Arc::clone(&place));
        let reservation = parked.reserve(None).unwrap();
        assert!(place.leave().is_none());
        assert_eq!(reservation.hand(handed()).unwrap_err().token, "t");
    }

    #[test]
    fn a_reservation_that_came_to_nothing_lets_the_worker_wait_on() {
        let mut parked = Parked::default();
        parked.workers.push(WorkerPlace::new(&TagFilter::Any, false, 30_000));
        let reservation = parked.reserve(None).unwrap();
        assert!(parked.unreserve(reservation));
        let reservation = parked.reserve(None).unwrap();
        reservation.0.leave();
        assert!(!parked.unreserve(reservation), "it has gone");
    }
}
