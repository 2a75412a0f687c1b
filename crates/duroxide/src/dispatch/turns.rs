//! Instances that this process knows to have messages, without asking. Hints: one that is lost costs a poll's time,
//! one that is wrong costs a request.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::blocked::BlockedInstances;
use super::messages::KnownMessages;
use crate::turn::{Blocked, ReadMessage};

/// The most hints of a kind; the container is asked for what is left out.
pub(super) const MAX_HINTS: usize = 10_000;

/// How long a dispatcher may take to lock an instance that it was given.
const CLAIM_MS: i64 = 10_000;

/// Instances that are ready, being worked on, or ready at a time to come.
#[derive(Debug, Default)]
pub(crate) struct TurnHints {
    states: HashMap<Arc<str>, State>,
    /// Those that are ready, by the time of their oldest message.
    ready: BTreeSet<(i64, Arc<str>)>,
    /// When messages become visible.
    timers: BTreeSet<(i64, Arc<str>)>,
    /// Of those that are ready or being worked on, the messages that came.
    messages: KnownMessages,
    /// Instances that could not be locked.
    blocked: BlockedInstances,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its oldest message is of this time.
    Ready(i64),
    /// A dispatcher of this process has it, until then at the latest. `again` if a message came meanwhile.
    Running { until: i64, again: bool },
}

impl TurnHints {
    /// Notes that an instance has a message, which may be known. Says whether a dispatcher can be woken for it.
    pub(crate) fn push(
        &mut self,
        instance: &str,
        message: Option<ReadMessage>,
        enqueued_at: i64,
        now: i64,
    ) -> bool {
        self.blocked.remove(instance);
        self.push_unblocked(instance, message, enqueued_at, now)
    }

    fn push_unblocked(
        &mut self,
        instance: &str,
        message: Option<ReadMessage>,
        enqueued_at: i64,
        now: i64,
    ) -> bool {
        let (name, order) = match self.states.get_key_value(instance) {
            Some((name, State::Running { until, .. })) if *until > now => {
                let (name, until) = (Arc::clone(name), *until);
                self.messages.push(&name, message);
                self.states.insert(name, State::Running { until, again: true });
                return false;
            }
            Some((name, State::Ready(order))) if *order <= enqueued_at => {
                self.messages.push(name, message);
                return false;
            }
            Some((name, State::Ready(order))) => (Arc::clone(name), Some(*order)),
            Some((name, State::Running { .. })) => (Arc::clone(name), None),
            None => (Arc::from(instance), None),
        };
        if let Some(order) = order {
            self.ready.remove(&(order, Arc::clone(&name)));
        } else if self.ready.len() >= MAX_HINTS {
            return false;
        }
        self.messages.push(&name, message);
        self.ready.insert((enqueued_at, Arc::clone(&name)));
        self.states.insert(name, State::Ready(enqueued_at));
        order.is_none()
    }

    /// How many are ready.
    #[cfg(feature = "otel")]
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Records an instance that a poll has found: one that was just found to be blocked is left out. That it
    /// was is remembered until it is locked.
    pub(crate) fn push_found(&mut self, instance: &str, enqueued_at: i64, now: i64) -> bool {
        !self.is_blocked(instance, now) && self.push_unblocked(instance, None, enqueued_at, now)
    }

    /// Whether a message is known of an instance that is ready.
    pub(crate) fn knows(&self, instance: &str, id: &str) -> bool {
        self.messages.contains(instance, id)
    }

    /// Whether an instance is not to be tried now: another process has it, or this one.
    pub(crate) fn is_blocked(&self, instance: &str, now: i64) -> bool {
        let is_running =
            matches!(self.states.get(instance), Some(State::Running { until, .. }) if *until > now);
        is_running || self.blocked.contains(instance, now)
    }

    /// Whether an instance was tried several times in vain.
    pub(crate) fn is_long_blocked(&self, instance: &str) -> bool {
        self.blocked.is_long_blocked(instance)
    }

    /// Notes that a message of an instance becomes visible.
    pub(crate) fn push_timer(&mut self, instance: &str, visible_at: i64) {
        if self.timers.len() >= MAX_HINTS {
            // The latest is the one that the container is asked for first.
            match self.timers.last() {
                Some((latest, _)) if *latest > visible_at => drop(self.timers.pop_last()),
                _ => return,
            }
        }
        let name = self.states.get_key_value(instance).map(|(name, _)| Arc::clone(name));
        self.timers.insert((visible_at, name.unwrap_or_else(|| Arc::from(instance))));
    }

