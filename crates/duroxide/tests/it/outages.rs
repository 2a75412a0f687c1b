//! Outages of some seconds beside eternal orchestrations and long activities. The loops below treat errors as duroxide's runtime
//! does: a commit is repeated five times within a third of a second, then a failure of the orchestration is committed by the
//! same token; a renewal that fails is the last one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderAdmin, ProviderError, TagFilter,
    WorkItem,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation, Timestamp};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::turns::{activity, continue_as_new, enqueue, start};
use crate::world::World;

const TURN_LOCK: Duration = Duration::from_secs(5);
const ACTIVITY_LOCK: Duration = Duration::from_secs(30);
const LONG_POLL: Duration = Duration::from_secs(30);

/// How long an execution lasts: the time of its timer.
const EXECUTION: Duration = Duration::from_millis(1_000);

const INSTANCES: usize = 12;

/// The longest attempt of the driver at a request that is not answered.
const ATTEMPT: Duration = Duration::from_secs(15);

const EFFECTS: [(&str, FaultEffect); 5] = [
    ("503", FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None }),
    ("reset", FaultEffect::ResetBefore),
    ("lost answer", FaultEffect::ResetAfter),
    ("hang", FaultEffect::Hang),
    ("throttled", FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: None }),
];

const TARGETS: [(&str, Option<Operation>); 4] = [
    ("reads", Some(Operation::Read)),
    ("queries", Some(Operation::Query)),
    ("batches", Some(Operation::Batch)),
    ("everything", None),
];

/// Commits and activity runs of the loops.
#[derive(Debug, Default)]
struct Log {
    /// When turns of instances were committed.
    turns: HashMap<String, Vec<Instant>>,
    /// How often activities were run.
    runs: HashMap<u64, u32>,
}

type SharedLog = Arc<Mutex<Log>>;

/// Has requests go wrong from now on.
fn begin_outage(
    world: &World,
    operation: Option<Operation>,
    effect: FaultEffect,
    lasts: Duration,
) -> Instant {
    let wall = world.account.driver_clock().wall().duration_since(UNIX_EPOCH).unwrap();
    let end = Timestamp::from_millis((wall + lasts).as_millis() as u64);
    let condition = FaultCondition { operation, ..FaultCondition::default() };
    let rule = FaultRule { condition, end: Some(end), ..FaultRule::new(effect) };
    world.account.account().add_fault(rule).unwrap();
    Instant::now() + lasts
}

/// A process with two dispatchers and two workers.
async fn process(world: &World, log: &SharedLog) -> (Arc<CosmosDBProvider>, JoinSet<()>) {
    let provider = Arc::new(world.provider().await);
    let mut loops = JoinSet::new();
    for _ in 0..2 {
        loops.spawn(dispatch(Arc::clone(&provider), Arc::clone(log)));
        loops.spawn(work(Arc::clone(&provider), Arc::clone(log)));
    }
    (provider, loops)
}

async fn dispatch(provider: Arc<CosmosDBProvider>, log: SharedLog) {
    let mut errors = 0;
    loop {
        let fetched = provider.fetch_orchestration_item(TURN_LOCK, LONG_POLL, None).await;
        let (item, token) = match fetched {
            Ok(Some((item, token, _))) => (item, token),
            Ok(None) => continue,
            Err(_) => {
                errors += 1;
                tokio::time::sleep(Duration::from_millis((100 << errors.min(6)).min(3_000))).await;
                continue;
            }
        };
        errors = 0;
        let instance = item.instance.clone();
        let renewal = tokio::spawn(renew_turn(Arc::clone(&provider), token.clone()));
        let committed = commit(&provider, &token, Turn::of(&item)).await;
        match committed {
            Ok(()) => {
                log.lock().unwrap().turns.entry(instance).or_default().push(Instant::now());
            }
            // The runtime records the failure of the orchestration.
            Err(_) => {
                let _ = commit(&provider, &token, Turn::failed(&item)).await;
            }
        }
        renewal.abort();
    }
}

async fn renew_turn(provider: Arc<CosmosDBProvider>, token: String) {
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        if provider.renew_orchestration_item_lock(&token, TURN_LOCK).await.is_err() {
            return;
        }
    }
}

async fn commit(provider: &CosmosDBProvider, token: &str, turn: Turn) -> Result<(), ProviderError> {
    for attempt in 0.. {
        let Turn { execution, events, activities, messages, metadata } = turn.clone();
        let committed = provider
            .ack_orchestration_item(
                token,
                execution,
                events,
                activities,
                messages,
                metadata,
                vec![],
            )
            .await;
        match committed {
            Err(error) if error.is_retryable() && attempt < 5 => {
                tokio::time::sleep(Duration::from_millis(10 << attempt)).await;
            }
            done => return done,
        }
    }
    Ok(())
}

