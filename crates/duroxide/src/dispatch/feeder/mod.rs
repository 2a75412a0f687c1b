//! The feeder: one task of a process that asks the container for work, for all who wait.

mod question;
mod rows;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use question::{AskedActivities, Question};
use rows::{Row, taken};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pace::{Pace, PaceSettings};
use super::{Dispatch, ItemHint, SeenFilter, SeenWaiting, State};
use crate::activity_filter::ActivityFilter;
use crate::call::metered;
use crate::core::Core;
use crate::documents::{DELETION_LEASE_MS, PinnedVersion, kinds};
use crate::failure::Failure;
use crate::fetch::{STRAY_AFTER_MS, is_supported};
use crate::leases::Slots;
use crate::outbox::RECONCILER;
use crate::store::{Scope, millis};

/// How many rows are read at once.
const PAGE: u32 = 100;

/// So many candidates are tried without being asked for their state before: a crowd of locked instances must not
/// cost a request each.
const TRIED_UNSEEN: usize = 3;

/// Activities of so many sessions are not asked for while the workers that have them do not wait.
const MOST_SESSIONS_LEFT_OUT: usize = 100;

/// If nobody has waited for so long, the runtime has ended or is busy with long work: polling stops, and the slots are
/// left to other processes, until somebody waits again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// However much there is in its own slots, a process looks at those of others at least so often: one of them may be gone.
const OTHERS_AT_LEAST: Duration = Duration::from_secs(10);

/// How the feeder works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeederSettings {
    pub(crate) pace: PaceSettings,
    /// How old a message to another instance must be before it is delivered in its sender's place.
    pub(crate) intent_age: Duration,
}

/// What one look came to.
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
        Some(since) if is_idle || since >= OTHERS_AT_LEAST => Some(2 * longest_pause),
        Some(_) => None,
    }
}

/// Who waits, at the time of a look.
#[derive(Clone, Debug, Default)]
struct Demand {
    dispatchers: usize,
    workers: usize,
    /// What the workers wait for.
    activities: ActivityFilter,
}

/// An instance with messages, as a look found it.
#[derive(Clone, Copy, Debug)]
struct FoundTurn {
    /// When the oldest message was enqueued.
    enqueued_at: i64,
    /// Whether none of the messages begins an execution.
    is_no_start: bool,
}

impl Core {
    /// Asks for work until the provider is shut down: nothing before somebody waits for it.
    pub(crate) async fn feed(self: Arc<Self>, settings: FeederSettings) {
        let mut pace = Pace::new(settings.pace);
        let (mut last_look, mut pause) = (None, Duration::ZERO);
        let (mut last_others, mut has_found): (Option<Instant>, bool) = (None, true);
        let mut last_demand = Instant::now();
        loop {
            self.dispatch.fire_timers(self.store.now());
            let now = Instant::now();
            if self.dispatch.is_waited_for() {
                last_demand = now;
            } else if self.dispatch.is_active() && now >= last_demand + IDLE_TIMEOUT {
                self.dispatch.deactivate();
                last_look = None;
                match self.holds_locks() {
                    // Its slots are left to others; its lease goes on with its locks.
                    true => self.leases.release_process_slots().await,
                    false => self.leases.release_process().await,
                }
                continue;
            }
            let due = self.dispatch.next_look(now, last_look, pause, pace.longest());
            if due.is_some_and(|due| due <= now) {
                let since_others = last_others.map(|last| now - last);
                let is_idle = !has_found && self.dispatch.is_waited_for();
                let others = waits_of_others(since_others, is_idle, pace.longest());
                let look = self.look(settings, others);
                let look = metered(&self.store.telemetry, "feeder", look);
                let look = self.beside_timers(look).await;
                if others.is_some() {
                    last_others = Some(now);
                }
                has_found = look.turns + look.items > 0;
                pause = pace.after(has_found, look.requests);
                pause = self.store.clock().jittered(pause);
                last_look = Some(Instant::now());
                continue;
            }
            let Some(next) = due.into_iter().chain(self.next_timer()).min() else {
                self.dispatch.feeder.notified().await;
                continue;
            };
            tokio::select! {
                () = self.dispatch.feeder.notified() => {}
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
                () = self.dispatch.feeder.notified() => {}
                () = timer => {}
            }
            self.dispatch.fire_timers(self.store.now());
        }
    }

