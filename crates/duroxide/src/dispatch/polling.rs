//! The poller's side of dispatch: when to poll, for what, and what a poll has found.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::{Dispatch, ItemHint, SeenFilter, SeenWaiting, State};
use crate::activity_filter::ActivityFilter;
use crate::documents::PinnedVersion;
use crate::turn::is_supported;

/// The most sessions that a poll leaves out because the workers that have them are busy.
const MAX_EXCLUDED_SESSIONS: usize = 100;

/// The callers that wait, at the time of a poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    pub(crate) dispatchers: usize,
    pub(crate) workers: usize,
    /// The activities that the workers wait for.
    pub(crate) activities: ActivityFilter,
}

impl SeenFilter {
    /// Whether a dispatcher of this process may be able to replay a version.
    pub(crate) fn supports(&self, pinned: Option<PinnedVersion>) -> bool {
        match self {
            Self::One(filter) => is_supported(filter.as_ref().as_ref(), pinned),
            Self::Unknown | Self::Several => true,
        }
    }
}

impl Dispatch {
    /// Waits until polling may be due sooner: a caller began to wait, or a timer is nearer.
    pub(crate) async fn polling_changed(&self) {
        self.poller.notified().await;
    }

    /// Stops polling until a dispatcher or worker waits.
    pub(crate) fn stop_polling(&self) {
        self.deactivate();
    }

    /// When to poll next: after the interval if a caller waits, after the longest one if all are busy, and not at all before a
    /// caller has waited.
    pub(crate) fn next_poll(
        &self,
        now: Instant,
        last: Option<Instant>,
        pause: Duration,
        longest: Duration,
    ) -> Option<Instant> {
        if !self.is_active() {
            return None;
        }
        let Some(last) = last else { return Some(now) };
        // A worker has come that takes others than were asked for.
        if self.state().seen.is_unasked {
            return Some(now);
        }
        // Lost wakeup: set before the waiters are counted. A caller that parks after the count, under the same mutex, sees
        // the flag. Relaxed: the mutex orders the two.
        self.wants_waiter.store(true, Ordering::Relaxed);
        if !self.is_waited_for() {
            return Some(last + longest);
        }
        self.wants_waiter.store(false, Ordering::Relaxed);
        Some(last + pause)
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.state().is_waited_for()
    }

    pub(crate) fn demand(&self) -> Demand {
        let state = self.state();
        Demand {
            dispatchers: state.dispatchers.len(),
            workers: state.workers.len(),
            activities: state.workers.filter(),
        }
    }

    /// The work that callers here have waited for, which is polled for now; and the sessions that are left out of
    /// it: what they have waits for workers that are busy, or of other processes.
    pub(crate) fn seen(&self) -> (SeenWaiting, Vec<Arc<str>>) {
        let mut state = self.state();
        state.seen.is_unasked = false;
        let waiting = state.workers.owners();
        let is_waiting = |owner: &str| waiting.contains(owner);
        let busy = state.items.sessions_of_busy_workers(is_waiting, MAX_EXCLUDED_SESSIONS);
        (state.seen.clone(), busy)
    }

    pub(crate) fn filter(&self) -> SeenFilter {
        self.state().filter.clone()
    }

    pub(crate) fn knows(&self, instance: &str, message: &str) -> bool {
        self.state().turns.knows(instance, message)
    }

    pub(crate) fn is_blocked(&self, instance: &str, now: i64) -> bool {
        self.state().turns.is_blocked(instance, now)
    }

    /// A message was found that becomes visible soon.
    pub(crate) fn message_due(&self, instance: &str, visible_at: i64) {
        self.state().turns.push_timer(instance, visible_at);
    }

    /// An instance was found to have messages. Says whether that is new: one that was tried several times in vain is not,
    /// and must not have the container asked more often.
    pub(crate) fn turn_found(&self, instance: &str, enqueued_at: i64, now: i64) -> bool {
        let mut state = self.state();
        let is_new = !state.turns.is_long_blocked(instance);
        let is_ready = state.turns.push_found(instance, enqueued_at, now);
        if is_ready {
            state.dispatchers.wake(|_| true);
        }
        is_ready && is_new
    }

    /// An activity was found to wait. Says whether that is new.
    pub(crate) fn item_found(&self, hint: ItemHint, visible_at: i64, now: i64) -> bool {
        let mut state = self.state();
        if visible_at > now {
            state.items.push_later(hint, visible_at);
            return false;
        }
        state.push_item(hint, now)
    }

    pub(crate) fn next_timer(&self) -> Option<i64> {
        let state = self.state();
        state.turns.next_timer().into_iter().chain(state.items.next_later()).min()
    }

    pub(crate) fn fire_timers(&self, now: i64) {
        let State { turns, items, dispatchers, workers, .. } = &mut *self.state();
        for _ in 0..turns.fire(now) {
            dispatchers.wake(|_| true);
        }
        if items.fire(now) {
            workers.wake_for(items, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_begins_with_the_first_waiter_and_slows_while_all_are_busy() {
        let dispatch = Arc::new(Dispatch::new(true));
        let (now, pause, longest) =
            (Instant::now(), Duration::from_millis(50), Duration::from_secs(1));
        assert_eq!(dispatch.next_poll(now, None, pause, longest), None);
        let parked = dispatch.next_turn(None, 0).unwrap_err();
        assert_eq!(dispatch.next_poll(now, None, pause, longest), Some(now));
        assert_eq!(dispatch.next_poll(now, Some(now), pause, longest), Some(now + pause));
        drop(parked);
        assert_eq!(dispatch.next_poll(now, Some(now), pause, longest), Some(now + longest));
        assert!(dispatch.wants_waiter.load(Ordering::Relaxed), "the next waiter wakes the poller");
    }

    #[test]
    fn polling_is_resumed_by_the_next_waiter_and_not_stopped_under_one() {
        let dispatch = Arc::new(Dispatch::new(true));
        let parked = dispatch.next_turn(None, 0).unwrap_err();
        dispatch.deactivate();
        assert!(dispatch.is_active(), "a dispatcher waits");
        drop(parked);
        dispatch.deactivate();
        assert!(!dispatch.is_active() && !dispatch.seen().0.dispatchers);
        let _parked = dispatch.next_turn(None, 0).unwrap_err();
        assert!(dispatch.is_active() && dispatch.seen().0.dispatchers);
    }
}
