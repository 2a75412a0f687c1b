//! Dispatchers that wait for one request per turn: a start is locked for one that waits, what came during a turn is locked
//! by its commit, and the turn of another instance is locked meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::providers::{ExecutionMetadata, OrchestrationItem, Provider, TagFilter, WorkItem};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::{InProcessAccount, Interruption, NetworkFaults};
use tokio::task::{AbortHandle, JoinHandle};

use crate::crashes::INTERRUPTIONS;
use crate::turns::{
    Done, LOCK, ack, begin, completed, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

const POLL: Duration = Duration::from_secs(1);

type Turn = (OrchestrationItem, String, u32);

/// As the runtime's dispatchers ask.
async fn wait_for_turn(provider: &CosmosDBProvider) -> Option<Turn> {
    provider.fetch_orchestration_item(LOCK, POLL, None).await.unwrap()
}

/// A turn that notes its start, or an event for each other message, with what it says.
fn handled(turn: &OrchestrationItem) -> Done {
    let (instance, mut done) = (turn.instance.as_str(), Done::default());
    let mut id = turn.history.len() as u64;
    for message in &turn.messages {
        match message {
            WorkItem::StartOrchestration { .. } if id == 0 => done = Done::first(instance),
            WorkItem::StartOrchestration { .. } => continue,
            WorkItem::ExternalRaised { name, data, .. } => {
                let kind = EventKind::ExternalEvent { name: name.clone(), data: data.clone() };
                done.events.push(Event::with_event_id(id + 1, instance, 1, None, kind));
            }
            _ => done = done.with_event(instance, id + 1),
        }
        id += 1;
    }
    done
}

#[tokio::test(start_paused = true)]
async fn a_start_is_locked_for_a_dispatcher_that_waits() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let dispatcher = Arc::clone(&provider);
    let waiting = tokio::spawn(async move { wait_for_turn(&dispatcher).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let ((), requests) = world.requests(enqueue(&provider, start("i"))).await;
    assert_eq!(requests, 1);
    let ((turn, token, attempts), requests) =
        world.requests(async { waiting.await.unwrap() }).await;
    assert_eq!((turn.messages, turn.history, attempts), (vec![start("i")], vec![], 1));
    assert_eq!(requests, 0);
    ack(&provider, &token, Done::first("i")).await.unwrap();
    assert_eq!(world.count("orch_queue").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_start_of_an_instance_that_is_there_waits_as_any_other_message() {
    let world = World::new();
    begin(&world.settled().await, "i", Done::first("i")).await;
    let provider = Arc::new(world.settled().await);
    let dispatcher = Arc::clone(&provider);
    let waiting = tokio::spawn(async move { wait_for_turn(&dispatcher).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    enqueue(&provider, start("i")).await;
    let (turn, _, _) = waiting.await.unwrap();
    assert_eq!((turn.messages, turn.history.len()), (vec![start("i")], 1));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_locked_for_a_dispatcher_that_ends_is_given_back() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let dispatcher = Arc::clone(&provider);
    let waiting = tokio::spawn(async move { wait_for_turn(&dispatcher).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let network = NetworkDelay::of(&world, Duration::from_millis(50));
    tokio::join!(enqueue(&provider, start("i")), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        waiting.abort();
    });
    drop(network);
    tokio::time::sleep(LOCK / 2).await;
    let (turn, _, attempts) = fetch(&world.settled().await).await.unwrap();
    assert_eq!((turn.messages, attempts), (vec![start("i")], 1));
}

/// Requests that take a while, as long as it lives.
struct NetworkDelay<'a>(&'a World);

impl<'a> NetworkDelay<'a> {
    fn of(world: &'a World, latency: Duration) -> Self {
        world.account.network().set_faults(NetworkFaults { latency, ..NetworkFaults::NONE });
        Self(world)
    }
}

impl Drop for NetworkDelay<'_> {
    fn drop(&mut self) {
        self.0.account.network().set_faults(NetworkFaults::NONE);
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_during_a_turn_is_locked_by_its_commit() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    enqueue(&provider, raised("i", "a")).await;
    let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
    for data in ["b", "c"] {
        enqueue(&provider, raised("i", data)).await;
    }
    let (acked, requests) = world.requests(ack(&provider, &token, handled(&turn))).await;
    acked.unwrap();
    assert_eq!(requests, 1);
    let ((turn, token, attempts), requests) =
        world.requests(async { wait_for_turn(&provider).await.unwrap() }).await;
    assert_eq!(turn.messages, [raised("i", "b"), raised("i", "c")]);
    assert_eq!((turn.history.len(), attempts, requests), (2, 1, 0));
    ack(&provider, &token, handled(&turn)).await.unwrap();
    assert_eq!(provider.read("i").await.unwrap().len(), 4);
    assert_eq!(world.count("orch_queue").await, 0);
}

#[tokio::test(start_paused = true)]
async fn another_instance_that_has_waited_longer_comes_first() {
    let world = World::new();
    let provider = world.settled().await;
    for instance in ["i", "j"] {
        begin(&provider, instance, Done::first(instance)).await;
    }
    enqueue(&provider, raised("i", "a")).await;
    let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
    enqueue(&provider, raised("j", "b")).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    enqueue(&provider, raised("i", "c")).await;
    ack(&provider, &token, handled(&turn)).await.unwrap();
    let mut order = Vec::new();
    for _ in 0..2 {
        let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
        order.push(turn.instance.clone());
        ack(&provider, &token, handled(&turn)).await.unwrap();
    }
    assert_eq!(order, ["j", "i"]);
}

#[tokio::test(start_paused = true)]
async fn an_orchestration_that_is_done_is_not_locked_again_by_its_last_turn() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    enqueue(&provider, raised("i", "a")).await;
    let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
    enqueue(&provider, raised("i", "b")).await;
    let metadata =
        ExecutionMetadata { status: Some("Completed".to_owned()), ..ExecutionMetadata::default() };
    let done = Done { metadata, ..handled(&turn) };
    ack(&provider, &token, done).await.unwrap();
    let (turn, _, attempts) = fetch(&world.settled().await).await.unwrap();
    assert_eq!((turn.messages, attempts), (vec![raised("i", "b")], 1));
}

#[tokio::test(start_paused = true)]
async fn the_turn_of_another_instance_is_locked_while_one_is_committed() {
    let latency = Duration::from_millis(10);
    let world = World::of(InProcessAccount::with_regions(
        &["West US"],
        1,
        NetworkFaults { latency, ..NetworkFaults::NONE },
    ));
    let provider = world.settled().await;
    for instance in ["i", "j"] {
        begin(&provider, instance, Done::first(instance)).await;
    }
    for instance in ["i", "j"] {
        enqueue(&provider, raised(instance, "a")).await;
    }
    let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
    let began = tokio::time::Instant::now();
    ack(&provider, &token, handled(&turn)).await.unwrap();
    let (next, _, attempts) = wait_for_turn(&provider).await.unwrap();
    assert_eq!((next.instance.as_str(), attempts), ("j", 1));
    // One round trip for both, rather than two.
    assert!(began.elapsed() < latency * 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_unclaimed_prefetched_turn_is_released_without_counting_an_attempt() {
    // Locked by the commit, or beside it; and given back after a while, or at a shutdown.
    for (instance, is_shut_down) in [("i", false), ("i", true), ("j", false), ("j", true)] {
        let world = World::new();
        let provider = world.settled().await;
        for instance in ["i", "j"] {
            begin(&provider, instance, Done::first(instance)).await;
        }
        enqueue(&provider, raised("i", "a")).await;
        let (turn, token, _) = wait_for_turn(&provider).await.unwrap();
        enqueue(&provider, raised(instance, "b")).await;
        ack(&provider, &token, handled(&turn)).await.unwrap();
        match is_shut_down {
            true => provider.shutdown().await,
            // Sooner than its lock ends.
            false => tokio::time::sleep(LOCK / 2).await,
        }
        let (turn, _, attempts) = fetch(&world.settled().await).await.unwrap();
        assert_eq!(
            (turn.instance.as_str(), turn.messages),
            (instance, vec![raised(instance, "b")])
        );
        assert_eq!(attempts, 1);
    }
}

/// An instance with an activity that a worker has, and a dispatcher that waits.
async fn with_an_activity(world: &World) -> (Arc<CosmosDBProvider>, String, JoinHandle<Turn>) {
    let provider = Arc::new(world.settled().await);
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (_, token, _) = fetch_activity(&provider).await.unwrap();
    let dispatcher = Arc::clone(&provider);
    let waiting = tokio::spawn(async move { provider_poll(&dispatcher, LOCK).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(500)).await;
    (provider, token, waiting)
}

#[tokio::test(start_paused = true)]
async fn the_turn_after_an_activity_is_locked_for_a_dispatcher_that_waits() {
    let world = World::new();
    let (provider, token, waiting) = with_an_activity(&world).await;
    let completion = completed("i", 2, String::new());
    let ended = provider.ack_work_item(&token, Some(completion.clone()));
    let (ended, requests) = world.requests(ended).await;
    assert_eq!((ended.is_ok(), requests), (true, 1));
    let ((turn, token, attempts), requests) =
        world.requests(async { waiting.await.unwrap() }).await;
    assert_eq!((turn.messages.clone(), turn.history.len()), (vec![completion], 1));
    assert_eq!((attempts, requests), (1, 0));
    ack(&provider, &token, handled(&turn)).await.unwrap();
    assert_eq!(world.count("orch_queue").await + world.count("worker_queue").await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_activity_ends_though_another_process_has_changed_its_instance() {
    let world = World::new();
    let (provider, token, waiting) = with_an_activity(&world).await;
    let another = world.settled().await;
    enqueue(&another, raised("i", "x")).await;
    let (turn, other_token, _) = fetch(&another).await.unwrap();
    let completion = completed("i", 2, String::new());
    // While the other process has it locked, and after its turn: what this one knows of the instance is old.
    let ended = provider.ack_work_item(&token, Some(completion.clone()));
    let (ended, requests) = world.requests(ended).await;
    assert_eq!((ended.is_ok(), requests), (true, 2));
    ack(&another, &other_token, handled(&turn)).await.unwrap();
    let (turn, token, attempts) = waiting.await.unwrap();
    assert_eq!((turn.messages.clone(), turn.history.len(), attempts), (vec![completion], 2, 1));
    ack(&provider, &token, handled(&turn)).await.unwrap();
    assert_eq!(world.count("orch_queue").await + world.count("worker_queue").await, 0);
}

/// A turn whose lock took half of its time is given back: a runtime renews a lock by the time at which it was given it.
#[tokio::test(start_paused = true)]
async fn a_turn_whose_lock_took_half_of_its_time_is_given_back() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let dispatcher = Arc::clone(&provider);
    let waiting = tokio::spawn(async move {
        provider_poll(&dispatcher, LOCK * 2).await.map(|(turn, _, _)| turn.messages)
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let network = NetworkDelay::of(&world, LOCK * 3 / 5);
    enqueue(&provider, start("i")).await;
    drop(network);
    assert_eq!(waiting.await.unwrap(), Some(vec![start("i")]));
    // It is locked again, by a request that does not take so long: the first lock began when it was enqueued.
    let container = world.container();
    let query = container
        .query("SELECT VALUE c.lockedUntil - c.enqueuedAt FROM c WHERE c.type = 'orch_queue'");
    let locked: Vec<u64> = query.items().collect().await.unwrap();
    assert!(locked[0] > (LOCK * 3 / 2).as_millis() as u64, "{locked:?}");
}

async fn provider_poll(provider: &CosmosDBProvider, poll: Duration) -> Option<Turn> {
    provider.fetch_orchestration_item(LOCK, poll, None).await.unwrap()
}

/// How many events an instance is sent while it runs.
const RAISED: usize = 3;

/// Runs something that is interrupted at a request; then its tasks are gone, and their locks end. Says how many requests
/// there were.
async fn run_interrupted(
    world: &World,
    (interruption, at): (Interruption, usize),
    tasks: &[AbortHandle],
    run: impl Future<Output = ()>,
) -> usize {
    world.network.arm(at, interruption);
    tokio::select! {
        () = run => {}
        () = world.network.stopped() => {}
    }
    let requests = world.network.disarm();
    tasks.iter().for_each(AbortHandle::abort);
    tokio::time::sleep(LOCK * 3).await;
    requests
}

/// The texts of the events of a history.
fn said(history: &[Event]) -> Vec<String> {
    let data = |event: &Event| match &event.kind {
        EventKind::ExternalEvent { data, .. } => Some(data.clone()),
        _ => None,
    };
    history.iter().filter_map(data).collect()
}

/// A dispatcher with two instances, whose starts find it waiting, and which are told something during their turns; it is
/// interrupted at a request.
async fn interrupted(interruption: Interruption, at: usize) -> usize {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    // What each instance was sent, if it was told that it is there. Each text is sent once.
    let sent: Arc<Mutex<BTreeMap<String, Vec<String>>>> = Arc::default();
    let dispatcher = {
        let (provider, sent) = (Arc::clone(&provider), Arc::clone(&sent));
        async move {
            for number in 0..10 {
                let fetched = provider.fetch_orchestration_item(LOCK, POLL, None).await;
                let Ok(Some((turn, token, _))) = fetched else { continue };
                let count = sent.lock().unwrap().get(&turn.instance).map_or(0, Vec::len);
                let (text, instance) = (number.to_string(), turn.instance.clone());
                if count < RAISED
                    && let event = raised(&instance, &text)
                    && provider.enqueue_for_orchestrator(event, None).await.is_ok()
                {
                    sent.lock().unwrap().entry(instance).or_default().push(text);
                }
                // A commit that fails is tried by the next dispatcher of the turn.
                let _ = ack(&provider, &token, handled(&turn)).await;
            }
        }
    };
    let dispatcher = tokio::spawn(dispatcher);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (mut started, tasks) = (Vec::new(), [dispatcher.abort_handle()]);
    let run = async {
        for instance in ["i", "j"] {
            if provider.enqueue_for_orchestrator(start(instance), None).await.is_ok() {
                started.push(instance);
            }
        }
        dispatcher.await.unwrap();
    };
    let requests = run_interrupted(&world, (interruption, at), &tasks, run).await;
    drop(provider);
    let another = world.settled().await;
    while let Some((turn, token, _)) = fetch(&another).await {
        ack(&another, &token, handled(&turn)).await.unwrap();
    }
    let what = format!("{interruption:?} at request {at}");
    for instance in started {
        let history = another.read(instance).await.unwrap();
        let starts = history
            .iter()
            .filter(|event| matches!(event.kind, EventKind::OrchestrationStarted { .. }));
        assert_eq!(starts.count(), 1, "{what}");
        // One whose answer was lost may be there as well; none is there twice.
        let said = said(&history);
        let once: BTreeSet<&String> = said.iter().collect();
        assert_eq!(once.len(), said.len(), "{said:?}, {what}");
        let sent = sent.lock().unwrap().get(instance).cloned().unwrap_or_default();
        assert!(sent.iter().all(|text| once.contains(text)), "{sent:?}, {said:?}, {what}");
    }
    assert_eq!(world.count("orch_queue").await, 0, "{what}");
    requests
}

/// An orchestration with two activities, one after the other, which find a dispatcher waiting; a request is interrupted.
async fn interrupted_activities(interruption: Interruption, at: usize) -> usize {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    // Each turn but the last one schedules an activity.
    let done = |turn: &OrchestrationItem| {
        let done = handled(turn);
        match turn.history.len() as u64 + done.events.len() as u64 {
            before @ 1..=2 => done.with_activities(&turn.instance, before + 10..before + 11),
            _ => done,
        }
    };
    let dispatcher = Arc::clone(&provider);
    let dispatcher = tokio::spawn(async move {
        for _ in 0..6 {
            let fetched = dispatcher.fetch_orchestration_item(LOCK, POLL, None).await;
            let Ok(Some((turn, token, _))) = fetched else { continue };
            // A commit that fails is tried by the next dispatcher of the turn.
            let _ = ack(&dispatcher, &token, done(&turn)).await;
        }
    });
    let worker = Arc::clone(&provider);
    let worker = tokio::spawn(async move {
        for _ in 0..4 {
            let fetched = worker.fetch_work_item(LOCK, POLL, None, &TagFilter::DefaultOnly).await;
            let Ok(Some((WorkItem::ActivityExecute { id, .. }, token, _))) = fetched else {
                continue;
            };
            // So does an end.
            let _ = worker.ack_work_item(&token, Some(completed("i", id, String::new()))).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (mut is_started, tasks) = (false, [dispatcher.abort_handle(), worker.abort_handle()]);
    let run = async {
        is_started = provider.enqueue_for_orchestrator(start("i"), None).await.is_ok();
        dispatcher.await.unwrap();
        worker.await.unwrap();
    };
    let requests = run_interrupted(&world, (interruption, at), &tasks, run).await;
    drop(provider);
    let another = world.settled().await;
    for _ in 0..4 {
        while let Some((turn, token, _)) = fetch(&another).await {
            ack(&another, &token, done(&turn)).await.unwrap();
        }
        while let Some((WorkItem::ActivityExecute { id, .. }, token, _)) =
            fetch_activity(&another).await
        {
            let completion = completed("i", id, String::new());
            another.ack_work_item(&token, Some(completion)).await.unwrap();
        }
    }
    let what = format!("{interruption:?} at request {at}");
    if is_started {
        // Its start, and the two completions.
        assert_eq!(another.read("i").await.unwrap().len(), 3, "{what}");
    }
    assert_eq!(world.count("orch_queue").await + world.count("worker_queue").await, 0, "{what}");
    requests
}

#[tokio::test(start_paused = true)]
async fn an_interruption_at_every_request_loses_no_activity_and_ends_none_twice() {
    let requests = interrupted_activities(Interruption::StopBefore, usize::MAX).await;
    for interruption in INTERRUPTIONS {
        for at in 0..requests.min(12) {
            interrupted_activities(interruption, at).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_interruption_at_any_request_loses_and_repeats_no_message() {
    let requests = interrupted(Interruption::StopBefore, usize::MAX).await;
    assert!(requests > 10, "{requests}");
    for interruption in INTERRUPTIONS {
        for at in 0..requests {
            interrupted(interruption, at).await;
        }
    }
}
