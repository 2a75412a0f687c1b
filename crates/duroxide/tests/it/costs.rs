//! The cost of orchestrations, in requests and request units as the service counts them: targets, so that nothing creeps.
//! `cargo test -p sidereal-duroxide --test it costs -- --nocapture` prints the table.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::AccountOptions;
use sidereal_protocol::ResourceType;
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

use crate::loops::{Loops, start};
use crate::turns::{Done, LOCK, ack, begin, enqueue, fetch, raised};
use crate::world::World;

/// How many are averaged.
const RUNS: u32 = 100;

/// Requests to the container, and their charge.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    requests: f64,
    charge: f64,
}

impl fmt::Display for Cost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:6.2} requests, {:7.2} RU", self.requests, self.charge)
    }
}

fn world(partitions: u32) -> World {
    world_over(partitions, NetworkFaults::NONE)
}

fn world_over(partitions: u32, network: NetworkFaults) -> World {
    let options = AccountOptions { partitions: Some(partitions), ..AccountOptions::default() };
    World::of(InProcessAccount::new(options, 1, network))
}

/// A round trip of 2 to 3 ms. How many completions one turn takes depends on it: without any, all that is ready runs to
/// its end before anybody else comes.
const ROUND_TRIPS: NetworkFaults = NetworkFaults {
    latency: Duration::from_millis(2),
    latency_spread: Duration::from_millis(1),
    ..NetworkFaults::NONE
};

/// A process that polls and extends its lease as often as it would, or hardly ever: what that costs is measured by itself.
async fn provider(world: &World, is_feeding: bool) -> Arc<CosmosDBProvider> {
    let mut config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    if !is_feeding {
        config.feed_interval_min = Duration::from_secs(100 * 3600);
        config.feed_interval_max = Duration::from_secs(100 * 3600);
        config.lease_duration = Duration::from_secs(100 * 3600);
    }
    (config.orch_concurrency, config.worker_concurrency) = (2, 2);
    Arc::new(CosmosDBProvider::new(config).await.unwrap())
}

/// The requests about items that the account has counted since the last time.
fn counted(world: &World) -> Cost {
    let mut cost = Cost::default();
    for row in world.account.account().counters() {
        if row.container.is_some() && row.resource == Some(ResourceType::Document) {
            cost.requests += row.requests as f64;
            cost.charge += row.charge;
        }
    }
    world.account.account().reset_counters();
    cost
}

/// The average cost of orchestrations.
async fn average(partitions: u32, activities: u64, has_child: bool) -> Cost {
    let world = world_over(partitions, ROUND_TRIPS);
    let provider = provider(&world, false).await;
    let mut loops = Loops::start(&provider, 2);
    for run in 0..=RUNS {
        if run == 1 {
            // The first has warmed the metadata up.
            counted(&world);
        }
        let instance = format!("i-{run}");
        let child = has_child.then(|| format!("{instance}::sub::1"));
        enqueue(&provider, start(&instance, activities, child.as_deref())).await;
        loops.completed(&instance).await;
        // What is done beside the turns belongs to them.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all = counted(&world);
    Cost { requests: all.requests / f64::from(RUNS), charge: all.charge / f64::from(RUNS) }
}

#[tokio::test(start_paused = true)]
async fn orchestrations_stay_within_their_cost_at_one_and_eight_partitions() {
    for partitions in [1, 8] {
        let activity = average(partitions, 1, false).await;
        println!("{partitions} partition(s), start, one activity, done: {activity}");
        assert!(activity.requests <= 4.0, "{activity}");
        let fan_out = average(partitions, 5, false).await;
        println!("{partitions} partition(s), fan-out of five:            {fan_out}");
        assert!(fan_out.requests <= 12.0, "{fan_out}");
        let child = average(partitions, 0, true).await;
        println!("{partitions} partition(s), parent with a child:        {child}");
        assert!(child.requests <= 8.0, "{child}");
    }
}

/// The cost of the next turn of an instance with a history of so many events.
async fn next_turn(events: u64) -> Cost {
    let world = world(1);
    let provider = provider(&world, false).await;
    let loops = Loops::start(&provider, 0);
    begin(&provider, "i", Done::first("i").with_activities("i", 2..2)).await;
    for event in 2..=events {
        enqueue(&provider, raised("i", "x")).await;
        let (_, token, _) = fetch(&provider).await.unwrap();
        ack(&provider, &token, Done::default().with_event("i", event)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    counted(&world);
    enqueue(&provider, raised("i", "last")).await;
    let fetched = provider.fetch_orchestration_item(LOCK, Duration::from_secs(1), None).await;
    let (item, token, _) = fetched.unwrap().unwrap();
    assert_eq!(item.history.len() as u64, events);
    ack(&provider, &token, Done::default().with_event("i", events + 1)).await.unwrap();
    let cost = counted(&world);
    loops.kill().await;
    cost
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_of_a_long_history_costs_what_that_of_a_short_one_does() {
    let (short, long) = (next_turn(10).await, next_turn(100).await);
    println!("next turn after 10 events: {short}; after 100: {long}");
    assert!(long.requests <= 3.0 + 1.0, "{long}; the poller's first poll is among them");
    assert_eq!(short.requests, long.requests);
    assert!(long.charge < short.charge * 1.1, "{short}, {long}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_minute_costs_next_to_nothing() {
    // Of these, 20 extend the lease.
    for (partitions, most) in [(1, 70.0), (8, 132.0)] {
        let world = world(partitions);
        let provider = provider(&world, true).await;
        let _loops = Loops::start(&provider, 2);
        tokio::time::sleep(Duration::from_secs(120)).await;
        counted(&world);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let minute = counted(&world);
        println!("{partitions} partition(s), one idle minute:            {minute}");
        assert!(minute.requests <= most, "{minute}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_from_another_process_is_found_within_the_poll_interval() {
    for (partitions, idle, most) in [(1, 3_000, 1_500), (8, 9_000, 4_500)] {
        let world = world(partitions);
        let another = provider(&world, true).await;
        let working = provider(&world, true).await;
        let mut loops = Loops::start(&working, 2);
        let mut waited: Vec<u128> = Vec::new();
        for run in 0..u64::from(RUNS) {
            // At another phase of the poll interval each time, when it is idle.
            tokio::time::sleep(Duration::from_millis(idle + 37 * run)).await;
            let began = tokio::time::Instant::now();
            let instance = format!("i-{run}");
            enqueue(&another, start(&instance, 1, None)).await;
            loops.completed(&instance).await;
            waited.push(began.elapsed().as_millis());
        }
        waited.sort_unstable();
        let (median, p99) = (waited[49], waited[98]);
        println!(
            "{partitions} partition(s), a start from another process: p50 {median} ms, p99 {p99} ms"
        );
        assert!(p99 <= most, "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_whose_runtime_has_ended_does_not_poll_until_another_begins() {
    let world = world(1);
    let provider = provider(&world, true).await;
    let loops = Loops::start(&provider, 2);
    tokio::time::sleep(Duration::from_secs(10)).await;
    loops.kill().await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    counted(&world);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let minute = counted(&world);
    assert!(minute.requests <= 2.0, "{minute}: the reconciler's scans alone");
    let another = self::provider(&world, true).await;
    let mut loops = Loops::start(&provider, 2);
    enqueue(&another, start("i", 1, None)).await;
    loops.completed("i").await;
}
