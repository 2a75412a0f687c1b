//! Messages to instances that were never started: events that came after their orchestration was deleted, or before its start.
//!
//! There may be thousands, and duroxide wants them kept. Dispatchers must not look at them again and again, so each gets a time
//! before which polls do not find it. A start of the instance is found by itself, and its turn takes them all.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;

use super::TurnFetcher;
use crate::clock::millis;
use crate::documents::MessageDocument;
use crate::failure::Failure;
use crate::telemetry::Occurrence;
use crate::turn::Asked;
use crate::turn::{Blocked, FetchPlan};
use crate::write::{self, Change, Write};

const OPERATION: &str = "postpone";

/// A younger message may have overtaken the start of its instance.
pub(crate) const STRAY_AFTER_MS: i64 = 2_000;

/// How long polls do not find a message after it was looked at, the first time and from then on.
const FIRST_PAUSE: Duration = Duration::from_secs(600);
const NEXT_PAUSE: Duration = Duration::from_secs(3_600);

/// How many instances are looked at at the same time: beside the work of dispatchers.
const AT_ONCE: usize = 4;

/// The most instances that wait to be looked at; a poll finds the others again.
const MAX_WAITING: usize = 10_000;

/// Instances with messages that are to be looked at beside the dispatchers.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waiting: BTreeSet<String>,
    is_running: bool,
}

impl Strays {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds instances. Returns whether a task has to be started for them.
    fn add(&self, instances: Vec<String>) -> bool {
        let mut state = self.state();
        let room = MAX_WAITING.saturating_sub(state.waiting.len());
        state.waiting.extend(instances.into_iter().take(room));
        let is_first = !state.is_running && !state.waiting.is_empty();
        state.is_running |= is_first;
        is_first
    }

    /// Takes all waiting instances. The task ends when it gets an empty list.
    fn take(&self) -> Vec<String> {
        let mut state = self.state();
        let taken = std::mem::take(&mut state.waiting);
        state.is_running = !taken.is_empty();
        taken.into_iter().collect()
    }
}

impl TurnFetcher {
    /// Looks at instances with messages and without a start, beside the dispatchers.
    pub(crate) fn look_at_strays(self: &Arc<Self>, instances: Vec<String>) {
        if !self.strays.add(instances) {
            return;
        }
        let turns = Arc::clone(self);
        self.tasks.spawn_metered(OPERATION, async move {
            loop {
                let some = turns.strays.take();
                if some.is_empty() {
                    break;
                }
                let look = |instance: String| {
                    let turns = Arc::clone(&turns);
                    async move { turns.look_at_stray(&instance).await }
                };
                stream::iter(some).for_each_concurrent(AT_ONCE, look).await;
            }
        });
    }

    async fn look_at_stray(self: &Arc<Self>, instance: &str) {
        if let Err(failure) = self.triage(instance).await {
            tracing::debug!(instance, error = %failure.error(), "stray messages are looked at later");
        }
    }

    /// Leaves an instance to the dispatchers if it can be fetched after all; its messages wait for its start otherwise.
    async fn triage(self: &Arc<Self>, instance: &str) -> Result<(), Failure> {
        let view = self.view(instance).await?;
        let messages: Vec<MessageDocument> =
            view.messages.iter().map(|message| message.document.clone()).collect();
        let asked = Asked { lock_timeout: Duration::ZERO, filter: None, terms: None };
        let (planned, _) = self.plan_turn(instance, view, asked);
        match planned {
            FetchPlan::Skip(Some(Blocked::Unready)) => self.postpone(instance, &messages).await,
            FetchPlan::Skip(_) => Ok(()),
            FetchPlan::Drop(writes) => self.store.remove_all(instance, writes).await,
            FetchPlan::CleanUp(_) | FetchPlan::Lock(_) => {
                let now = self.store.now();
                self.dispatch.message_enqueued(instance, None, now, now);
                Ok(())
            }
        }
    }

    /// Postpones messages that a dispatcher has found to wait for their start, beside the calls.
    pub(super) fn spawn_postpone(self: &Arc<Self>, instance: &str, messages: Vec<MessageDocument>) {
        let (turns, instance) = (Arc::clone(self), instance.to_owned());
        self.tasks.spawn_metered(OPERATION, async move {
            if let Err(failure) = turns.postpone(&instance, &messages).await {
                tracing::debug!(instance, error = %failure.error(), "messages are postponed later");
            }
        });
    }

    /// Has polls leave messages alone for a while. Conditional on their versions: the start may have come meanwhile.
    async fn postpone(&self, instance: &str, messages: &[MessageDocument]) -> Result<(), Failure> {
        let now = self.store.now();
        let is_stray = |it: &&MessageDocument| it.enqueued_at.saturating_add(STRAY_AFTER_MS) <= now;
        let postpone = |message: &MessageDocument| {
            let pause = if message.retry_at.is_none() { FIRST_PAUSE } else { NEXT_PAUSE };
            let until = now.saturating_add(millis(self.store.clock().backoff(pause)));
            let change = Change::Postpone { until, if_match: message.etag.clone() };
            Write { id: message.id.clone(), change }
        };
        let writes: Vec<Write> = messages.iter().filter(is_stray).map(postpone).collect();
        for chunk in write::chunks(writes, 0) {
            self.store.telemetry.occurred(Occurrence::MessageUnready);
            self.store.write_once(instance, &chunk).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_task_looks_at_all_strays_until_there_are_none() {
        let strays = Strays::default();
        assert!(!strays.add(vec![]), "there is nothing to do");
        assert!(strays.add(vec!["a".to_owned(), "b".to_owned()]));
        assert!(!strays.add(vec!["a".to_owned(), "c".to_owned()]), "a task is running");
        assert_eq!(strays.take(), ["a", "b", "c"]);
        assert!(!strays.add(vec!["d".to_owned()]));
        assert_eq!(strays.take(), ["d"]);
        assert!(strays.take().is_empty());
        let many = (0..2 * MAX_WAITING).map(|number| number.to_string());
        assert!(strays.add(many.collect()), "the task has ended");
        assert_eq!(strays.take().len(), MAX_WAITING);
    }
}
