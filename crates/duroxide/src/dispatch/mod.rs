//! How work finds its way to dispatchers: within the process by hints, from other processes by one feeder that asks
//! the container for all of them.
//!
//! Correctness rests on none of it: a hint may be lost, wrong or late. Every claim is conditional, and what no hint
//! was about is found by the feeder.

mod feeder;
mod hand_off;
mod items;
mod messages;
mod pace;
mod turns;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use tokio::sync::Notify;

pub(crate) use feeder::FeederSettings;
pub(crate) use hand_off::{Claimed, HandOff, Reservation};
pub(crate) use items::{ItemHint, Wanted};
pub(crate) use pace::PaceSettings;

use crate::fetch::ReadMessage;
use crate::last_fetch::WorkerTerms;
use crate::store::millis;
use hand_off::{DispatcherWaiter, Parked, WorkerWaiter};
use items::ItemHints;
use turns::TurnHints;

/// What the process knows of work, and who waits for it.
#[derive(Debug)]
pub(crate) struct Dispatch {
    state: Mutex<State>,
    /// Something has changed that the feeder sleeps by: somebody began to wait, or a timer is nearer.
    feeder: Notify,
    /// Somebody has asked for work and would wait for it: from then on the container is asked.
    is_active: AtomicBool,
    /// The feeder would look sooner if somebody waited.
    wants_waiter: AtomicBool,
    /// Whether hints are taken at all. Without them everything is found by asking.
    takes_hints: bool,
}

#[derive(Debug, Default)]
struct State {
    turns: TurnHints,
    items: ItemHints,
    parked: Parked,
    filter: SeenFilter,
    seen: SeenWaiting,
}

/// What has been waited for in this process.
#[derive(Clone, Copy, Debug, Default)]
struct SeenWaiting {
    dispatchers: bool,
    workers: bool,
    /// Workers that take activities without a tag.
    untagged: bool,
}

impl State {
    fn push_item(&mut self, hint: ItemHint, now: i64) -> bool {
        let is_new = self.items.push(hint.clone(), now);
        if is_new {
            self.parked.wake_worker(&hint);
        }
        is_new
    }
}

/// The versions that dispatchers of this process can replay, if they all say the same.
#[derive(Clone, Debug, Default)]
enum SeenFilter {
    #[default]
    Unknown,
    One(Option<DispatcherCapabilityFilter>),
    Several,
}

