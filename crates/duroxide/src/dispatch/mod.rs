//! How work finds its way to dispatchers: within the process by hints, from other processes by one feeder that asks
//! the container for all of them.
//!
//! Correctness rests on none of it: a hint may be lost, wrong or late. Every claim is conditional, and what no hint
//! was about is found by the feeder.

mod blocked;
mod feeder;
mod hand_off;
mod handover;
mod items;
mod messages;
mod pace;
mod turns;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};
use tokio::sync::Notify;

pub(crate) use feeder::FeederSettings;
pub(crate) use hand_off::{Claimed, HandOff, Reservation, TurnReservation};
pub(crate) use items::{ItemHint, Wanted};
pub(crate) use pace::PaceSettings;

use crate::activity_filter::ActivityFilter;
use crate::documents::SessionDocument;
use crate::fetch::{Blocked, LockedTurn, ReadMessage, SharedFilter, TurnTerms};
use crate::last_fetch::WorkerTerms;
use hand_off::{Parked, WaitingDispatcher, WorkerWaiter};
use handover::Handover;
use items::ItemHints;
use turns::TurnHints;

/// The most activities that are kept as hints before a worker has asked for any.
const MAX_HINTS_FOR_NOBODY: usize = 100;

/// How much younger a message counts whose instance may not exist: long enough for what is known to be ready to come first,
/// and short enough not to be overtaken for long where there is always something.
const UNKNOWN_LATER_MS: i64 = 1_000;

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
#[derive(Clone, Debug, Default)]
struct SeenWaiting {
    dispatchers: bool,
    activities: ActivityFilter,
    /// The container was not asked for all of these activities yet.
    is_unasked: bool,
}

impl State {
    /// Whether a worker of this process takes an activity. Before one has asked, some are kept for it: there may be none
    /// here, and if one comes the container is asked for the others.
    fn is_taken_here(&self, hint: &ItemHint) -> bool {
        let taken = &self.seen.activities;
        match taken.is_empty() {
            true => self.items.len() < MAX_HINTS_FOR_NOBODY,
            false => taken.takes(hint.tag.as_deref(), hint.session.as_deref()),
        }
    }

    fn push_item(&mut self, hint: ItemHint, now: i64) -> bool {
        let is_new = self.is_taken_here(&hint) && self.items.push(hint.clone(), now);
        if is_new {
            self.parked.wake_worker(&hint, self.items.session_owner(&hint));
        }
        is_new
    }
}

