//! More operations at once than there are streams: they wait for their turn, and the streams follow the load. On a
//! paused clock.

use std::num::NonZero;
use std::time::Duration;

use futures_util::future::join_all;
use sidereal_driver::options::{AvailabilityOptions, CosmosClientOptions, HedgingThreshold};
use sidereal_driver::transport::internals::PoolSnapshot;
use sidereal_driver::{CosmosDriverRuntime, CosmosResponse, Error, ErrorKind, OperationOptions};
use sidereal_emulator::{AccountOptions, FaultEffect, Operation};
use sidereal_testing::in_process::InProcessAccount;

use crate::three_regions::{LATENCY, REGIONS, ThreeRegions, orders, read, regions};

const SECOND: Duration = Duration::from_secs(1);

/// One connection with one stream to an endpoint.
fn one_stream() -> CosmosClientOptions {
    let mut options = CosmosClientOptions::default();
    options.sharding.max_clients_per_endpoint = NonZero::new(1);
    options.sharding.max_streams_per_client = NonZero::new(1);
    options.availability.hedging_enabled = Some(false);
    options
}

async fn read_at_once(stack: &ThreeRegions, count: usize) -> Vec<Result<CosmosResponse, Error>> {
    let operation = read("1");
    join_all((0..count).map(|_| stack.execute(&operation))).await
}

/// Of 5,000 reads at once on two processors, 3,900 failed.
#[tokio::test(start_paused = true)]
async fn ten_thousand_reads_at_once_all_succeed() {
    let stack = ThreeRegions::with(AccountOptions::default(), CosmosClientOptions::default()).await;
    let started = tokio::time::Instant::now();
    let failed = read_at_once(&stack, 10_000).await.into_iter().filter_map(Result::err);
    assert_eq!(failed.map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0]);
    // With a fixed number of streams (four connections) they would take 160 round trips.
    assert!(started.elapsed() < 60 * LATENCY, "{:?}", started.elapsed());
}

