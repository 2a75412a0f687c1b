//! Dispatch: the work that this process knows to be ready, and the callers that wait for work.
//!
//! Work of this process comes as hints, work of other processes through the poller (`poller/`). Correctness does not depend on
//! hints: they may be lost, wrong or late. Every claim is conditional, and the poller finds what no hint was about.

mod blocked;
mod claimed;
mod hand_off;
mod handover;
mod items;
mod messages;
mod polling;
mod turns;
mod wait_queue;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use duroxide::providers::DispatcherCapabilityFilter;
use tokio::sync::Notify;

pub(crate) use claimed::{Claimed, HandOff};
pub(crate) use hand_off::{Claim, Parked, TurnReservation, WorkerReservation};
pub(crate) use items::ItemHint;
pub(crate) use polling::Demand;

use crate::activity_filter::ActivityFilter;
use crate::documents::SessionDocument;
use crate::turn::{Blocked, ReadMessage, SharedFilter};
use hand_off::{Dispatchers, Workers};
use items::ItemHints;
use turns::TurnHints;

/// The most activities that are kept as hints before a worker has asked for any.
const MAX_HINTS_BEFORE_FIRST_WORKER: usize = 100;

/// How much younger a message counts whose instance may not exist: long enough for what is known to be ready to come first,
/// and short enough not to be overtaken for long where there is always something.
const UNKNOWN_LATER_MS: i64 = 1_000;

/// Ready work and waiting callers.
#[derive(Debug)]
pub(crate) struct Dispatch {
    state: Mutex<State>,
    /// Wakes the poller: a caller began to wait, or a timer is nearer.
    poller: Notify,
    /// Whether the container is polled: from the first caller that waits, until callers have stopped waiting.
    is_active: AtomicBool,
    /// Whether the poller would poll sooner if a caller waited.
    wants_waiter: AtomicBool,
    /// Whether hints are taken at all. Without them everything is found by asking.
    takes_hints: bool,
}

#[derive(Debug, Default)]
struct State {
    turns: TurnHints,
    items: ItemHints,
    dispatchers: Dispatchers,
    workers: Workers,
    filter: SeenFilter,
    seen: SeenWaiting,
}

/// The work that callers of this process have waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenWaiting {
    pub(crate) dispatchers: bool,
    pub(crate) activities: ActivityFilter,
    /// The container was not asked for all of these activities yet.
    is_unasked: bool,
}

impl State {
    fn is_waited_for(&self) -> bool {
        !self.dispatchers.is_empty() || !self.workers.is_empty()
    }

    /// Whether a worker of this process takes an activity. Before one has asked, some are kept for it: there may be none
    /// here, and if one comes the container is asked for the others.
    fn is_taken_here(&self, hint: &ItemHint) -> bool {
        let taken = &self.seen.activities;
        match taken.is_empty() {
            true => self.items.len() < MAX_HINTS_BEFORE_FIRST_WORKER,
            false => taken.takes(hint.tag.as_deref(), hint.session.as_deref()),
        }
    }

    fn push_item(&mut self, hint: ItemHint, now: i64) -> bool {
        let is_new = self.is_taken_here(&hint) && self.items.push(hint.clone(), now);
        if is_new {
            self.workers.wake_for_item(&hint, self.items.session_owner(&hint));
        }
        is_new
    }
}

/// The versions that dispatchers of this process can replay, if they all agree.
#[derive(Clone, Debug, Default)]
pub(crate) enum SeenFilter {
    #[default]
    Unknown,
    One(SharedFilter),
    Several,
}

