//! Several processes on one container, of which one is killed and restarted again and again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};
use tokio::time::Instant;

use crate::loops::{Loops, start};
use crate::turns::{self, Done, activity, enqueue};
use crate::world::World;

/// As long as that of a process that is not told.
const LEASE: Duration = Duration::from_secs(9);

/// A process with a runtime of two dispatchers and two workers.
struct Process {
    provider: Arc<CosmosDBProvider>,
    loops: Loops,
}

impl Process {
    async fn start(world: &World) -> Self {
        let mut config =
            CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
        config.lease_duration = LEASE;
        let provider = Arc::new(CosmosDBProvider::new(config).await.unwrap());
        let loops = Loops::start(&provider, 2);
        Self { provider, loops }
    }

    /// Gone without a word.
    async fn kill(self) {
        self.loops.kill().await;
    }
}

fn world() -> World {
    let regions = InProcessAccount::with_regions(&["West US"], 1, NetworkFaults::NONE);
    World::of(regions)
}

/// How many orchestrations are not completed, or not whole.
async fn unfinished(provider: &CosmosDBProvider, started: u32) -> Vec<String> {
    let completed = provider.list_instances_by_status("Completed").await.unwrap();
    let completed: HashSet<String> = completed.into_iter().collect();
    let mut unfinished = Vec::new();
    for number in 0..started {
        let id = format!("i-{number}");
        let events = provider.read(&id).await.unwrap();
        let is_gapless = events.iter().zip(1..).all(|(event, id)| event.event_id() == id);
        // Started, three scheduled, three completed, completed: nothing is there twice.
        if !completed.contains(&id) || !is_gapless || events.len() != 8 {
            unfinished.push(id);
        }
    }
    unfinished
}