impl Dispatch {
    pub(crate) fn new(takes_hints: bool) -> Self {
        Self {
            state: Mutex::default(),
            feeder: Notify::new(),
            is_active: AtomicBool::new(false),
            wants_waiter: AtomicBool::new(false),
            takes_hints,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instance has a message, perhaps from a time on. It may be known whole.
    pub(crate) fn message_enqueued(
        &self,
        instance: &str,
        message: Option<ReadMessage>,
        visible_at: i64,
        now: i64,
    ) {
        if !self.takes_hints {
            return;
        }
        let mut state = self.state();
        if visible_at <= now {
            if state.turns.push(instance, message, now, now) {
                state.parked.wake_dispatcher();
            }
            return;
        }
        let next = state.turns.next_timer();
        state.turns.push_timer(instance, visible_at);
        if next.is_none_or(|next| visible_at < next) {
            self.feeder.notify_one();
        }
    }

    /// An activity waits, perhaps from a time on.
    pub(crate) fn item_enqueued(&self, hint: ItemHint, visible_at: i64, now: i64) {
        if !self.takes_hints {
            return;
        }
        let mut state = self.state();
        if visible_at <= now {
            state.push_item(hint, now);
        } else {
            state.items.push_later(hint, visible_at);
            self.feeder.notify_one();
        }
    }

    /// An instance for a dispatcher to lock; if there is none, a waiter for one.
    pub(crate) fn next_turn(self: &Arc<Self>, now: i64) -> Result<Claim, ParkedDispatcher> {
        let mut state = self.state();
        if let Some((instance, messages)) = state.turns.pop(now) {
            return Ok(Claim { dispatch: Arc::clone(self), instance, messages, is_locked: false });
        }
        state.seen.dispatchers = true;
        let waiter = Arc::<DispatcherWaiter>::default();
        state.parked.dispatchers.push(Arc::clone(&waiter));
        drop(state);
        self.activate();
        Err(ParkedDispatcher { dispatch: Arc::clone(self), waiter })
    }

    /// An activity for a worker to lock; if there is none, a waiter for one.
    pub(crate) fn next_item(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        lock_timeout_ms: i64,
    ) -> Result<ItemHint, ParkedWorker> {
        let mut state = self.state();
        if let Some(waiter) = state.parked.take_expected(wanted.tags, lock_timeout_ms) {
            return Err(ParkedWorker { dispatch: Arc::clone(self), waiter });
        }
        if let Some(hint) = state.items.pop(wanted) {
            return Ok(hint);
        }
        state.seen.workers = true;
        state.seen.untagged |= wanted.tags.matches(None);
        let waiter = WorkerWaiter::new(wanted.tags, wanted.sessions, lock_timeout_ms);
        state.parked.workers.push(Arc::clone(&waiter));
        drop(state);
        self.activate();
        Err(ParkedWorker { dispatch: Arc::clone(self), waiter })
    }

    /// Reserves a waiting worker for an activity that is about to be scheduled.
    pub(crate) fn reserve(&self, item: &WorkItem) -> Option<Reservation> {
        let WorkItem::ActivityExecute { session_id: None, tag, .. } = item else { return None };
        self.takes_hints.then(|| self.state().parked.reserve(tag.as_deref()))?
    }

    /// Lets a worker wait on whose activity was not committed. What became ready meanwhile found it spoken for.
    pub(crate) fn unreserve(&self, reservation: Reservation) {
        let mut state = self.state();
        if state.parked.unreserve(reservation)
            && let Some(hint) = state.items.first().cloned()
        {
            state.parked.wake_worker(&hint);
        }
    }

    /// The activity that a worker would be given next, to be claimed before it asks. The next one that asks on its terms
    /// waits for that claim.
    pub(crate) fn reserve_ahead(&self, terms: &WorkerTerms) -> Option<(ItemHint, Reservation)> {
        if !self.takes_hints {
            return None;
        }
        let mut state = self.state();
        let wanted = Wanted { tags: &terms.tags, sessions: terms.sessions };
        // A session is claimed by the worker itself, when it asks. Its activity is not passed over for a younger one.
        let hint = state.items.pop_if(wanted, |hint| hint.session.is_none())?;
        let reservation = state.parked.expect(&terms.tags, millis(terms.lock_timeout));
        Some((hint, reservation))
    }

    /// A claim came to nothing: whoever waits for it asks again.
    pub(crate) fn end_reservation(&self, reservation: &Reservation) {
        if !self.state().parked.forget_expected(reservation.waiter()) {
            reservation.waiter().woken.notify_one();
        }
    }

    /// What was claimed for a worker that has not come.
    pub(crate) fn withdraw(&self, reservation: &Reservation) -> Option<Box<Claimed>> {
        let is_left = self.state().parked.forget_expected(reservation.waiter());
        is_left.then(|| reservation.waiter().leave())?
    }

    /// A turn of an instance is locked until a time by a dispatcher of this process.
    pub(crate) fn turn_locked(&self, instance: &str, until: i64, has_more: bool, now: i64) {
        self.state().turns.locked(instance, until, has_more && self.takes_hints, now);
    }

    /// The lock of a turn was extended.
    pub(crate) fn turn_extended(&self, instance: &str, until: i64) {
        self.state().turns.extended(instance, until);
    }

    /// A turn has ended, however. What came for the instance meanwhile is ready now.
    pub(crate) fn turn_released(&self, instance: &str, now: i64) {
        let mut state = self.state();
        if state.turns.released(instance, now) {
            state.parked.wake_dispatcher();
        }
    }

    /// An instance cannot be locked before a time.
    pub(crate) fn turn_blocked(&self, instance: &str, until: i64, now: i64) {
        self.state().turns.block(instance, until, now);
    }

    /// A worker of this process has an activity until a time.
    pub(crate) fn item_taken(&self, id: &str, until: i64, now: i64) {
        self.state().items.took(id, until, now);
    }

    /// A worker has no activity any more: it gave it back, or finished it.
    pub(crate) fn item_released(&self, id: &str) {
        self.state().items.gave_back(id);
    }

    /// How many instances and activities are known to be ready.
    #[cfg(feature = "otel")]
    pub(crate) fn ready(&self) -> (usize, usize) {
        let state = self.state();
        (state.turns.len(), state.items.len())
    }

    /// What a dispatcher can replay.
    pub(crate) fn saw_filter(&self, filter: Option<&DispatcherCapabilityFilter>) {
        let mut state = self.state();
        let seen = match &state.filter {
            SeenFilter::Unknown => SeenFilter::One(filter.cloned()),
            SeenFilter::One(known) if is_same(known.as_ref(), filter) => return,
            SeenFilter::One(_) | SeenFilter::Several => SeenFilter::Several,
        };
        state.filter = seen;
    }

    /// Whether the container is asked for work from time to time.
    pub(crate) fn is_active(&self) -> bool {
        // Relaxed: the feeder is told by its notice.
        self.is_active.load(Ordering::Relaxed)
    }

    /// Has nothing asked any more, until somebody waits.
    fn deactivate(&self) {
        // Relaxed: whoever parks next sets it, and notifies.
        self.is_active.store(false, Ordering::Relaxed);
        let mut state = self.state();
        // Somebody may have parked between the last count and the store.
        match state.parked.is_empty() {
            true => state.seen = SeenWaiting::default(),
            false => {
                drop(state);
                self.activate();
            }
        }
    }

    /// Has the container asked, since somebody waits for what other processes enqueue.
    fn activate(&self) {
        // Relaxed: the flags are read under no other data; the waiter itself is published by the mutex.
        let was_active = self.is_active.swap(true, Ordering::Relaxed);
        if self.wants_waiter.swap(false, Ordering::Relaxed) || !was_active {
            self.feeder.notify_one();
        }
    }
}

fn is_same(
    one: Option<&DispatcherCapabilityFilter>,
    other: Option<&DispatcherCapabilityFilter>,
) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            let (one, other) =
                (&one.supported_duroxide_versions, &other.supported_duroxide_versions);
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| (&one.min, &one.max) == (&other.min, &other.max))
        }
        _ => false,
    }
}

