//! Two processes, two instances, and everything that can happen to them next.

use std::collections::BTreeSet;
use std::sync::Arc;

use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};
use duroxide::{Event, EventKind};

use super::container::{Container, Mutation};
use crate::ack::{self, AckPlan, Turn};
use crate::admin::deletion_plan;
use crate::documents::{
    HistoryDocument, InstanceDocument, IntentDocument, MessageDocument, Payload, WorkerDocument,
    kinds,
};
use crate::locks::LockView;
use crate::outbox::plan_delivery;
use crate::turn;
use crate::turn::{FetchPlan, FetchTerms, InstanceView, LockPlan, ReadMessage};
use crate::work_items::{Enqueued, message};
use crate::workers::{lock_write, removed};
use crate::write::Write;

/// How long a lock is held, in the model's milliseconds.
const LOCK: i64 = 10;

/// The sender and the receiver.
pub(super) const SENDER: &str = "a";
pub(super) const RECEIVER: &str = "b";
const INSTANCES: [&str; 2] = [SENDER, RECEIVER];

/// The activity that the sender schedules, and cancels when it is told to.
const ACTIVITY: u64 = 2;

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct World {
    pub(super) container: Arc<Container>,
    now: i64,
    processes: [Process; 2],
    /// Failures and events that may still happen: each is bounded.
    left: Left,
    /// Messages that were delivered, and are not forgotten.
    delivered: BTreeSet<String>,
    /// How many tokens and incarnations were drawn.
    drawn: u32,
    /// Whether the sender was told to cancel its activity.
    is_told: bool,
    /// A state that must never be reached, if it was.
    pub(super) violation: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Left {
    pub(super) expiries: u8,
    pub(super) losses: u8,
    pub(super) deletions: u8,
}

/// The call that a process is in the middle of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Process {
    #[default]
    Idle,
    /// It has read an instance.
    Viewed { instance: String, at: Arc<Container> },
    /// It works on a turn.
    Working { instance: String, token: String, at: Arc<Container> },
    /// It runs an activity.
    Running { token: String, at: Arc<Container> },
}

/// An event that can happen next.
#[derive(Clone, Debug)]
pub(super) enum Action {
    View(usize, &'static str),
    Lock(usize, Fate),
    Commit(usize, Fate),
    /// Commits a turn, and the batch locks the next one.
    CommitAndLock(usize, Fate),
    /// The process is gone, with all that it knew.
    Die(usize),
    Claim(usize, Fate),
    Finish(usize, Fate),
    /// Ends an activity, and the batch locks the turn that its completion is for.
    FinishAndLock(usize, Fate),
    Deliver(IntentOf, Fate),
    Forget(IntentOf),
    Delete(&'static str),
    /// The sender is told to cancel its activity.
    Tell,
    Expire,
}

/// The number of an intent of the sender.
type IntentOf = usize;

/// The fate of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It never arrives, and the process gives up.
    RequestLost,
    /// It is applied, and the process never hears of it.
    AnswerLost,
}

const FATES: [Fate; 3] = [Fate::Answered, Fate::RequestLost, Fate::AnswerLost];

impl World {
    /// Both instances are to be started.
    pub(super) fn new(left: Left) -> Self {
        let mut container = Container::default();
        for (number, instance) in INSTANCES.into_iter().enumerate() {
            let item = WorkItem::StartOrchestration {
                instance: instance.to_owned(),
                orchestration: "Model".to_owned(),
                input: String::new(),
                version: Some("1.0.0".to_owned()),
                parent_instance: None,
                parent_id: None,
                parent_execution_id: None,
                execution_id: 1,
            };
            enqueue(&mut container, instance, &format!("direct:{number}"), &item);
        }
        let processes = Default::default();
        Self {
            container: Arc::new(container),
            now: 1,
            processes,
            left,
            delivered: BTreeSet::new(),
            drawn: 0,
            is_told: false,
            violation: None,
        }
    }