    /// When the next message becomes visible.
    pub(crate) fn next_timer(&self) -> Option<i64> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Makes those ready whose time has come. Says how many dispatchers can be woken.
    pub(crate) fn fire(&mut self, now: i64) -> usize {
        let mut woken = 0;
        while let Some((at, instance)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, instance));
                break;
            }
            woken += usize::from(self.push(&instance, None, at, now));
        }
        woken
    }

    /// The instance that waits longest, for a dispatcher to lock, and its messages if all are known.
    pub(crate) fn pop(&mut self, now: i64) -> Option<(Arc<str>, Option<Vec<ReadMessage>>)> {
        let (_, instance) = self.ready.pop_first()?;
        let until = now.saturating_add(CLAIM_MS);
        self.states.insert(Arc::clone(&instance), State::Running { until, again: false });
        let messages = self.messages.take(&instance);
        Some((instance, messages))
    }

    /// Whether nothing is known of an instance.
    pub(crate) fn is_unknown(&self, instance: &str) -> bool {
        !self.states.contains_key(instance)
    }

    /// Notes that an instance is about to be locked, of which nothing was known.
    pub(crate) fn claim(&mut self, instance: &str, now: i64) -> Arc<str> {
        let (name, until) = (Arc::<str>::from(instance), now.saturating_add(CLAIM_MS));
        self.states.insert(Arc::clone(&name), State::Running { until, again: false });
        name
    }

    /// The messages that came for an instance while it is worked on, if all are known and none of another instance is
    /// older.
    pub(crate) fn take_next(&mut self, instance: &str) -> Option<Vec<ReadMessage>> {
        let Some(State::Running { again, .. }) = self.states.get_mut(instance) else { return None };
        let oldest = self.messages.oldest(instance)?;
        if self.ready.first().is_some_and(|(order, _)| *order < oldest) {
            return None;
        }
        *again = false;
        self.messages.take(instance)
    }

    /// Whether an instance is ready.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Notes that an instance is locked by a dispatcher of this process. `has_more` if not all its messages were
    /// taken.
    pub(crate) fn locked(&mut self, instance: &str, until: i64, has_more: bool, now: i64) {
        self.blocked.remove(instance);
        if self.states.len() >= 2 * MAX_HINTS {
            self.states.retain(|_, state| match state {
                State::Ready(_) => true,
                State::Running { until, .. } => *until > now,
            });
        }
        let again = match self.states.get(instance) {
            Some(State::Running { again, .. }) => *again,
            // A fetch without a hint has taken all that was there.
            Some(State::Ready(order)) => {
                let order = *order;
                self.ready.remove(&(order, Arc::from(instance)));
                self.messages.take(instance);
                false
            }
            None => false,
        };
        if has_more {
            self.messages.push(&Arc::from(instance), None);
        }
        let again = again || has_more;
        self.states.insert(Arc::from(instance), State::Running { until, again });
    }

    /// Notes that a lock was extended.
    pub(crate) fn extended(&mut self, instance: &str, until: i64) {
        if let Some(State::Running { until: end, .. }) = self.states.get_mut(instance) {
            *end = until;
        }
    }

    /// Notes that the lock of an instance is released, or was not got. Says whether a dispatcher can be woken.
    pub(crate) fn released(&mut self, instance: &str, now: i64) -> bool {
        match self.states.get(instance) {
            Some(State::Running { again, .. }) => {
                let again = *again;
                self.states.remove(instance);
                if !again {
                    self.messages.take(instance);
                    return false;
                }
                let messages = self.messages.take(instance);
                let is_ready = self.push(instance, None, now, now);
                // What was noted while it was worked on is still all there is.
                if let Some(messages) = messages {
                    self.messages.take(instance);
                    let name: Arc<str> = Arc::from(instance);
                    messages.into_iter().for_each(|it| self.messages.push(&name, Some(it)));
                }
                is_ready
            }
            _ => false,
        }
    }

    /// Notes that an instance could not be locked.
    pub(crate) fn block(&mut self, instance: &str, why: Blocked, now: i64) {
        self.blocked.insert(instance, why, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(hints: &mut TurnHints, now: i64) -> Option<String> {
        hints.pop(now).map(|(instance, _)| instance.to_string())
    }

    #[test]
    fn the_instance_whose_message_is_oldest_comes_first_and_once() {
        let mut hints = TurnHints::default();
        assert!(hints.push("b", None, 20, 20));
        assert!(hints.push("a", None, 21, 21));
        assert!(!hints.push("b", None, 22, 22), "it is ready already");
        assert!(!hints.push("a", None, 10, 22), "no second dispatcher is woken for it");
        assert_eq!(popped(&mut hints, 22).as_deref(), Some("a"));
        assert_eq!(popped(&mut hints, 22).as_deref(), Some("b"));
        assert_eq!(popped(&mut hints, 22), None);
    }

    #[test]
    fn a_message_that_comes_during_a_turn_is_handled_after_it() {
        let mut hints = TurnHints::default();
        hints.push("a", None, 1, 1);
        hints.pop(1);
        assert!(!hints.push("a", None, 2, 2), "it is being locked");
        hints.locked("a", 5_000, false, 3);
        assert!(hints.is_blocked("a", 4));
        assert_eq!(popped(&mut hints, 4), None);
        assert!(hints.released("a", 5));
        assert_eq!(popped(&mut hints, 5).as_deref(), Some("a"));
        assert!(!hints.released("a", 6), "nothing came meanwhile");
    }

    #[test]
    fn a_turn_that_did_not_take_all_messages_is_followed_by_another() {
        let mut hints = TurnHints::default();
        hints.locked("a", 5_000, true, 1);
        assert!(hints.released("a", 2));
        assert_eq!(popped(&mut hints, 2).as_deref(), Some("a"));
    }

    #[test]
    fn a_lost_dispatcher_hides_an_instance_no_longer_than_its_lock() {
        let mut hints = TurnHints::default();
        hints.locked("a", 5_000, false, 1);
        assert!(!hints.push("a", None, 4_999, 4_999));
        assert!(hints.push("a", None, 5_001, 5_001));
        assert_eq!(popped(&mut hints, 5_001).as_deref(), Some("a"));
        hints.locked("b", 5_000, false, 1);
        hints.extended("b", 9_000);
        assert!(!hints.push("b", None, 6_000, 6_000));
    }

    #[test]
    fn timers_fire_in_their_order_and_not_before_their_time() {
        let mut hints = TurnHints::default();
        hints.push_timer("late", 300);
        hints.push_timer("early", 200);
        hints.push_timer("early", 250);
        assert_eq!(hints.next_timer(), Some(200));
        assert_eq!(hints.fire(199), 0);
        assert_eq!(hints.fire(260), 1, "two timers of an instance are one turn");
        assert_eq!(popped(&mut hints, 260).as_deref(), Some("early"));
        assert_eq!(hints.next_timer(), Some(300));
    }

    #[test]
    fn a_blocked_instance_is_not_retried_until_a_new_message_comes() {
        let mut hints = TurnHints::default();
        hints.block("a", Blocked::Locked { until: 100 }, 1);
        assert!(!hints.push_found("a", 1, 50));
        assert!(hints.push_found("a", 1, 100));
        hints.pop(100);
        hints.released("a", 101);
        hints.block("a", Blocked::Locked { until: 200 }, 102);
        assert!(hints.push("a", None, 150, 150), "this process enqueued a message");
    }

    #[test]
    fn there_is_a_most_of_everything() {
        let mut hints = TurnHints::default();
        for number in 0..2 * MAX_HINTS {
            let instance = number.to_string();
            hints.push(&instance, None, 1, 1);
            hints.block(&format!("blocked-{number}"), Blocked::Locked { until: 1_000 }, 1);
            let at = i64::try_from(3 * MAX_HINTS - number).unwrap();
            hints.push_timer(&instance, at);
        }
        assert_eq!((hints.ready.len(), hints.blocked.len()), (MAX_HINTS, MAX_HINTS));
        assert_eq!(hints.timers.len(), MAX_HINTS);
        assert_eq!(
            hints.next_timer(),
            Some(1 + i64::try_from(MAX_HINTS).unwrap()),
            "the next ones are kept"
        );
    }
}