/// A dispatcher that waits for a turn.
#[derive(Debug)]
pub(crate) struct ParkedDispatcher {
    dispatch: Arc<Dispatch>,
    waiter: Arc<DispatcherWaiter>,
}

impl ParkedDispatcher {
    /// Waits until a turn may be ready.
    pub(crate) async fn wait(&self) {
        self.waiter.woken.notified().await;
    }
}

impl Drop for ParkedDispatcher {
    fn drop(&mut self) {
        let mut state = self.dispatch.state();
        let before = state.parked.dispatchers.len();
        state.parked.dispatchers.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        // It was woken (a woken waiter is taken off the list). If it was cancelled since, the wakeup is passed on, or it
        // would be lost.
        if state.parked.dispatchers.len() == before && state.turns.has_ready() {
            state.parked.wake_dispatcher();
        }
    }
}

/// A worker that waits for an activity.
#[derive(Debug)]
pub(crate) struct ParkedWorker {
    dispatch: Arc<Dispatch>,
    waiter: Arc<WorkerWaiter>,
}

impl ParkedWorker {
    /// Waits until an activity was handed over, or may be ready.
    pub(crate) async fn wait(&self) {
        self.waiter.woken.notified().await;
    }

    /// What was handed over. The worker waits no more.
    pub(crate) fn leave(&self) -> Option<Box<Claimed>> {
        let mut state = self.dispatch.state();
        state.parked.workers.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let claimed = self.waiter.leave();
        // It may have been woken and then cancelled: the wakeup is passed on, or it would be lost.
        if claimed.is_none()
            && let Some(hint) = state.items.first()
        {
            state.parked.wake_worker(hint);
        }
        claimed
    }
}

/// An instance that a dispatcher is about to lock. If it does not, or is dropped meanwhile, the instance is no
/// longer spoken for.
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

    /// The turn is locked: its end is told by whoever ends it.
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