    /// Everything that can happen next.
    pub(super) fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        let fates = if self.left.losses > 0 { &FATES[..] } else { &FATES[..1] };
        for (index, process) in self.processes.iter().enumerate() {
            match process {
                Process::Idle => {
                    actions.extend(INSTANCES.map(|instance| Action::View(index, instance)));
                    if self.waiting_activity().is_some() {
                        actions.extend(fates.iter().map(|fate| Action::Claim(index, *fate)));
                    }
                }
                Process::Viewed { .. } => {
                    actions.extend(fates.iter().map(|fate| Action::Lock(index, *fate)));
                }
                Process::Working { .. } => {
                    actions.extend(fates.iter().map(|fate| Action::Commit(index, *fate)));
                    actions.extend(fates.iter().map(|fate| Action::CommitAndLock(index, *fate)));
                    if self.left.losses > 0 {
                        actions.push(Action::Die(index));
                    }
                }
                Process::Running { .. } => {
                    actions.extend(fates.iter().map(|fate| Action::Finish(index, *fate)));
                    actions.extend(fates.iter().map(|fate| Action::FinishAndLock(index, *fate)));
                }
            }
        }
        for intent in 0..self.intents().len() {
            actions.extend(fates.iter().map(|fate| Action::Deliver(intent, *fate)));
            if !self.delivered.is_empty() {
                actions.push(Action::Forget(intent));
            }
        }
        if !self.is_told {
            actions.push(Action::Tell);
        }
        if self.left.expiries > 0 {
            actions.push(Action::Expire);
        }
        if self.left.deletions > 0 && self.instance(RECEIVER).is_some() {
            actions.push(Action::Delete(RECEIVER));
        }
        actions
    }

    /// The world after something has happened; none if nothing comes of it.
    pub(super) fn after(&self, action: &Action, mutation: Mutation) -> Option<Self> {
        let mut next = self.clone();
        next.happen(action, mutation);
        (next != *self).then_some(next)
    }

    fn happen(&mut self, action: &Action, mutation: Mutation) {
        if matches!(
            action,
            Action::Lock(_, fate) | Action::Commit(_, fate) | Action::CommitAndLock(_, fate)
                | Action::Claim(_, fate) | Action::Finish(_, fate) | Action::FinishAndLock(_, fate)
                | Action::Deliver(_, fate) if *fate != Fate::Answered
        ) || matches!(action, Action::Die(_))
        {
            self.left.losses -= 1;
        }
        match action {
            Action::View(index, instance) => {
                let at = Arc::clone(&self.container);
                self.processes[*index] = Process::Viewed { instance: (*instance).to_owned(), at };
            }
            Action::Lock(index, fate) => self.lock(*index, *fate, mutation),
            Action::Commit(index, fate) => self.commit(*index, *fate, false, mutation),
            Action::CommitAndLock(index, fate) => self.commit(*index, *fate, true, mutation),
            Action::Die(index) => self.processes[*index] = Process::Idle,
            Action::Claim(index, fate) => self.claim(*index, *fate, mutation),
            Action::Finish(index, fate) => self.finish(*index, *fate, false, mutation),
            Action::FinishAndLock(index, fate) => self.finish(*index, *fate, true, mutation),
            Action::Deliver(intent, fate) => self.deliver(*intent, *fate, mutation),
            Action::Forget(intent) => self.forget(*intent, mutation),
            Action::Delete(instance) => self.delete(instance, mutation),
            Action::Tell if self.is_told => {}
            Action::Tell => {
                self.is_told = true;
                let container = Arc::make_mut(&mut self.container);
                enqueue(container, SENDER, "direct:cancel", &raised(SENDER, "cancel"));
            }
            Action::Expire => {
                self.left.expiries -= 1;
                self.now += LOCK + 1;
            }
        }
    }

    /// Sends a batch. Says whether the process hears that it was applied.
    fn send(&mut self, partition: &str, writes: &[Write], fate: Fate, mutation: Mutation) -> bool {
        fate != Fate::RequestLost
            && Arc::make_mut(&mut self.container).apply(partition, writes, mutation)
            && fate == Fate::Answered
    }

    fn draw(&mut self, what: &str) -> String {
        self.drawn += 1;
        format!("{what}{}", self.drawn)
    }

    fn instance(&self, instance: &str) -> Option<InstanceDocument> {
        self.container.of_kind(instance, kinds::INSTANCE).pop()
    }

    /// The intents of the sender.
    fn intents(&self) -> Vec<IntentDocument> {
        self.container.of_kind(SENDER, kinds::INTENT)
    }

    fn waiting_activity(&self) -> Option<WorkerDocument> {
        let found: Vec<WorkerDocument> = self.container.of_kind(SENDER, kinds::WORKER_ITEM);
        found.into_iter().find(|item| !item.lock().is_live(self.now))
    }

