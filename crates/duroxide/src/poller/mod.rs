//! The poller: one task of a process that queries the container for work, on behalf of all callers that wait.
//!
//! `question.rs` is the query, `rows.rs` which of its rows are for this process, `interval.rs` how often it is sent;
//! `membership.rs` keeps the lease of the process.

mod interval;
mod membership;
mod question;
mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use question::{AskedActivities, Question};
use rows::{Row, taken};
use serde_json::{Value, json};
use tokio::time::Instant;

use interval::PollInterval;

use crate::call::metered;
use crate::clock::millis;
use crate::deletions::Deletions;
use crate::dispatch::{Demand, Dispatch};
use crate::documents::{DELETION_LEASE_MS, kinds};
use crate::failure::Failure;
use crate::fetch::{STRAY_AFTER_MS, TurnFetcher};
use crate::leases::{LeaseProvider, Slots};
use crate::locks::Processes;
use crate::outbox::{Outbox, RECONCILER};
use crate::store::{Scope, Store};
use crate::tasks::Tasks;
use crate::turn_locks::TurnLocks;
use crate::workers::ActivityQueue;

pub(crate) use interval::IntervalSettings;

/// How many rows are read at once.
const PAGE: u32 = 100;

/// So many candidates are tried without being asked for their state before: a crowd of locked instances must not
/// cost a request each.
const CLAIMS_BEFORE_BULK_CHECK: usize = 3;

/// If no caller has waited for so long, the runtime has ended or is busy with long work: polling stops, and the slots are left
/// to other processes, until a caller waits again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// However much there is in its own slots, a process looks at those of others at least so often: one of them may be gone.
const FOREIGN_SLOT_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of the poller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollerSettings {
    pub(crate) interval: IntervalSettings,
    /// How old a message to another instance must be before it is delivered in its sender's place.
    pub(crate) intent_age: Duration,
}

/// The result of a poll.
#[derive(Debug, Default)]
struct Look {
    /// How many are new to this process.
    turns: usize,
    items: usize,
    requests: usize,
    /// Those that have messages: more messages of theirs are nothing new.
    instances: BTreeSet<String>,
}

/// How long something must have waited in the slots of other processes to be asked for, if it is at all: not before they
/// have had their time to look twice. A process that is idle, having found nothing in its own slots, asks for it, since
/// others may be busier; and one that begins asks at once.
fn waits_of_others(
    since_last: Option<Duration>,
    is_idle: bool,
    longest_pause: Duration,
) -> Option<Duration> {
    match since_last {
        None => Some(Duration::ZERO),
        Some(since) if is_idle || since >= FOREIGN_SLOT_POLL_INTERVAL => Some(2 * longest_pause),
        Some(_) => None,
    }
}

/// An instance with messages, as a look found it.
#[derive(Clone, Copy, Debug)]
struct FoundTurn {
    /// When the oldest message was enqueued.
    enqueued_at: i64,
    /// Whether none of the messages begins an execution.
    is_no_start: bool,
}

/// Polls for work of other processes.
#[derive(Debug)]
pub(crate) struct Poller {
    pub(crate) store: Store,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) leases: Arc<dyn LeaseProvider>,
    pub(crate) worker_leases: Arc<dyn LeaseProvider>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) turns: Arc<TurnFetcher>,
    pub(crate) locks: Arc<TurnLocks>,
    pub(crate) activities: Arc<ActivityQueue>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) deletions: Arc<Deletions>,
    pub(crate) tasks: Tasks,
}

impl Poller {
    /// Polls until the provider is shut down, while callers wait.
    pub(crate) async fn poll(self: Arc<Self>, settings: PollerSettings) {
        let mut interval = PollInterval::new(settings.interval);
        let (mut last_poll, mut pause) = (None, Duration::ZERO);
        let (mut last_others, mut has_found): (Option<Instant>, bool) = (None, true);
        let mut last_demand = Instant::now();
        loop {
            self.dispatch.fire_timers(self.store.now());
            let now = Instant::now();
            if self.dispatch.is_waited_for() {
                last_demand = now;
            } else if self.dispatch.is_active() && now >= last_demand + IDLE_TIMEOUT {
                self.dispatch.stop_polling();
                last_poll = None;
                match self.holds_locks() {
                    // Its slots are left to others; its lease goes on with its locks.
                    true => self.leases.release_process_slots().await,
                    false => self.leases.release_process().await,
                }
                continue;
            }
            let due = self.dispatch.next_poll(now, last_poll, pause, interval.longest());
            if due.is_some_and(|due| due <= now) {
                let since_others = last_others.map(|last| now - last);
                let is_idle = !has_found && self.dispatch.is_waited_for();
                let others = waits_of_others(since_others, is_idle, interval.longest());
                let look = self.look(settings, others);
                let look = metered(&self.store.telemetry, "poller", look);
                let look = self.beside_timers(look).await;
                if others.is_some() {
                    last_others = Some(now);
                }
                has_found = look.turns + look.items > 0;
                pause = interval.after(has_found, look.requests);
                pause = self.store.clock().jittered(pause);
                last_poll = Some(Instant::now());
                continue;
            }
            let Some(next) = due.into_iter().chain(self.next_timer()).min() else {
                self.dispatch.polling_changed().await;
                continue;
            };
            tokio::select! {
                () = self.dispatch.polling_changed() => {}
                () = tokio::time::sleep_until(next) => {}
            }
        }
    }