/// A queue that was longer than the timeout of one attempt failed although it moved.
#[tokio::test(start_paused = true)]
async fn operations_wait_for_their_turn_longer_than_an_attempt_may_take() {
    let mut options = one_stream();
    options.connection.request_timeout = Some(5 * LATENCY);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    let started = tokio::time::Instant::now();
    let outcomes = read_at_once(&stack, 100).await;
    assert!(started.elapsed() >= 100 * LATENCY);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap().diagnostics().attempts().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_waits_for_its_turn_up_to_its_deadline() {
    let stack = ThreeRegions::with(AccountOptions::default(), one_stream()).await;
    read_at_once(&stack, 1).await.remove(0).unwrap();
    let mut call = OperationOptions::default();
    call.availability.end_to_end_timeout = Some(10 * LATENCY);
    let operation = read("1");
    let reads = (0..50).map(|_| stack.driver.execute_operation(&operation, &call));
    let outcomes = join_all(reads).await;
    let late = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let late: Vec<ErrorKind> = late.map(Error::kind).collect();
    assert!(late.len() > 30 && late.len() < 50, "{}", late.len());
    assert!(late.iter().all(|kind| *kind == ErrorKind::DeadlineExceeded), "{late:?}");
}

/// Where nothing is answered, waiting is given up and another region is asked.
#[tokio::test(start_paused = true)]
async fn operations_do_not_wait_for_a_region_that_hangs() {
    let mut options = one_stream();
    options.regions.preferred_regions = Some(REGIONS.map(Into::into).to_vec());
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    read_at_once(&stack, 1).await.remove(0).unwrap();
    stack.inject(REGIONS[0], Operation::Read, FaultEffect::Hang, None);
    for outcome in read_at_once(&stack, 20).await {
        assert_eq!(regions(&outcome).last().map(String::as_str), Some(REGIONS[1]));
        outcome.unwrap();
    }
}

/// A burst that waited here for its turn was hedged, and the hedges that won counted as failures of the region.
#[tokio::test(start_paused = true)]
async fn hedges_that_overtake_our_own_queue_blame_no_region() {
    let mut options = one_stream();
    options.regions.preferred_regions = Some(REGIONS.map(Into::into).to_vec());
    options.availability = AvailabilityOptions::default()
        .with_hedging_threshold(HedgingThreshold::Static(10 * LATENCY))
        .with_hedging_budget_burst(1_000u32);
    options.partition_failover.consecutive_hedge_win_threshold = Some(1);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    stack.driver.container(&orders()).await.unwrap();
    let outcomes = read_at_once(&stack, 200).await;
    let hedged = outcomes.iter().filter(|outcome| regions(outcome).len() > 1).count();
    assert!(hedged > 50 && outcomes.iter().all(Result::is_ok), "{hedged}");
    assert_eq!(regions(&stack.execute(&read("1")).await), [REGIONS[0]]);
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_waiting_requests_is_back_pressure() {
    let mut options = one_stream();
    options.sharding.max_queued_requests = Some(10);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    read_at_once(&stack, 1).await.remove(0).unwrap();
    let outcomes = read_at_once(&stack, 100).await;
    let errors: Vec<&Error> = outcomes.iter().filter_map(|it| it.as_ref().err()).collect();
    assert_eq!(errors.len(), 89);
    for error in errors {
        assert_eq!((error.kind(), error.may_have_been_applied()), (ErrorKind::Overloaded, false));
        let sentence = error.to_string();
        let names_all = ["wait queue of https://", "10 requests", "sharding.max_queued_requests"];
        assert!(names_all.iter().all(|name| sentence.contains(name)), "{sentence}");
    }
}

/// The connections to the region that is read.
fn pool(runtime: &CosmosDriverRuntime, account: &InProcessAccount) -> PoolSnapshot {
    let endpoint = account.endpoint_of(REGIONS[0]);
    let mut pools = runtime.pool_snapshots().into_iter();
    pools.find(|pool| pool.endpoint == endpoint).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_region_that_hangs_gets_no_further_connections() {
    let mut options = CosmosClientOptions::default();
    // Less than it takes for the silence of the region to count.
    options.availability.end_to_end_timeout = Some(SECOND);
    options.availability.hedging_enabled = Some(false);
    let stack = ThreeRegions::with(AccountOptions::default(), CosmosClientOptions::default()).await;
    let runtime = stack.account.runtime();
    let driver = stack.account.driver_on(runtime.clone(), options);
    let (operation, call) = (read("1"), OperationOptions::default());
    driver.execute_operation(&operation, &call).await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    stack.inject(REGIONS[0], Operation::Read, FaultEffect::Hang, None);
    let processors = std::thread::available_parallelism().unwrap().get();
    let reads = (0..100 * processors).map(|_| driver.execute_operation(&operation, &call));
    assert!(join_all(reads).await.iter().all(Result::is_err));
    assert!(pool(&runtime, &stack.account).shards.len() <= 2 * processors);
}

#[tokio::test(start_paused = true)]
async fn connections_follow_the_load_and_the_idle_ones_are_closed() {
    let stack = ThreeRegions::with(AccountOptions::default(), CosmosClientOptions::default()).await;
    let runtime = stack.account.runtime();
    let driver = stack.account.driver_on(runtime.clone(), CosmosClientOptions::default());
    let (operation, call) = (read("1"), OperationOptions::default());
    let processors = std::thread::available_parallelism().unwrap().get();
    for (count, most) in [(20 * processors, 2 * processors), (10_000, 2 * processors.max(32))] {
        let reads = (0..count).map(|_| driver.execute_operation(&operation, &call));
        assert!(join_all(reads).await.iter().all(Result::is_ok));
        let shards = pool(&runtime, &stack.account).shards.len();
        assert!(shards <= most && shards > most / 2, "{count} reads: {shards} of {most}");
    }
    for _ in 0..200 {
        tokio::time::sleep(SECOND).await;
        driver.execute_operation(&operation, &call).await.unwrap();
    }
    assert_eq!(pool(&runtime, &stack.account).shards.len(), 1);
    let reads = (0..20 * processors).map(|_| driver.execute_operation(&operation, &call));
    join_all(reads).await;
    assert!(pool(&runtime, &stack.account).shards.len() <= 2 * processors);
}
