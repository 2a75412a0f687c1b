//! The messages that this process has not delivered yet: which are under way, when the others are tried again, and which
//! belong to a turn that is still being written. Pure but for a mutex: the time comes in.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::documents::IntentDocument;

/// The most intents that a process remembers; a scan finds the others.
const MAX_REMEMBERED: usize = 10_000;

/// The pause after the first failed delivery. Each next one is twice as long.
const FIRST_PAUSE_MS: i64 = 2_000;
const LONGEST_PAUSE_MS: i64 = 60_000;

/// A pending intent as a query found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundIntent {
    pub(crate) instance: String,
    pub(crate) id: String,
    /// The turn that it was staged with.
    pub(crate) staged_turn: Option<u64>,
}

/// Undelivered messages, by the ids of their intents.
#[derive(Debug, Default)]
pub(super) struct Undelivered(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    retries: HashMap<String, Retry>,
    /// Deliveries that are under way in this process: a query finds their intents too.
    under_way: HashSet<String>,
    /// Senders whose turn is being staged, or was given up: not looked at again before then.
    staging: HashMap<String, Pause>,
}

#[derive(Debug)]
struct Retry {
    intent: IntentDocument,
    pause: Pause,
}

/// Exponential back-off.
#[derive(Clone, Copy, Debug)]
struct Pause {
    length: i64,
    until: i64,
}

impl Pause {
    fn after(before: Option<Self>, now: i64) -> Self {
        let length =
            before.map_or(FIRST_PAUSE_MS, |it| it.length.saturating_mul(2).min(LONGEST_PAUSE_MS));
        Self { length, until: now.saturating_add(length) }
    }
}

impl Undelivered {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a delivery. None if it is under way, or is to be tried later.
    pub(super) fn begin(&self, id: &str, now: i64) -> Option<UnderWay<'_>> {
        let mut state = self.state();
        let is_later = state.retries.get(id).is_some_and(|retry| retry.pause.until > now);
        let is_begun = !is_later && state.under_way.insert(id.to_owned());
        is_begun.then(|| UnderWay { all: self, id: id.to_owned() })
    }

    /// Notes a delivery that succeeded, or that is not to be tried again.
    pub(super) fn done(&self, id: &str) {
        self.state().retries.remove(id);
    }

    /// Notes a delivery that failed. It is tried again after a pause. Returns whether it is the first failure.
    pub(super) fn failed(&self, intent: &IntentDocument, now: i64) -> bool {
        let mut state = self.state();
        let before = state.retries.get(&intent.id).map(|retry| retry.pause);
        if before.is_some() || state.retries.len() < MAX_REMEMBERED {
            let retry = Retry { intent: intent.clone(), pause: Pause::after(before, now) };
            state.retries.insert(intent.id.clone(), retry);
        }
        before.is_none()
    }

    /// Has a message delivered by the next tick, whenever it was to be tried again.
    pub(super) fn retry_now(&self, intent: &IntentDocument, now: i64) {
        let mut state = self.state();
        if state.retries.len() < MAX_REMEMBERED || state.retries.contains_key(&intent.id) {
            let pause = Pause { length: FIRST_PAUSE_MS, until: now };
            state.retries.insert(intent.id.clone(), Retry { intent: intent.clone(), pause });
        }
    }

    /// The intents whose time has come.
    pub(super) fn due(&self, now: i64) -> Vec<IntentDocument> {
        let state = self.state();
        let due = state.retries.values().filter(|retry| retry.pause.until <= now);
        due.map(|retry| retry.intent.clone()).collect()
    }

    /// Notes that the staged turn of a sender is not committed.
    pub(super) fn uncommitted(&self, instance: &str, now: i64) {
        let mut state = self.state();
        if state.staging.len() >= MAX_REMEMBERED {
            state.staging.retain(|_, pause| pause.until > now);
        }
        let before = state.staging.get(instance).copied();
        if before.is_some() || state.staging.len() < MAX_REMEMBERED {
            state.staging.insert(instance.to_owned(), Pause::after(before, now));
        }
    }

    /// Notes that the staged turn of a sender is committed.
    pub(super) fn committed(&self, instance: &str) {
        self.state().staging.remove(instance);
    }

    /// Of intents that a query found, those to be looked at now.
    pub(super) fn worth_a_look(&self, mut found: Vec<FoundIntent>, now: i64) -> Vec<FoundIntent> {
        let state = self.state();
        found.retain(|it| {
            let is_later = state.retries.get(&it.id).is_some_and(|it| it.pause.until > now);
            let is_staging = it.staged_turn.is_some()
                && state.staging.get(&it.instance).is_some_and(|pause| pause.until > now);
            !is_later && !is_staging && !state.under_way.contains(&it.id)
        });
        found
    }

    /// How many messages are to be tried again, and when the oldest of them was sent.
    #[cfg(feature = "otel")]
    pub(super) fn waiting(&self) -> (usize, Option<i64>) {
        let state = self.state();
        let oldest = state.retries.values().map(|retry| retry.intent.created_at).min();
        (state.retries.len(), oldest)
    }
}