    /// Asks once, of all kinds together; if there is more than a page, of the kind that somebody still waits for.
    async fn look(self: &Arc<Self>, settings: FeederSettings, others: Option<Duration>) -> Look {
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

    /// What to ask for: what somebody here has waited for, in the slots of this process, and what has waited for so long
    /// in those of others. The leases of the process are kept by it.
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

    /// Asks page by page until everybody has something. Says whether that was all there is.
    async fn ask(
        self: &Arc<Self>,
        settings: FeederSettings,
        asked: &Question,
        demand: &Demand,
        look: &mut Look,
    ) -> Result<bool, Failure> {
        let now = self.store.now();
        let soon = now.saturating_add(millis(settings.pace.longest));
        let before = now.saturating_sub(millis(settings.intent_age));
        let (text, mut parameters) = asked.query(&self.lock_view());
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

    /// Notes what a page says is there.
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
                kinds::INSTANCE => self.finish_deletion(&row.instance_id),
                _ => intents.push(row.intent()),
            }
        }
        turns.retain(|instance, _| !self.dispatch.is_blocked(instance, now));
        if turns.len() > TRIED_UNSEEN {
            self.leave_out_blocked_turns(&mut turns, look).await?;
        }
        for (instance, found) in &turns {
            look.turns += usize::from(self.dispatch.turn_found(instance, found.enqueued_at, now));
        }
        if !intents.is_empty() {
            let core = Arc::clone(self);
            self.spawn_metered(RECONCILER, async move { core.redeliver_found(intents).await });
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
        let states = self.states(&ids, |pinned| filter.supports(pinned)).await?;
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
        self.look_at_strays(old.map(|(instance, _)| instance).collect());
        for (instance, why) in states.blocked {
            self.dispatch.turn_blocked(&instance, why, self.store.now());
            turns.remove(&instance);
        }
        Ok(())
    }
}

impl SeenFilter {
    /// Whether somebody in this process may be able to replay a version.
    fn supports(&self, pinned: Option<PinnedVersion>) -> bool {
        match self {
            Self::One(filter) => is_supported(filter.as_ref().as_ref(), pinned),
            Self::Unknown | Self::Several => true,
        }
    }
}

impl Dispatch {
    /// When the container is to be asked next: after the pause if somebody waits, after the longest one if all are
    /// busy; not at all before somebody has waited.
    fn next_look(
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
        // Before the waiters are counted, or a wakeup is lost: whoever parks after the count, under the same mutex, sees
        // the flag. Relaxed: the mutex orders the two.
        self.wants_waiter.store(true, Ordering::Relaxed);
        if !self.is_waited_for() {
            return Some(last + longest);
        }
        self.wants_waiter.store(false, Ordering::Relaxed);
        Some(last + pause)
    }

    fn is_waited_for(&self) -> bool {
        !self.state().parked.is_empty()
    }

    fn demand(&self) -> Demand {
        let state = self.state();
        Demand {
            dispatchers: state.parked.dispatchers.len(),
            workers: state.parked.workers.len(),
            activities: state.parked.wanted(),
        }
    }

    /// What somebody here has waited for, which the container is asked for now; and the sessions that are left out of
    /// it: what they have waits for workers that are busy, or of other processes.
    fn seen(&self) -> (SeenWaiting, Vec<Arc<str>>) {
        let mut state = self.state();
        state.seen.is_unasked = false;
        let waiting = state.parked.owners();
        let is_waiting = |owner: &str| waiting.contains(owner);
        let busy = state.items.sessions_of_busy_workers(is_waiting, MOST_SESSIONS_LEFT_OUT);
        (state.seen.clone(), busy)
    }