async fn all_complete_while_one_of(processes: usize) {
    const STARTED: u32 = 200;
    let world = world();
    let client = world.provider().await;
    let mut running = Vec::new();
    for _ in 0..processes {
        running.push(Process::start(&world).await);
    }
    for number in 0..STARTED {
        enqueue(&client, start(&format!("i-{number}"), 3, None)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        if number % 40 == 20 {
            running.remove(0).kill().await;
            running.push(Process::start(&world).await);
        }
    }
    // Longer than any lock and any lease that the dead have left.
    tokio::time::sleep(2 * LEASE).await;
    assert_eq!(unfinished(&client, STARTED).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn two_processes_complete_everything_while_one_is_killed_and_restarted() {
    all_complete_while_one_of(2).await;
}

#[tokio::test(start_paused = true)]
async fn three_processes_complete_everything_while_one_is_killed_and_restarted() {
    all_complete_while_one_of(3).await;
}

async fn slots(processes: &[Process]) -> Vec<Vec<u8>> {
    let mut shares = Vec::new();
    for process in processes {
        shares.push(process.provider.slots().await);
    }
    shares
}

/// The slots of each process, once they have heard of each other. Within the lease every slot is attended, by the
/// former process and by the next for a while.
async fn shares(processes: &[Process]) -> Vec<Vec<u8>> {
    tokio::time::sleep(LEASE + Duration::from_millis(1)).await;
    let attended: HashSet<u8> = slots(processes).await.concat().into_iter().collect();
    assert_eq!(attended.len(), 256);
    tokio::time::sleep(LEASE).await;
    slots(processes).await
}

fn assert_balanced(shares: &[Vec<u8>]) {
    let sizes: Vec<usize> = shares.iter().map(Vec::len).collect();
    assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
    let all: HashSet<u8> = shares.concat().into_iter().collect();
    assert_eq!((all.len(), sizes.iter().sum::<usize>()), (256, 256), "each slot is one process's");
}

#[tokio::test(start_paused = true)]
async fn slots_are_balanced_and_taken_over_within_the_lease() {
    let world = world();
    let mut processes = vec![Process::start(&world).await];
    assert_balanced(&shares(&processes).await);
    for _ in 0..2 {
        processes.push(Process::start(&world).await);
        assert_balanced(&shares(&processes).await);
    }
    processes.remove(1).kill().await;
    assert_balanced(&shares(&processes).await);
    let leaving = processes.remove(0);
    leaving.provider.shutdown().await;
    leaving.kill().await;
    let last = shares(&processes).await;
    assert_eq!(last[0].len(), 256);
    assert_eq!(processes[0].provider.slots().await.len(), 256, "and stays so");
}

#[tokio::test(start_paused = true)]
async fn what_a_process_left_undelivered_is_delivered_by_the_next() {
    let world = world();
    let first = Process::start(&world).await;
    // It stops at the delivery of the child's start: after the parent's own start, and the turn that sends it.
    enqueue(&first.provider, start("warm", 0, None)).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = world.count("outbox_intent").await;
    world.network.arm(2, sidereal_testing::in_process::Interruption::StopBefore);
    enqueue(&first.provider, start("parent", 0, Some("parent::sub::1"))).await;
    world.network.stopped().await;
    world.network.disarm();
    first.kill().await;
    assert_eq!((before, world.count("outbox_intent").await), (0, 1));
    let next = Process::start(&world).await;
    tokio::time::sleep(LEASE).await;
    let completed = next.provider.list_instances_by_status("Completed").await.unwrap();
    assert!(completed.contains(&"parent".to_owned()), "{completed:?}");
    assert_eq!(world.count("outbox_intent").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_tagged_activity_is_found_by_the_process_that_takes_it_in_any_slot() {
    let world = world();
    let (one, other) = (Process::start(&world).await, world.provider().await);
    let gpu = TagFilter::tags(["gpu"]);
    for id in 2..12 {
        let mut tagged = activity(&format!("i-{id}"), id, None);
        if let WorkItem::ActivityExecute { tag, .. } = &mut tagged {
            *tag = Some("gpu".to_owned());
        }
        one.provider.enqueue_for_worker(tagged).await.unwrap();
        let began = tokio::time::Instant::now();
        let fetched = other.fetch_work_item(LEASE, LEASE, None, &gpu).await.unwrap();
        assert!(fetched.is_some(), "{id}");
        assert!(began.elapsed() < Duration::from_secs(2), "{id}: {:?}", began.elapsed());
    }
}

/// Another process does not tell when its turn ends.
#[tokio::test(start_paused = true)]
async fn a_message_waits_for_the_end_of_another_process_s_turn_not_of_its_lock() {
    const LOCK: Duration = Duration::from_secs(60);
    const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(1_250);
    for turn_ms in [5, 200, 2_000, 20_000] {
        let turn = Duration::from_millis(turn_ms);
        let world = World::new();
        let busy = world.settled().await;
        let idle = Arc::new(world.settled().await);
        enqueue(&busy, turns::start("i")).await;
        let locked = busy.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.unwrap();
        enqueue(&idle, turns::raised("i", "1")).await;
        let waiting = Arc::clone(&idle);
        let fetching = tokio::spawn(async move {
            waiting.fetch_orchestration_item(LOCK, LOCK, None).await.unwrap()
        });
        let ((), requests) = world.requests(tokio::time::sleep(turn)).await;
        turns::ack(&busy, &locked.unwrap().1, Done::first("i")).await.unwrap();
        let committed = Instant::now();
        let (item, _, attempts) = fetching.await.unwrap().unwrap();
        let waited = committed.elapsed();
        println!("a turn of {turn:?}: {requests} requests beside it, {waited:?} after it");
        assert_eq!((item.messages.len(), item.history.len(), attempts), (1, 1, 1));
        assert!(waited <= turn + LONGEST_FEED_INTERVAL, "a turn of {turn:?}: {waited:?}");
        assert!(waited <= Duration::from_secs(5) + LONGEST_FEED_INTERVAL, "{waited:?}");
        // The polls, the leases, and a few tries.
        assert!(requests <= 20 + 2 * turn.as_secs() as usize, "a turn of {turn:?}: {requests}");
    }
}

/// Slots are divided by their number, not by the work in them, nor by what a process can do.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_process_that_is_busy_is_taken_by_one_that_is_idle() {
    const HOUR: Duration = Duration::from_secs(3_600);
    const STARTED: usize = 600;
    let world = world();
    let client = world.provider().await;
    let busy = Arc::new(world.provider().await);
    let its_dispatcher = Arc::clone(&busy);
    let working = tokio::spawn(async move {
        loop {
            let fetched = its_dispatcher.fetch_orchestration_item(HOUR, LEASE, None).await;
            if fetched.unwrap().is_some() {
                return std::future::pending::<()>().await;
            }
        }
    });
    let idle = Process::start(&world).await;
    tokio::time::sleep(2 * LEASE).await;
    assert_eq!((busy.slots().await.len(), idle.provider.slots().await.len()), (128, 128));
    enqueue(&busy, turns::start("long")).await;

    let began = Instant::now();
    for number in 0..STARTED {
        enqueue(&client, start(&format!("i-{number}"), 0, None)).await;
    }
    let waiting = async {
        while world.count("orch_queue").await > 1 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let ((), requests) = world.requests(waiting).await;
    println!("{STARTED} starts: {:?}, {requests} requests", began.elapsed());
    assert_eq!(busy.slots().await.len(), 128);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    working.abort();
}

/// The locks of these tests: much longer than a lease.
const LONG_LOCK: Duration = Duration::from_secs(120);

/// A process that has an activity and a turn, each for long.
async fn with_long_locks(world: &World, config: CosmosDBProviderConfig) -> CosmosDBProvider {
    let provider = CosmosDBProvider::new(config.with_clock(world.clock())).await.unwrap();
    let done = Done { activities: vec![activity("i", 2, None)], ..Done::first("i") };
    turns::begin(&provider, "i", done).await;
    enqueue(&provider, turns::raised("i", "x")).await;
    let poll = Duration::from_secs(10);
    // It has a lease once it has polled.
    let empty = provider.fetch_orchestration_item(LONG_LOCK, Duration::ZERO, None).await.unwrap();
    provider.abandon_orchestration_item(&empty.unwrap().1, None, true).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let tags = TagFilter::Any;
    let nothing = provider.fetch_work_item(LONG_LOCK, poll, None, &tags);
    assert!(nothing.await.unwrap().is_some());
    let turn = provider.fetch_orchestration_item(LONG_LOCK, poll, None).await.unwrap();
    assert!(turn.is_some());
    provider
}

/// How long another process waits for the activity and for the turn of one that is gone.
async fn taken_over(world: &World, config: impl Fn() -> CosmosDBProviderConfig) -> Duration {
    let other = CosmosDBProvider::new(config().with_clock(world.clock())).await.unwrap();
    let holder = with_long_locks(world, config()).await;
    let (poll, tags) = (Duration::from_secs(300), TagFilter::Any);
    let both = async {
        tokio::join!(
            other.fetch_work_item(LONG_LOCK, poll, None, &tags),
            other.fetch_orchestration_item(LONG_LOCK, poll, None),
        )
    };
    let mut both = std::pin::pin!(both);
    // While the holder lives, it is left alone.
    assert!(tokio::time::timeout(LONG_LOCK / 4, &mut both).await.is_err());
    drop(holder);
    let gone = Instant::now();
    let (item, turn) = both.await;
    assert!(item.unwrap().is_some() && turn.unwrap().is_some());
    gone.elapsed()
}

/// Its activities waited for the end of their locks, which was the tail of every kill.
#[tokio::test(start_paused = true)]
async fn locks_of_a_process_that_is_gone_are_taken_over_after_its_lease() {
    let world = world();
    let took = taken_over(&world, || CosmosDBProviderConfig::with_client(world.client())).await;
    assert!(took < Duration::from_secs(14), "{took:?}");
    assert!(took > Duration::from_secs(5), "not before its lease: {took:?}");
}

/// How long the second activity of a session waits for another worker, after the process that has the session is gone.
/// The session was held until its own lock ended, although the activity's was free after the lease.
async fn session_taken_over(
    config: impl Fn() -> CosmosDBProviderConfig,
    world: &World,
) -> Duration {
    let new = || CosmosDBProvider::new(config().with_clock(world.clock()));
    let (holder, other) = (new().await.unwrap(), new().await.unwrap());
    let of = |name: &str| SessionFetchConfig { owner_id: name.to_owned(), lock_timeout: LONG_LOCK };
    let (poll, tags) = (Duration::from_secs(300), TagFilter::Any);
    let activities = (2..4).map(|id| activity("i", id, Some("s"))).collect();
    turns::begin(&holder, "i", Done { activities, ..Done::first("i") }).await;
    // It has a lease once it has polled.
    let (one, three) = (of("one"), of("three"));
    let empty = holder.fetch_orchestration_item(LONG_LOCK, Duration::from_secs(6), None).await;
    assert!(empty.unwrap().is_none());
    for _ in 0..2 {
        let item = holder.fetch_work_item(LONG_LOCK, poll, Some(&one), &tags).await.unwrap();
        assert!(item.is_some());
    }
    let mut waiting = std::pin::pin!(other.fetch_work_item(LONG_LOCK, poll, Some(&three), &tags));
    assert!(tokio::time::timeout(LONG_LOCK / 4, &mut waiting).await.is_err(), "it is held");
    drop(holder);
    let gone = Instant::now();
    let (item, token, _) = waiting.await.unwrap().unwrap();
    assert_eq!(item, activity("i", 2, Some("s")));
    let took = gone.elapsed();
    // The session is its own now: it keeps it, and has the next activity.
    other.renew_work_item_lock(&token, LONG_LOCK).await.unwrap();
    let renewed = other.renew_session_lock(&["three"], LONG_LOCK, LONG_LOCK).await.unwrap();
    assert_eq!(renewed, 1);
    let next = other.fetch_work_item(LONG_LOCK, poll, Some(&three), &tags).await.unwrap();
    assert_eq!(next.map(|(item, _, _)| item), Some(activity("i", 3, Some("s"))));
    took
}

#[tokio::test(start_paused = true)]
async fn sessions_of_a_process_that_is_gone_are_taken_over_after_its_lease() {
    let world = world();
    let config = || CosmosDBProviderConfig::with_client(world.client());
    let took = session_taken_over(config, &world).await;
    assert!(took < Duration::from_secs(14), "{took:?}");
    assert!(took > Duration::from_secs(5), "not before its lease: {took:?}");
    let world = self::world();
    let config = || {
        let mut config = CosmosDBProviderConfig::with_client(world.client());
        config.leases = sidereal_duroxide::Leases::InMemory;
        config
    };
    let took = session_taken_over(config, &world).await;
    assert!(took > Duration::from_secs(60), "by time alone: {took:?}");
}

/// A process that began while the account was restarting: it was not in the roster until its next heartbeat, three seconds
/// later, and other processes could not see that it was gone.
#[tokio::test(start_paused = true)]
async fn locks_of_a_process_whose_first_heartbeat_failed_are_taken_over() {
    let world = world();
    let config = || CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    let other = CosmosDBProvider::new(config()).await.unwrap();
    let (poll, tags) = (Duration::from_secs(300), TagFilter::Any);
    turns::begin(&other, "i", Done::first("i")).await;
    let holder = CosmosDBProvider::new(config()).await.unwrap();
    // As often as the driver tries.
    let effect = FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };
    let condition = FaultCondition { operation: Some(Operation::Patch), ..Default::default() };
    let rule = FaultRule { condition, hit_limit: Some(4), ..FaultRule::new(effect) };
    world.account.account().add_fault(rule).unwrap();
    let fetching = holder.fetch_work_item(LONG_LOCK, Duration::from_secs(2), None, &tags);
    let enqueueing = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        holder.enqueue_for_worker(activity("i", 2, None)).await.unwrap();
    };
    let (item, ()) = tokio::join!(fetching, enqueueing);
    assert!(item.unwrap().is_some());
    let waiting = other.fetch_work_item(LONG_LOCK, poll, None, &tags);
    drop(holder);
    let gone = Instant::now();
    assert!(waiting.await.unwrap().is_some());
    assert!(gone.elapsed() < Duration::from_secs(16), "{:?}", gone.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_leases_in_the_container_locks_end_by_time_alone() {
    let world = world();
    let config = || {
        let mut config = CosmosDBProviderConfig::with_client(world.client());
        config.leases = sidereal_duroxide::Leases::InMemory;
        config
    };
    let took = taken_over(&world, config).await;
    assert!(took > Duration::from_secs(60), "{took:?}");
}