    /// When the next timer is due.
    fn next_timer(&self) -> Option<Instant> {
        let at = self.dispatch.next_timer()?;
        let wait = at.saturating_sub(self.store.now()).max(0).unsigned_abs();
        Some(Instant::now() + Duration::from_millis(wait))
    }

    /// Looks for work, which may take long where the account is throttled or far away, and lets timers fire meanwhile.
    async fn beside_timers<T>(&self, look: impl Future<Output = T>) -> T {
        let mut look = std::pin::pin!(look);
        loop {
            let timer = async {
                match self.next_timer() {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                looked = &mut look => return looked,
                // Perhaps a timer is nearer. Whatever else it was is seen after the look.
                () = self.dispatch.polling_changed() => {}
                () = timer => {}
            }
            self.dispatch.fire_timers(self.store.now());
        }
    }

    /// Polls once, for all kinds together; if there is more than a page, for the kinds that callers still wait for.
    async fn look(self: &Arc<Self>, settings: PollerSettings, others: Option<Duration>) -> Look {
        let demand = self.dispatch.demand();
        let asked = self.question(others).await;
        let mut look = Look::default();
        let looked = async {
            let is_all = self.ask(settings, &asked, &demand, &mut look).await?;
            let mut is_left = !is_all;
            while is_left && look.turns < demand.dispatchers {
                let turns = asked.turns_alone(&look.instances);
                is_left = !self.ask(settings, &turns, &demand, &mut look).await?;
            }
            if !is_all && look.items < demand.workers {
                let items = asked.items_alone(&demand.activities);
                self.ask(settings, &items, &demand, &mut look).await?;
            }
            Ok::<(), Failure>(())
        };
        if let Err(failure) = looked.await {
            tracing::debug!(error = %failure.error(), "work is looked for later");
        }
        look
    }

    /// The question of a poll: the work that callers here have waited for, in the slots of this process, and what has waited for
    /// so long in the slots of others. It extends the lease of the process.
    async fn question(&self, others: Option<Duration>) -> Question {
        let (seen, without_sessions) = self.dispatch.seen();
        let others_since = others.map(|waits| self.store.now().saturating_sub(millis(waits)));
        let mut asked = Question::first(others_since);
        if seen.dispatchers {
            asked.messages = Some(self.leases.process_slots().await.into_iter().collect());
        }
        if !seen.activities.is_empty() {
            // The slots are those of activities without a tag.
            let slots = match seen.activities.is_untagged() {
                true => self.worker_leases.process_slots().await.into_iter().collect(),
                false => Slots::default(),
            };
            let filter = seen.activities;
            asked.activities = Some(AskedActivities { slots, filter, without_sessions });
        }
        self.learn_processes().await;
        asked
    }

    /// Sends a query page by page until every caller has work. Returns whether that was all there is.
    async fn ask(
        self: &Arc<Self>,
        settings: PollerSettings,
        asked: &Question,
        demand: &Demand,
        look: &mut Look,
    ) -> Result<bool, Failure> {
        let now = self.store.now();
        let soon = now.saturating_add(millis(settings.interval.longest));
        let before = now.saturating_sub(millis(settings.intent_age));
        let (text, mut parameters) = asked.query(&self.processes.lock_view(self.store.lock_time()));
        parameters.extend([
            ("@soon", json!(soon)),
            ("@now", json!(now)),
            ("@abandoned", json!(now.saturating_sub(DELETION_LEASE_MS))),
            ("@before", json!(before)),
        ]);
        // A poll that is throttled is given up soon and repeated: what it finds would be old.
        let store = self.store.brief();
        let mut pages = store.pages::<Value>(Scope::Everything, &text, &parameters, Some(PAGE));
        let mut seen = HashSet::new();
        while let Some(page) = pages.next().await {
            let page = page?;
            look.requests += page.requests();
            // A page may be short of its rows without being the last.
            let is_last = matches!(page.continuation(), Ok(None));
            let rows = page.into_items().into_iter().filter_map(|row| self.store.readable(row));
            let rows = taken(rows.collect(), asked, demand);
            self.take_rows(rows, &mut seen, look).await?;
            if asked.is_first || is_last || asked.is_met(look, demand) || asked.is_outdated(look) {
                return Ok(is_last);
            }
        }
        Ok(true)
    }

    /// Records the rows of a page.
    async fn take_rows(
        self: &Arc<Self>,
        rows: Vec<Row>,
        seen: &mut HashSet<String>,
        look: &mut Look,
    ) -> Result<(), Failure> {
        let mut turns: HashMap<String, FoundTurn> = HashMap::new();
        let mut intents = Vec::new();
        let now = self.store.now();
        for row in rows {
            if !seen.insert(row.id.clone()) {
                continue;
            }
            match row.kind.as_str() {
                kinds::MESSAGE if row.visible_at > now => {
                    self.dispatch.message_due(&row.instance_id, row.visible_at);
                }
                kinds::MESSAGE => {
                    look.instances.insert(row.instance_id.clone());
                    // One that this process wrote, of an instance that is ready, is nothing new.
                    if !self.dispatch.knows(&row.instance_id, &row.id) {
                        let is_no_start = row.is_no_start();
                        let found = FoundTurn { enqueued_at: row.enqueued_at, is_no_start };
                        turns.entry(row.instance_id).or_insert(found).is_no_start &= is_no_start;
                    }
                }
                kinds::WORKER_ITEM => {
                    let visible_at = row.visible_at;
                    look.items +=
                        usize::from(self.dispatch.item_found(row.hint(), visible_at, now));
                }
                kinds::INSTANCE => self.deletions.report(&row.instance_id),
                _ => intents.push(row.intent()),
            }
        }
        turns.retain(|instance, _| !self.dispatch.is_blocked(instance, now));
        if turns.len() > CLAIMS_BEFORE_BULK_CHECK {
            self.leave_out_blocked_turns(&mut turns, look).await?;
        }
        for (instance, found) in &turns {
            look.turns += usize::from(self.dispatch.turn_found(instance, found.enqueued_at, now));
        }
        if !intents.is_empty() {
            let outbox = Arc::clone(&self.outbox);
            self.tasks
                .spawn_metered(RECONCILER, async move { outbox.redeliver_found(intents).await });
        }
        Ok(())
    }

    /// Takes out instances that are locked, being deleted, of a version that no dispatcher here can replay, or not started.
    async fn leave_out_blocked_turns(
        self: &Arc<Self>,
        turns: &mut HashMap<String, FoundTurn>,
        look: &mut Look,
    ) -> Result<(), Failure> {
        let filter = self.dispatch.filter();
        let ids: Vec<&str> = turns.keys().map(String::as_str).collect();
        let states = self.turns.states(&ids, |pinned| filter.supports(pinned)).await?;
        look.requests += states.requests;
        let is_stray = |(instance, found): &(&String, &FoundTurn)| {
            found.is_no_start && !states.found.contains(*instance)
        };
        let stray = turns.iter().filter(is_stray);
        let stray: Vec<(String, i64)> =
            stray.map(|(instance, found)| (instance.clone(), found.enqueued_at)).collect();
        for (instance, _) in &stray {
            turns.remove(instance);
        }
        // The start of a younger one may be on its way.
        let before = self.store.now().saturating_sub(STRAY_AFTER_MS);
        let old = stray.into_iter().filter(|(_, enqueued_at)| *enqueued_at <= before);
        self.turns.look_at_strays(old.map(|(instance, _)| instance).collect());
        for (instance, why) in states.blocked {
            self.dispatch.turn_blocked(&instance, why, self.store.now());
            turns.remove(&instance);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_others_are_polled_at_first_when_idle_and_periodically() {
        let (longest, second) = (Duration::from_millis(1_250), Duration::from_secs(1));
        let waits = Some(2 * longest);
        assert_eq!(waits_of_others(None, false, longest), Some(Duration::ZERO));
        assert_eq!(waits_of_others(Some(second), false, longest), None);
        assert_eq!(waits_of_others(Some(second), true, longest), waits);
        assert_eq!(waits_of_others(Some(10 * second), false, longest), waits);
    }
}