/// A delivery, until it has ended or was dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    all: &'a Undelivered,
    id: String,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.all.state().under_way.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn intent(id: &str) -> IntentDocument {
        serde_json::from_value(json!({
            "id": id, "instanceId": "i", "type": "outbox_intent", "targetInstanceId": "t",
            "targetDocumentType": "orch_queue", "payload": "{}", "visibleAt": 0, "idempotencyKey": "k",
            "status": "pending", "createdAt": 1, "attemptCount": 0, "lastAttemptAt": null,
        }))
        .unwrap()
    }

    fn found(id: &str, staged_turn: Option<u64>) -> FoundIntent {
        FoundIntent { instance: "i".to_owned(), id: id.to_owned(), staged_turn }
    }

    #[test]
    fn a_failed_delivery_is_tried_again_ever_more_rarely() {
        let all = Undelivered::default();
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..7 {
            let under_way = all.begin("a", now).unwrap();
            assert!(all.begin("a", now).is_none(), "it is under way");
            all.failed(&intent("a"), now);
            drop(under_way);
            assert!(all.due(now + 1_999).is_empty() && all.begin("a", now + 1_999).is_none());
            let due = (1..).map(|seconds| now + seconds * 1_000);
            let due = due.into_iter().find(|at| !all.due(*at).is_empty()).unwrap();
            pauses.push((due - now) / 1_000);
            now = due;
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60]);
        all.done("a");
        assert!(all.due(i64::MAX).is_empty());
    }

    #[test]
    fn what_is_under_way_or_waits_is_not_looked_at() {
        let all = Undelivered::default();
        let under_way = all.begin("a", 0);
        all.failed(&intent("b"), 0);
        let look = |now| all.worth_a_look(vec![found("a", None), found("b", None)], now);
        assert_eq!(look(1_999), []);
        assert_eq!(look(2_000), [found("b", None)]);
        drop(under_way);
        assert_eq!(look(2_000).len(), 2, "it was cut off");
    }

    /// Each look read a hundred intents of a turn that was being written, and as often its sender.
    #[test]
    fn a_turn_that_is_being_staged_is_not_looked_through() {
        let all = Undelivered::default();
        let look = |now| all.worth_a_look(vec![found("a", Some(2)), found("b", None)], now);
        assert_eq!(look(0).len(), 2);
        all.uncommitted("i", 0);
        assert_eq!(look(1_999), [found("b", None)]);
        assert_eq!(look(2_000).len(), 2);
        all.uncommitted("i", 2_000);
        assert_eq!(look(5_999), [found("b", None)]);
        all.committed("i");
        assert_eq!(look(5_999).len(), 2);
    }
}