    fn lock(&mut self, index: usize, fate: Fate, mutation: Mutation) {
        let Process::Viewed { instance, at } = std::mem::take(&mut self.processes[index]) else {
            return;
        };
        let (token, incarnation) = (self.draw("t"), self.draw("x"));
        let locks = LockView { time: self.now, ..LockView::default() };
        let terms = FetchTerms {
            locks: &locks,
            owner: None,
            now: self.now,
            locked_until: self.now + LOCK,
            token: &token,
            incarnation: &incarnation,
            filter: None,
        };
        let FetchPlan::Lock(plan) = turn::plan(view(&at, &instance), terms) else { return };
        if self.send(&instance, &plan.writes, fate, mutation) {
            let at = Arc::clone(&self.container);
            self.processes[index] = Process::Working { instance, token, at };
        }
    }

    fn commit(&mut self, index: usize, fate: Fate, locks_next: bool, mutation: Mutation) {
        let Process::Working { instance, token, at } = std::mem::take(&mut self.processes[index])
        else {
            return;
        };
        let Some(document) = at.of_kind::<InstanceDocument>(&instance, kinds::INSTANCE).pop()
        else {
            return;
        };
        // A holder whose lock has ended by its own clock does not try.
        if !document.lock().is_live(self.now) && mutation == Mutation::None {
            return;
        }
        let messages: Vec<MessageDocument> = at
            .of_kind::<MessageDocument>(&instance, kinds::MESSAGE)
            .into_iter()
            .filter(|message| message.lock_token.as_deref() == Some(&token))
            .collect();
        let decided = Decided::of(&instance, &history(&at, &instance), &messages);
        let plan = ack::plan(&Turn {
            token: &token,
            instance: &document,
            messages: &messages,
            key_values: &[],
            execution: None,
            execution_id: 1,
            history: &decided.events,
            worker_items: &decided.worker_items,
            orchestrator_items: &decided.orchestrator_items,
            metadata: &decided.metadata,
            cancelled: &decided.cancelled,
            handed: &[],
            now: self.now,
            first_seq: 0,
        })
        .expect("a turn of the model can be planned");
        let (next_token, next) = match locks_next {
            true => self.next_turn(&instance, &token, &plan),
            false => (String::new(), None),
        };
        let mut writes =
            vec![Write::replace(&plan.instance.id, &plan.instance, document.etag.clone())];
        writes.extend(plan.commit);
        let is_locked = next.is_some();
        let writes = next.map_or(writes, |next| next.writes);
        let holder = self.instance(&instance).and_then(|there| there.lock_token);
        let before = Arc::clone(&self.container);
        let is_answered = self.send(&instance, &writes, fate, mutation);
        if is_answered && is_locked {
            let (instance, at) = (instance.clone(), Arc::clone(&self.container));
            self.processes[index] = Process::Working { instance, token: next_token, at };
        }
        if self.container != before && holder.as_deref() != Some(&token) {
            self.violation = Some(format!(
                "{token} has committed a turn of {instance}, and {holder:?} holds its lock"
            ));
        }
    }

    /// The turn that follows one, of the messages that have come meanwhile.
    fn next_turn(
        &mut self,
        instance: &str,
        token: &str,
        commit: &AckPlan,
    ) -> (String, Option<LockPlan>) {
        let next_token = self.draw("t");
        let locks = LockView { time: self.now, ..LockView::default() };
        let terms = terms(self.now, &next_token, &locks);
        let mut messages = view(&self.container, instance).messages;
        messages.retain(|message| message.document.lock_token.as_deref() != Some(token));
        let next = ack::plan_next(commit, messages, terms);
        (next_token, next)
    }

    fn claim(&mut self, index: usize, fate: Fate, mutation: Mutation) {
        let Some(mut item) = self.waiting_activity() else { return };
        let token = self.draw("w");
        (item.lock_token, item.locked_until) = (Some(token.clone()), Some(self.now + LOCK));
        if self.send(SENDER, &[lock_write(&item, 1, None)], fate, mutation) {
            self.processes[index] = Process::Running { token, at: Arc::clone(&self.container) };
        }
    }