async fn work(provider: Arc<CosmosDBProvider>, log: SharedLog) {
    loop {
        let fetched =
            provider.fetch_work_item(ACTIVITY_LOCK, LONG_POLL, None, &TagFilter::DefaultOnly).await;
        let Ok(Some((item, token, _))) = fetched else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let WorkItem::ActivityExecute { instance, execution_id, id, input, .. } = item else {
            panic!("{item:?}");
        };
        *log.lock().unwrap().runs.entry(id).or_default() += 1;
        let takes = Duration::from_millis(input.parse().unwrap_or_default());
        let is_cancelled = tokio::select! {
            () = tokio::time::sleep(takes) => false,
            () = renew_activity(&provider, &token) => true,
        };
        let (result, completed) = (String::new(), !is_cancelled);
        let done = WorkItem::ActivityCompleted { instance, execution_id, id, result };
        let ended = provider.ack_work_item(&token, completed.then_some(done)).await;
        if ended.is_err() {
            let delay = Some(Duration::from_millis(100));
            let _ = provider.abandon_work_item(&token, delay, false).await;
        }
    }
}

/// Ends when a renewal fails: the runtime cancels the activity then.
async fn renew_activity(provider: &CosmosDBProvider, token: &str) {
    loop {
        tokio::time::sleep(Duration::from_secs(25)).await;
        if provider.renew_work_item_lock(token, ACTIVITY_LOCK).await.is_err() {
            return;
        }
    }
}

/// The outcome of a turn.
#[derive(Clone, Debug, Default)]
struct Turn {
    execution: u64,
    events: Vec<Event>,
    activities: Vec<WorkItem>,
    messages: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

impl Turn {
    /// An execution runs an activity beside a timer, and continues as new after both.
    fn of(item: &OrchestrationItem) -> Self {
        let mut turn = Self { execution: item.execution_id, ..Self::default() };
        let mut known = item.history.clone();
        for message in &item.messages {
            match message {
                WorkItem::StartOrchestration { .. } if known.is_empty() => {
                    turn.begin(item, &mut known);
                }
                WorkItem::ContinueAsNew { .. } => {
                    turn.execution = item.execution_id + 1;
                    known.clear();
                    turn.begin(item, &mut known);
                }
                WorkItem::ActivityCompleted { id, execution_id, .. }
                    if *execution_id == turn.execution =>
                {
                    let kind = EventKind::ActivityCompleted { result: String::new() };
                    turn.push(item, &mut known, Some(*id), kind);
                }
                WorkItem::TimerFired { id, execution_id, .. }
                    if *execution_id == turn.execution =>
                {
                    turn.push(item, &mut known, Some(*id), EventKind::TimerFired { fire_at_ms: 0 });
                }
                _ => {}
            }
        }
        if known.len() == 5 && known.iter().all(|event| event.execution_id == turn.execution) {
            let kind = EventKind::OrchestrationContinuedAsNew { input: String::new() };
            turn.push(item, &mut known, None, kind);
            turn.metadata.status = Some("ContinuedAsNew".to_owned());
            turn.messages.push(continue_as_new(&item.instance));
        }
        turn
    }

    fn failed(item: &OrchestrationItem) -> Self {
        let metadata =
            ExecutionMetadata { status: Some("Failed".to_owned()), ..ExecutionMetadata::default() };
        Self { execution: item.execution_id, metadata, ..Self::default() }
    }

    fn push(
        &mut self,
        item: &OrchestrationItem,
        known: &mut Vec<Event>,
        source: Option<u64>,
        kind: EventKind,
    ) {
        let id = known.len() as u64 + 1;
        let event = Event::with_event_id(id, &item.instance, self.execution, source, kind);
        known.push(event.clone());
        self.events.push(event);
    }