/// The versions that dispatchers of this process can replay, if they all say the same.
#[derive(Clone, Debug, Default)]
enum SeenFilter {
    #[default]
    Unknown,
    One(SharedFilter),
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
        self.message_in_order(instance, message, visible_at, now, now);
    }

    /// Notes a client's message to an instance that this process knows nothing of. It may never have been started, and
    /// there may be thousands: what is known to be ready comes first.
    pub(crate) fn message_of_unknown(
        &self,
        instance: &str,
        message: Option<ReadMessage>,
        visible_at: i64,
        now: i64,
    ) {
        let order = now.saturating_add(UNKNOWN_LATER_MS);
        self.message_in_order(instance, message, visible_at, order, now);
    }

    fn message_in_order(
        &self,
        instance: &str,
        message: Option<ReadMessage>,
        visible_at: i64,
        order: i64,
        now: i64,
    ) {
        if !self.takes_hints {
            return;
        }
        let mut state = self.state();
        if visible_at <= now {
            if state.turns.push(instance, message, order, now) {
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
        // What this process knows of it itself is newer than what kept it from being a hint.
        state.items.gave_back(&hint.id);
        if visible_at <= now {
            state.push_item(hint, now);
        } else {
            if state.is_taken_here(&hint) {
                state.items.push_later(hint, visible_at);
            }
            self.feeder.notify_one();
        }
    }

    /// A worker has a session until a time, of this process or of another. Says whether activities wait for that.
    pub(crate) fn session_held(&self, session: &SessionDocument) -> bool {
        self.takes_hints && self.state().items.session_held(session)
    }

    /// Frees the sessions of processes whose leases have ended: any worker may claim those now.
    pub(crate) fn processes_gone(&self, gone: &BTreeSet<String>) {
        let State { parked, items, .. } = &mut *self.state();
        let freed = items.free_sessions_of(gone);
        if freed > 0 {
            parked.wake_workers(items, freed);
        }
    }

    /// An instance for a dispatcher to lock; if there is none, or one is being locked for it, a waiter.
    pub(crate) fn next_turn(
        self: &Arc<Self>,
        terms: Option<&TurnTerms>,
        now: i64,
    ) -> Result<Claim, ParkedDispatcher> {
        let mut state = self.state();
        if let Some(waiter) = terms.and_then(|terms| state.parked.take_expected_dispatcher(terms)) {
            return Err(ParkedDispatcher { dispatch: Arc::clone(self), waiter });
        }
        if let Some(ready) = state.turns.pop(now) {
            return Ok(self.claim(ready));
        }
        state.seen.dispatchers = true;
        let waiter = Arc::<Handover<LockedTurn>>::default();
        let (terms, handover) = (terms.cloned(), Arc::clone(&waiter));
        state.parked.dispatchers.push(WaitingDispatcher { terms, handover });
        drop(state);
        self.activate();
        Err(ParkedDispatcher { dispatch: Arc::clone(self), waiter })
    }

    fn claim(self: &Arc<Self>, ready: (Arc<str>, Option<Vec<ReadMessage>>)) -> Claim {
        let (instance, messages) = ready;
        Claim { dispatch: Arc::clone(self), instance, messages, is_locked: false }
    }

    /// The instance that a dispatcher would be given next, to be locked before it asks. The next one that asks on its
    /// terms waits for that.
    pub(crate) fn reserve_turn(
        self: &Arc<Self>,
        terms: &TurnTerms,
        now: i64,
    ) -> Option<(Claim, TurnReservation)> {
        let mut state = self.state();
        let ready = state.turns.pop(now)?;
        let reservation = state.parked.expect_dispatcher(terms);
        Some((self.claim(ready), reservation))
    }

    /// A waiting dispatcher, for a message that is about to be created: its instance is to be locked for it by the same
    /// batch. None if nobody waits, or the instance is worked on or has other messages.
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
        let reservation = state.parked.reserve_dispatcher()?;
        let instance = state.turns.claim(instance, now);
        Some((self.claim((instance, None)), reservation))
    }

    /// The messages that came for an instance while a dispatcher works on it: to be locked by the batch that commits. None
    /// if not all are known, or another instance has waited longer.
    pub(crate) fn reserve_next(
        &self,
        instance: &str,
        terms: &TurnTerms,
    ) -> Option<(Vec<ReadMessage>, TurnReservation)> {
        let mut state = self.state();
        let messages = state.turns.take_next(instance)?;
        Some((messages, state.parked.expect_dispatcher(terms)))
    }

    /// A turn could not be locked: the dispatcher that waits for it asks again.
    pub(crate) fn end_turn_reservation(&self, reservation: &TurnReservation) {
        if !self.state().parked.forget_expected_dispatcher(reservation) {
            reservation.handover.wake();
        }
    }

    /// The turn that was locked for a dispatcher that has not come.
    pub(crate) fn withdraw_turn(&self, reservation: &TurnReservation) -> Option<Box<LockedTurn>> {
        let is_left = self.state().parked.forget_expected_dispatcher(reservation);
        is_left.then(|| reservation.handover.leave())?
    }

    /// An activity for a worker to lock; if there is none, a waiter for one.
    pub(crate) fn next_item(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        lock_timeout: Duration,
    ) -> Result<ItemHint, ParkedWorker> {
        let mut state = self.state();
        if let Some(waiter) = state.parked.take_expected(wanted.tags, lock_timeout) {
            return Err(ParkedWorker { dispatch: Arc::clone(self), waiter });
        }
        if let Some(hint) = state.items.pop(wanted) {
            return Ok(hint);
        }
        let is_new = state.seen.activities.include(wanted.tags, wanted.owner.is_some());
        state.seen.is_unasked |= is_new;
        let waiter = WorkerWaiter::new(wanted, lock_timeout);
        state.parked.workers.push(Arc::clone(&waiter));
        drop(state);
        self.activate();
        if is_new {
            self.feeder.notify_one();
        }
        Err(ParkedWorker { dispatch: Arc::clone(self), waiter })
    }

    /// Reserves a waiting worker for an activity that is about to be scheduled.
    pub(crate) fn reserve(&self, item: &WorkItem) -> Option<Reservation> {
        let WorkItem::ActivityExecute { session_id: None, tag, .. } = item else { return None };
        self.takes_hints.then(|| self.state().parked.reserve(tag.as_deref()))?
    }

    /// Lets a worker wait on whose activity was not committed. What became ready meanwhile found it spoken for.
    pub(crate) fn unreserve(&self, reservation: Reservation) {
        let State { parked, items, .. } = &mut *self.state();
        if parked.unreserve(reservation) {
            parked.wake_workers(items, 1);
        }
    }

    /// The activities that workers would be given next, to be claimed before they ask, of one instance. The next ones that
    /// ask on these terms wait for that claim. In all, no more are claimed ahead than `most`.
    pub(crate) fn reserve_ahead(
        &self,
        terms: &WorkerTerms,
        most: usize,
    ) -> Vec<(ItemHint, Reservation)> {
        let mut reserved: Vec<(ItemHint, Reservation)> = Vec::new();
        if !self.takes_hints {
            return reserved;
        }
        let mut state = self.state();
        let wanted = terms.wanted();
        while state.parked.expected() < most {
            // A session is claimed by the worker itself, when it asks. Its activity is not passed over for a younger one.
            let is_next = |hint: &ItemHint| {
                hint.session.is_none()
                    && reserved.first().is_none_or(|(first, _)| first.is_beside(hint))
            };
            let Some(hint) = state.items.pop_if(wanted, is_next) else { break };
            let reservation = state.parked.expect(&terms.tags, terms.lock_timeout);
            reserved.push((hint, reservation));
        }
        reserved
    }

    /// Whether activities wait for a worker that asks on these terms, or are claimed for one.
    pub(crate) fn has_items(&self, terms: &WorkerTerms) -> bool {
        let mut state = self.state();
        state.parked.expected() > 0 || state.items.has(terms.wanted())
    }

    /// A claim came to nothing: whoever waits for it asks again.
    pub(crate) fn end_reservation(&self, reservation: &Reservation) {
        if !self.state().parked.forget_expected(reservation.waiter()) {
            reservation.handover().wake();
        }
    }

    /// What was claimed for a worker that has not come.
    pub(crate) fn withdraw(&self, reservation: &Reservation) -> Option<Box<Claimed>> {
        let is_left = self.state().parked.forget_expected(reservation.waiter());
        is_left.then(|| reservation.handover().leave())?
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

    /// An instance could not be locked.
    pub(crate) fn turn_blocked(&self, instance: &str, why: Blocked, now: i64) {
        self.state().turns.block(instance, why, now);
    }

    /// A worker of this process has an activity until a time.
    pub(crate) fn item_taken(&self, id: &str, until: i64, now: i64) {
        self.state().items.took(id, until, now);
    }

    /// An activity cannot be claimed before a time: until then it is no news that the container has it.
    pub(crate) fn item_unready(&self, id: &str, until: i64, now: i64) {
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
        (state.turns.len(), state.items.ready())
    }

    /// Notes what a dispatcher can replay. Says it in a form that is shared, if all dispatchers say the same.
    pub(crate) fn saw_filter(
        &self,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Option<SharedFilter> {
        let mut state = self.state();
        match &state.filter {
            SeenFilter::Unknown => {
                let shared = SharedFilter::new(filter.cloned());
                state.filter = SeenFilter::One(Arc::clone(&shared));
                Some(shared)
            }
            SeenFilter::One(known) if is_same(known.as_ref().as_ref(), filter) => {
                Some(Arc::clone(known))
            }
            SeenFilter::One(_) | SeenFilter::Several => {
                state.filter = SeenFilter::Several;
                None
            }
        }
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
    waiter: Arc<Handover<LockedTurn>>,
}

impl ParkedDispatcher {
    /// Waits until a turn was handed over, or may be ready.
    pub(crate) async fn wait(&self) {
        self.waiter.woken().await;
    }

    /// What was handed over. The dispatcher waits no more.
    pub(crate) fn leave(&self) -> Option<Box<LockedTurn>> {
        self.waiter.leave()
    }
}

impl Drop for ParkedDispatcher {
    fn drop(&mut self) {
        let mut state = self.dispatch.state();
        let before = state.parked.dispatchers.len();
        state.parked.dispatchers.retain(|it| !Arc::ptr_eq(&it.handover, &self.waiter));
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
        self.waiter.handover.woken().await;
    }

    /// What was handed over. The worker waits no more.
    pub(crate) fn leave(&self) -> Option<Box<Claimed>> {
        let State { parked, items, .. } = &mut *self.dispatch.state();
        parked.workers.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let claimed = self.waiter.handover.leave();
        // It may have been woken and then cancelled: the wakeup is passed on, or it would be lost.
        if claimed.is_none() {
            parked.wake_workers(items, 1);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duroxide::providers::TagFilter;

    use super::*;
    use crate::work_items::{Enqueued, worker_item};

    fn hint(instance: &str, id: u64, at: i64) -> ItemHint {
        let item = WorkItem::ActivityExecute {
            instance: instance.to_owned(),
            execution_id: 1,
            id,
            name: "work".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let enqueued =
            Enqueued { now: at, seq: id, visible_at: at, is_fenced: true, is_start: false };
        let (document, _) = worker_item("test", &item, enqueued).unwrap();
        ItemHint::of(&document, Some(serde_json::from_str("\"e\"").unwrap()))
    }

    #[test]
    fn no_more_activities_are_claimed_ahead_than_workers_ask_for_and_of_one_instance_at_a_time() {
        let dispatch = Dispatch::new(true);
        for (instance, id, at) in [("a", 2, 1), ("a", 3, 1), ("b", 2, 2), ("b", 3, 2), ("b", 4, 2)]
        {
            dispatch.item_enqueued(hint(instance, id, at), at, at);
        }
        let lock_timeout = Duration::from_secs(30);
        let terms = WorkerTerms { tags: TagFilter::DefaultOnly, owner: None, lock_timeout };
        let reserve = |most| {
            let reserved = dispatch.reserve_ahead(&terms, most);
            reserved.into_iter().map(|(hint, _)| hint.instance).collect::<Vec<_>>()
        };
        assert_eq!(reserve(3), ["a", "a"]);
        assert_eq!(reserve(3), ["b"], "two are claimed already");
        assert!(reserve(3).is_empty());
        assert_eq!(reserve(9), ["b", "b"]);
    }

    /// A process without workers kept every activity that its turns scheduled, up to ten thousand, for nobody.
    #[test]
    fn before_a_worker_has_asked_few_activities_are_kept_for_it() {
        let dispatch = Arc::new(Dispatch::new(true));
        let many = 3 * MAX_HINTS_FOR_NOBODY;
        let enqueue = |instance: &str, visible_at: i64| {
            for id in 0..many {
                dispatch.item_enqueued(hint(instance, id as u64, 1), visible_at, 1);
            }
        };
        enqueue("a", 1);
        enqueue("later", 1_000);
        assert_eq!(dispatch.state().items.len(), MAX_HINTS_FOR_NOBODY);
        let wanted = Wanted { tags: &TagFilter::DefaultOnly, owner: None };
        let given = (0..many).take_while(|_| dispatch.next_item(wanted, Duration::ZERO).is_ok());
        assert_eq!(given.count(), MAX_HINTS_FOR_NOBODY);
        assert!(dispatch.is_active(), "the container is asked for the others");
        enqueue("b", 1);
        assert_eq!(dispatch.state().items.len(), many);
    }
}