    fn filter(&self) -> SeenFilter {
        self.state().filter.clone()
    }

    fn knows(&self, instance: &str, message: &str) -> bool {
        self.state().turns.knows(instance, message)
    }

    fn is_blocked(&self, instance: &str, now: i64) -> bool {
        self.state().turns.is_blocked(instance, now)
    }

    /// A message was found that becomes visible soon.
    fn message_due(&self, instance: &str, visible_at: i64) {
        self.state().turns.push_timer(instance, visible_at);
    }

    /// An instance was found to have messages. Says whether that is new: one that was tried several times in vain is not,
    /// and must not have the container asked more often.
    fn turn_found(&self, instance: &str, enqueued_at: i64, now: i64) -> bool {
        let mut state = self.state();
        let is_new = !state.turns.is_long_blocked(instance);
        let is_ready = state.turns.push_found(instance, enqueued_at, now);
        if is_ready {
            state.parked.wake_dispatcher();
        }
        is_ready && is_new
    }

    /// An activity was found to wait. Says whether that is new.
    fn item_found(&self, hint: ItemHint, visible_at: i64, now: i64) -> bool {
        let mut state = self.state();
        if visible_at > now {
            state.items.push_later(hint, visible_at);
            return false;
        }
        state.push_item(hint, now)
    }

    fn next_timer(&self) -> Option<i64> {
        let state = self.state();
        state.turns.next_timer().into_iter().chain(state.items.next_later()).min()
    }

    fn fire_timers(&self, now: i64) {
        let State { turns, items, parked, .. } = &mut *self.state();
        for _ in 0..turns.fire(now) {
            parked.wake_dispatcher();
        }
        if items.fire(now) {
            parked.wake_workers(items, usize::MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_for_before_somebody_waits_and_not_in_haste_while_all_are_busy() {
        let dispatch = Arc::new(Dispatch::new(true));
        let (now, pause, longest) =
            (Instant::now(), Duration::from_millis(50), Duration::from_secs(1));
        assert_eq!(dispatch.next_look(now, None, pause, longest), None);
        let parked = dispatch.next_turn(None, 0).unwrap_err();
        assert_eq!(dispatch.next_look(now, None, pause, longest), Some(now));
        assert_eq!(dispatch.next_look(now, Some(now), pause, longest), Some(now + pause));
        drop(parked);
        assert_eq!(dispatch.next_look(now, Some(now), pause, longest), Some(now + longest));
        assert!(dispatch.wants_waiter.load(Ordering::Relaxed), "the next waiter wakes the feeder");
    }

    #[test]
    fn a_feeder_that_stops_is_started_by_the_next_waiter_and_not_stopped_under_one() {
        let dispatch = Arc::new(Dispatch::new(true));
        let parked = dispatch.next_turn(None, 0).unwrap_err();
        dispatch.deactivate();
        assert!(dispatch.is_active(), "somebody waits");
        drop(parked);
        dispatch.deactivate();
        assert!(!dispatch.is_active() && !dispatch.seen().0.dispatchers);
        let _parked = dispatch.next_turn(None, 0).unwrap_err();
        assert!(dispatch.is_active() && dispatch.seen().0.dispatchers);
    }

    #[test]
    fn slots_of_others_are_looked_at_by_those_who_begin_who_are_idle_and_from_time_to_time() {
        let (longest, second) = (Duration::from_millis(1_250), Duration::from_secs(1));
        let waits = Some(2 * longest);
        assert_eq!(waits_of_others(None, false, longest), Some(Duration::ZERO));
        assert_eq!(waits_of_others(Some(second), false, longest), None);
        assert_eq!(waits_of_others(Some(second), true, longest), waits);
        assert_eq!(waits_of_others(Some(10 * second), false, longest), waits);
    }
}