    fn begin(&mut self, item: &OrchestrationItem, known: &mut Vec<Event>) {
        let first = crate::turns::Done::first(&item.instance);
        self.metadata = first.metadata;
        self.push(item, known, None, first.events[0].kind.clone());
        let (name, input) = ("work".to_owned(), String::new());
        let kind = EventKind::ActivityScheduled { name, input, session_id: None, tag: None };
        self.push(item, known, None, kind);
        let fire_at_ms = now_ms() + EXECUTION.as_millis() as u64;
        self.push(item, known, None, EventKind::TimerCreated { fire_at_ms });
        let mut work = activity(&item.instance, 2, None);
        if let WorkItem::ActivityExecute { execution_id, .. } = &mut work {
            *execution_id = self.execution;
        }
        self.activities.push(work);
        let (instance, execution_id) = (item.instance.clone(), self.execution);
        self.messages.push(WorkItem::TimerFired { instance, execution_id, id: 3, fire_at_ms });
    }
}

thread_local! {
    /// The account's clock at the beginning of tokio's paused time, for timers.
    static BEGAN: std::cell::Cell<Option<(Instant, u64)>> = const { std::cell::Cell::new(None) };
}

fn now_ms() -> u64 {
    let (began, at) = BEGAN.get().unwrap();
    at + began.elapsed().as_millis() as u64
}

fn set_clock(world: &World) {
    let wall = world.account.driver_clock().wall().duration_since(UNIX_EPOCH).unwrap();
    BEGAN.set(Some((Instant::now(), wall.as_millis() as u64)));
}

/// Runs eternal orchestrations through an outage. Returns how long the slowest instance took for its next turn.
async fn eternal(operation: Option<Operation>, effect: FaultEffect, lasts: Duration) -> Duration {
    let (world, log) = (World::new(), SharedLog::default());
    set_clock(&world);
    let client = world.provider().await;
    let mut processes = Vec::new();
    for _ in 0..2 {
        processes.push(process(&world, &log).await);
    }
    for number in 0..INSTANCES {
        enqueue(&client, start(&format!("i-{number}"))).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let end = begin_outage(&world, operation, effect, lasts);
    let has_gone_on = |turns: &Vec<Instant>| turns.last().is_some_and(|last| *last >= end);
    let all_have = || log.lock().unwrap().turns.values().all(has_gone_on);
    while !all_have() && Instant::now() < end + 2 * ATTEMPT {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let failed = client.list_instances_by_status("Failed").await.unwrap();
    assert_eq!(failed, Vec::<String>::new());
    let log = log.lock().unwrap();
    assert_eq!(log.turns.len(), INSTANCES);
    let next = |turns: &Vec<Instant>| turns.iter().find(|at| **at >= end).copied();
    let slowest = log.turns.values().map(|turns| next(turns).map(|at| at - end)).max().unwrap();
    slowest.expect("each instance has gone on")
}

/// How long outages last, and which are tried: all if `SIDEREAL_EXHAUSTIVE` is set.
fn outages() -> Vec<(Duration, usize, usize)> {
    let seconds = Duration::from_secs;
    if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_none() {
        return vec![
            (seconds(12), 0, 0),
            (seconds(5), 1, 1),
            (seconds(12), 2, 2),
            (seconds(5), 3, 3),
            (seconds(30), 0, 3),
            (seconds(12), 4, 2),
        ];
    }
    let all = (0..EFFECTS.len()).flat_map(|effect| (0..TARGETS.len()).map(move |at| (effect, at)));
    let all: Vec<(usize, usize)> = all.collect();
    let lasts = [2, 5, 12, 30].map(seconds);
    lasts.iter().flat_map(|lasts| all.iter().map(|(effect, at)| (*lasts, *effect, *at))).collect()
}

#[tokio::test(start_paused = true)]
async fn no_eternal_orchestration_fails_by_an_outage_and_all_go_on_soon() {
    for (lasts, effect, target) in outages() {
        let ((effect, fault), (target, operation)) = (EFFECTS[effect].clone(), TARGETS[target]);
        let slowest = eternal(operation, fault, lasts).await;
        println!("{lasts:?} of {effect} on {target}: the next turn within {slowest:?}");
        // What hangs is given up by the driver, whenever the outage ends.
        let bound = if effect == "hang" { ATTEMPT } else { Duration::from_secs(2) };
        assert!(slowest <= bound, "{lasts:?} of {effect} on {target}: {slowest:?}");
    }
}

/// The renewal failed, the runtime cancelled the activity, and another worker ran it.
#[tokio::test(start_paused = true)]
async fn no_activity_runs_twice_because_of_an_outage() {
    let takes = Duration::from_secs(70);
    for begins in (0..60).step_by(15) {
        for (effect, fault) in EFFECTS {
            let (world, log) = (World::new(), SharedLog::default());
            set_clock(&world);
            let client = world.provider().await;
            let _processes = [process(&world, &log).await, process(&world, &log).await];
            for id in 2..5 {
                let mut item = activity("i", id, None);
                if let WorkItem::ActivityExecute { input, .. } = &mut item {
                    *input = takes.as_millis().to_string();
                }
                client.enqueue_for_worker(item).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(begins)).await;
            begin_outage(&world, None, fault, Duration::from_secs(12));
            tokio::time::sleep(takes + Duration::from_secs(60)).await;
            let what = format!("{effect} after {begins} s");
            assert_eq!(world.count("worker_queue").await, 0, "{what}");
            let log = log.lock().unwrap();
            let runs: Vec<u32> = (2..5).map(|id| log.runs[&id]).collect();
            assert_eq!(runs, [1, 1, 1], "{what}");
        }
    }
}