impl Dispatch {
    pub(crate) fn new(takes_hints: bool) -> Self {
        Self {
            state: Mutex::default(),
            poller: Notify::new(),
            is_active: AtomicBool::new(false),
            wants_waiter: AtomicBool::new(false),
            takes_hints,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Poisoned: hints may be wrong or lost at worst, which they may be anyway.
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
                state.dispatchers.wake(|_| true);
            }
            return;
        }
        let next = state.turns.next_timer();
        state.turns.push_timer(instance, visible_at);
        if next.is_none_or(|next| visible_at < next) {
            // The poller sleeps until the timer that was the next one.
            self.poller.notify_one();
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
            self.poller.notify_one();
        }
    }

    /// A worker has a session until a time, of this process or of another. Says whether activities wait for that.
    pub(crate) fn session_held(&self, session: &SessionDocument) -> bool {
        self.takes_hints && self.state().items.session_held(session)
    }

    /// Frees the sessions of processes whose leases have ended: any worker may claim those now.
    pub(crate) fn processes_gone(&self, gone: &BTreeSet<String>) {
        let State { workers, items, .. } = &mut *self.state();
        let freed = items.free_sessions_of(gone);
        if freed > 0 {
            workers.wake_for(items, freed);
        }
    }

    /// A turn of an instance is locked until a time by a dispatcher of this process.
    pub(crate) fn turn_locked(&self, instance: &str, until: i64, has_more: bool, now: i64) {
        self.state().turns.locked(instance, until, has_more && self.takes_hints, now);
    }

    /// The lock of a turn was extended.
    pub(crate) fn turn_extended(&self, instance: &str, until: i64) {
        self.state().turns.extended(instance, until);
    }

    /// A turn has ended: committed, abandoned or lost. Messages that came for the instance meanwhile are ready now.
    pub(crate) fn turn_released(&self, instance: &str, now: i64) {
        let mut state = self.state();
        if state.turns.released(instance, now) {
            state.dispatchers.wake(|_| true);
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

    /// An activity cannot be claimed before a time: until then, poll results for it are ignored.
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

    /// Records the versions that a dispatcher can replay. Returns them in shared form, if all dispatchers agree.
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
        // Relaxed: the poller is woken by a notification, not by this flag.
        self.is_active.load(Ordering::Relaxed)
    }

    /// Stops polling until a dispatcher or worker waits.
    fn deactivate(&self) {
        // Relaxed: the next caller that parks sets it, and notifies.
        self.is_active.store(false, Ordering::Relaxed);
        let mut state = self.state();
        // A caller may have parked between the last count and the store.
        match !state.is_waited_for() {
            true => state.seen = SeenWaiting::default(),
            false => {
                drop(state);
                self.activate();
            }
        }
    }

    /// Starts polling.
    fn activate(&self) {
        // Relaxed: the flags are read under no other data; the waiter itself is published by the mutex.
        let was_active = self.is_active.swap(true, Ordering::Relaxed);
        if self.wants_waiter.swap(false, Ordering::Relaxed) || !was_active {
            self.poller.notify_one();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duroxide::providers::{TagFilter, WorkItem};

    use super::*;
    use crate::activity_filter::WorkerTerms;
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
    fn prefetch_is_bounded_by_the_workers_and_of_one_instance_at_a_time() {
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

    /// A process without workers kept every activity that its turns scheduled, up to ten thousand.
    #[test]
    fn before_a_worker_has_asked_few_activities_are_kept_for_it() {
        let dispatch = Arc::new(Dispatch::new(true));
        let many = 3 * MAX_HINTS_BEFORE_FIRST_WORKER;
        let enqueue = |instance: &str, visible_at: i64| {
            for id in 0..many {
                dispatch.item_enqueued(hint(instance, id as u64, 1), visible_at, 1);
            }
        };
        enqueue("a", 1);
        enqueue("later", 1_000);
        assert_eq!(dispatch.state().items.len(), MAX_HINTS_BEFORE_FIRST_WORKER);
        let terms =
            WorkerTerms { tags: TagFilter::DefaultOnly, owner: None, lock_timeout: Duration::ZERO };
        let given = (0..many).take_while(|_| dispatch.next_item(terms.clone()).is_ok());
        assert_eq!(given.count(), MAX_HINTS_BEFORE_FIRST_WORKER);
        assert!(dispatch.is_active(), "the container is asked for the others");
        enqueue("b", 1);
        assert_eq!(dispatch.state().items.len(), many);
    }
}