    fn finish(&mut self, index: usize, fate: Fate, locks_turn: bool, mutation: Mutation) {
        let Process::Running { token, at } = std::mem::take(&mut self.processes[index]) else {
            return;
        };
        let items: Vec<WorkerDocument> = at.of_kind(SENDER, kinds::WORKER_ITEM);
        let Some(item) = items.into_iter().find(|item| item.lock_token.as_deref() == Some(&token))
        else {
            return;
        };
        let done = WorkItem::ActivityCompleted {
            instance: SENDER.to_owned(),
            execution_id: 1,
            id: ACTIVITY,
            result: String::new(),
        };
        let text = serde_json::to_string(&done).expect("a work item is JSON");
        let enqueued = Enqueued {
            now: self.now,
            seq: 0,
            visible_at: self.now,
            is_fenced: true,
            is_start: false,
        };
        let (completion, _) = message(format!("completion:{token}"), SENDER, text, enqueued);
        let mut writes = vec![removed(&item)];
        let turn_token = self.draw("t");
        // The instance as the process knows it, which may be old.
        let instance = at.of_kind::<InstanceDocument>(SENDER, kinds::INSTANCE).pop();
        let locks = LockView { time: self.now, ..LockView::default() };
        let terms = terms(self.now, &turn_token, &locks);
        let message = ReadMessage { document: completion.clone(), item: done };
        match locks_turn.then(|| turn::plan_created(instance, message, terms)).flatten() {
            Some(plan) => {
                writes.extend(plan.writes);
                if self.send(SENDER, &writes, fate, mutation) {
                    let (instance, at) = (SENDER.to_owned(), Arc::clone(&self.container));
                    self.processes[index] = Process::Working { instance, token: turn_token, at };
                }
            }
            None => {
                writes.push(Write::create(&completion.id, &completion));
                self.send(SENDER, &writes, fate, mutation);
            }
        }
    }

    fn deliver(&mut self, number: usize, fate: Fate, mutation: Mutation) {
        let Some(intent) = self.intents().into_iter().nth(number) else { return };
        let Payload::Inline(text) = intent.payload.clone() else { return };
        let (message, _) = plan_delivery(&intent, text);
        let target = intent.target_instance_id;
        // One that is there already is the same: nothing comes of it.
        self.send(&target, &[Write::create(&message.id, &message)], fate, mutation);
        if fate == Fate::Answered {
            self.delivered.insert(intent.id);
        }
    }

    fn forget(&mut self, number: usize, mutation: Mutation) {
        let Some(intent) = self.intents().into_iter().nth(number) else { return };
        if self.delivered.remove(&intent.id) {
            self.send(SENDER, &[Write::delete(&intent.id, None)], Fate::Answered, mutation);
        }
    }

    fn delete(&mut self, instance: &str, mutation: Mutation) {
        self.left.deletions -= 1;
        let Some(there) = self.instance(instance) else { return };
        let Ok(marked) = deletion_plan::marked(&there, true, self.now) else { return };
        let mark = Write::replace(&marked.id, &marked, there.etag.clone());
        self.send(instance, &[mark], Fate::Answered, mutation);
        let found = self.container.all(instance);
        let mut writes = deletion_plan::sweep(&marked, &found).writes;
        writes.push(Write::delete(&marked.id, None));
        self.send(instance, &writes, Fate::Answered, mutation);
    }

    /// Whether a process has a turn that was locked by the batch of an action.
    pub(super) fn goes_on(&self, action: &Action) -> bool {
        let (Action::CommitAndLock(index, _) | Action::FinishAndLock(index, _)) = action else {
            return false;
        };
        matches!(self.processes[*index], Process::Working { .. })
    }

    /// Whether a process is in the middle of something.
    pub(super) fn is_quiet(&self) -> bool {
        self.processes.iter().all(|process| *process == Process::Idle)
    }

    /// This world without any failure to come.
    pub(super) fn without_trouble(mut self) -> Self {
        self.left = Left { expiries: 0, losses: 0, deletions: 0 };
        // All locks have expired, and all workers are gone.
        self.processes = Default::default();
        self.now += 2 * LOCK;
        // Names drawn from now on are new.
        self.drawn = 1_000;
        self
    }

    /// The texts and results that an instance has noted, in order.
    pub(super) fn noted(&self, instance: &str) -> Vec<String> {
        let noted = |event: &Event| match &event.kind {
            EventKind::ExternalEvent { data, .. } => Some(data.clone()),
            EventKind::ActivityCompleted { .. } => Some("completed".to_owned()),
            EventKind::OrchestrationStarted { .. } => Some("started".to_owned()),
            _ => None,
        };
        history(&self.container, instance).iter().filter_map(noted).collect()
    }

    /// Whether messages or activities wait.
    pub(super) fn has_work(&self) -> bool {
        let waits = |instance: &str| {
            !self.container.of_kind::<MessageDocument>(instance, kinds::MESSAGE).is_empty()
        };
        INSTANCES.iter().any(|instance| waits(instance))
            || self.waiting_activity().is_some()
            || !self.intents().is_empty()
    }

    /// The ids of an instance's events.
    pub(super) fn event_ids(&self, instance: &str) -> Vec<u64> {
        history(&self.container, instance).iter().map(Event::event_id).collect()
    }
}

/// The terms of a lock on an existing instance.
fn terms<'a>(now: i64, token: &'a str, locks: &'a LockView) -> FetchTerms<'a> {
    FetchTerms {
        now,
        locks,
        owner: None,
        locked_until: now + LOCK,
        token,
        incarnation: "",
        filter: None,
    }
}

fn raised(instance: &str, data: &str) -> WorkItem {
    let (instance, name) = (instance.to_owned(), "go".to_owned());
    WorkItem::ExternalRaised { instance, name, data: data.to_owned() }
}

fn enqueue(container: &mut Container, instance: &str, id: &str, item: &WorkItem) {
    let text = serde_json::to_string(item).expect("a work item is JSON");
    let enqueued = Enqueued { now: 0, seq: 0, visible_at: 0, is_fenced: false, is_start: false };
    let (message, _) = message(id.to_owned(), instance, text, enqueued);
    container.apply(instance, &[Write::create(&message.id, &message)], Mutation::None);
}

fn view(container: &Container, instance: &str) -> InstanceView {
    let read = |document: MessageDocument| {
        let Payload::Inline(text) = &document.work_item else { panic!("messages are small") };
        let item = serde_json::from_str(text).expect("a work item is JSON");
        ReadMessage { document, item }
    };
    let messages = container.of_kind(instance, kinds::MESSAGE).into_iter().map(read).collect();
    let instance = container.of_kind(instance, kinds::INSTANCE).pop();
    InstanceView { instance, messages, has_unreadable: false }
}

fn history(container: &Container, instance: &str) -> Vec<Event> {
    let mut documents: Vec<HistoryDocument> = container.of_kind(instance, kinds::HISTORY);
    documents.sort_by_key(|document| document.event_id);
    let decode = |document: HistoryDocument| {
        let Payload::Inline(text) = document.event_data else { panic!("events are small") };
        serde_json::from_str(&text).expect("an event is JSON")
    };
    documents.into_iter().map(decode).collect()
}

/// The decisions of a turn, from its history and its messages alone.
#[derive(Default)]
struct Decided {
    events: Vec<Event>,
    worker_items: Vec<WorkItem>,
    orchestrator_items: Vec<WorkItem>,
    metadata: ExecutionMetadata,
    cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Decided {
    fn of(instance: &str, history: &[Event], messages: &[MessageDocument]) -> Self {
        let mut decided = Self::default();
        let mut next = history.last().map_or(0, Event::event_id) + 1;
        let mut push = |events: &mut Vec<Event>, kind| {
            events.push(Event::with_event_id(next, instance, 1, None, kind));
            next += 1;
        };
        let is_new = history.is_empty();
        for message in messages {
            let Payload::Inline(text) = &message.work_item else { continue };
            match serde_json::from_str(text).expect("a work item is JSON") {
                WorkItem::StartOrchestration { .. } if is_new => {
                    push(&mut decided.events, started());
                    decided.metadata.orchestration_name = Some("Model".to_owned());
                    decided.metadata.orchestration_version = Some("1.0.0".to_owned());
                    if instance == SENDER {
                        push(&mut decided.events, scheduled());
                        decided.worker_items.push(activity());
                        decided.orchestrator_items.push(raised(RECEIVER, "sent"));
                    }
                }
                WorkItem::ExternalRaised { name, data, .. } => {
                    if instance == SENDER {
                        decided.cancelled.push(ScheduledActivityIdentifier {
                            instance: SENDER.to_owned(),
                            execution_id: 1,
                            activity_id: ACTIVITY,
                        });
                    }
                    push(&mut decided.events, EventKind::ExternalEvent { name, data });
                }
                WorkItem::ActivityCompleted { result, .. } => {
                    push(&mut decided.events, EventKind::ActivityCompleted { result });
                }
                _ => {}
            }
        }
        decided
    }
}

fn started() -> EventKind {
    EventKind::OrchestrationStarted {
        name: "Model".to_owned(),
        version: "1.0.0".to_owned(),
        input: String::new(),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: None,
        initial_custom_status: None,
    }
}

fn scheduled() -> EventKind {
    let (name, input) = ("work".to_owned(), String::new());
    EventKind::ActivityScheduled { name, input, session_id: None, tag: None }
}

fn activity() -> WorkItem {
    WorkItem::ActivityExecute {
        instance: SENDER.to_owned(),
        execution_id: 1,
        id: ACTIVITY,
        name: "work".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    }
}
