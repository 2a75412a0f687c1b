//! Regions that go, come back, move and leave, as the application and the account see it. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::diagnostics::{Decision, ExecutionContext};
use sidereal_driver::options::{ClientMethodOptions, CosmosClientOptions, RequestOptions};
use sidereal_driver::system::Clock;
use sidereal_driver::{CosmosOperation, ErrorKind, OperationOptions};
use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation, WriteRegionChange};
use sidereal_protocol::{RegionName, ResourceType};
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use crate::three_regions::{REGIONS, ThreeRegions, orders, read, regions, unavailable, upsert};

#[tokio::test(start_paused = true)]
async fn reads_go_to_the_preferred_region_and_writes_to_the_write_region() {
    let stack = ThreeRegions::preferring("UK South").await;
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
    assert_eq!(regions(&stack.execute(&upsert("2")).await), ["West US"]);
    let excluded = RequestOptions::default().with_excluded_regions(["UK South"]);
    let options = OperationOptions::default().with_request(excluded);
    let elsewhere = stack.driver.execute_operation(&read("1"), &options).await;
    assert_eq!(regions(&elsewhere), ["West US"]);
}

#[tokio::test(start_paused = true)]
async fn fifty_operations_at_once_read_the_account_once() {
    let stack = ThreeRegions::preferring("East US").await;
    let stack = std::sync::Arc::new(stack);
    let reads: Vec<_> = (0..50)
        .map(|_| {
            let stack = std::sync::Arc::clone(&stack);
            tokio::spawn(async move { stack.execute(&read("1")).await.map(drop) })
        })
        .collect();
    for read in reads {
        read.await.unwrap().unwrap();
    }
    assert_eq!((stack.account_reads(), stack.items_seen_in("East US")), (1, 50));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_used_reads_the_account_every_five_minutes() {
    let stack = ThreeRegions::preferring("East US").await;
    stack.execute(&read("1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(16 * 60)).await;
    // Once at first, and then every four to six minutes.
    assert!((3..=5).contains(&stack.account_reads()), "{} reads", stack.account_reads());
}

#[tokio::test(start_paused = true)]
async fn an_offline_region_fails_no_read_and_later_ones_start_elsewhere() {
    let stack = ThreeRegions::preferring("UK South").await;
    stack.execute(&read("1")).await.unwrap();
    stack.set_online("UK South", false);
    let first = stack.execute(&read("1")).await;
    assert_eq!(regions(&first), ["UK South", "UK South", "West US"]);
    let attempts = first.unwrap().diagnostics().attempts().to_vec();
    assert!(matches!(attempts[1].decision, Some(Decision::RetryElsewhere { .. })));
    assert_eq!(attempts[2].execution_context, ExecutionContext::RegionFailover);
    assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"]);
}

#[tokio::test(start_paused = true)]
async fn reads_return_to_a_region_that_answers_a_probe_a_minute_after_it_failed() {
    let stack = ThreeRegions::preferring("UK South").await;
    stack.execute(&read("1")).await.unwrap();
    stack.set_online("UK South", false);
    stack.execute(&read("1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    let probes = |stack: &ThreeRegions| {
        let uk = RegionName::from("UK South");
        stack.seen(|row| row.region == uk && row.resource == Some(ResourceType::DatabaseAccount))
    };
    // The region is still down: the first read asks for a probe, and none goes there by itself.
    for _ in 0..20 {
        assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"]);
    }
    stack.set_online("UK South", true);
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"], "the mark is renewed");
    assert_eq!(probes(&stack), 0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let items = stack.items_seen_in("UK South");
    // Twenty at once meet the end of the mark, and the region sees one probe.
    let twenty: Vec<_> = (0..20).map(|_| read("1")).collect();
    let reads = twenty.iter().map(|read| stack.execute(read));
    for found in futures_util::future::join_all(reads).await {
        assert_eq!(regions(&found), ["West US"]);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((probes(&stack), stack.items_seen_in("UK South")), (1, items));
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn an_operation_does_not_retry_a_failed_region_while_others_are_left() {
    let stack = ThreeRegions::preferring("UK South").await;
    for region in ["UK South", "West US"] {
        stack.inject(region, Operation::Read, unavailable(), None);
    }
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South", "West US", "East US"]);
    stack.inject("East US", Operation::Read, unavailable(), None);
    let nowhere = stack.execute(&read("1")).await;
    // East is the only one without a mark; then the others; then the last one again, until the budget ends.
    assert_eq!(regions(&nowhere), ["East US", "UK South", "West US", "West US"]);
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_retried_in_the_only_write_region_and_moves_no_reads() {
    let stack = ThreeRegions::preferring("West US").await;
    stack.inject("West US", Operation::Upsert, unavailable(), Some(2));
    let written = stack.execute(&upsert("2")).await;
    assert_eq!(regions(&written), ["West US", "West US", "West US"]);
    written.unwrap();
    assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"]);
}

/// Writes every half second for as long as a failover takes; all of them succeed.
async fn writes_survive(change: WriteRegionChange) {
    let stack = ThreeRegions::preferring("West US").await;
    stack.execute(&upsert("0")).await.unwrap();
    let east = RegionName::from("East US");
    stack.account.account().change_write_region(&east, change).unwrap();
    for id in 1..80 {
        let written = stack.execute(&upsert(&id.to_string())).await;
        written.unwrap_or_else(|error| panic!("{change:?}, write {id}: {error:?}"));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(regions(&stack.execute(&upsert("80")).await), ["East US"]);
    let refused = stack.seen(|row| row.status == 403);
    assert!(refused <= 2, "the old region is asked once or twice, not {refused} times");
}

#[tokio::test(start_paused = true)]
async fn writes_follow_a_write_region_that_is_moved_as_planned() {
    writes_survive(WriteRegionChange::GRACEFUL).await;
}

#[tokio::test(start_paused = true)]
async fn writes_follow_a_write_region_that_is_moved_by_force() {
    writes_survive(WriteRegionChange::Forced).await;
}

/// Refused writes could have read the account as often as they were refused.
#[tokio::test(start_paused = true)]
async fn a_storm_of_refusals_reads_the_account_every_five_seconds_at_most() {
    let stack = std::sync::Arc::new(ThreeRegions::preferring("West US").await);
    let forbidden = FaultEffect::Answer { status: 403, sub_status: 3, retry_after: None };
    stack.inject("West US", Operation::Upsert, forbidden, None);
    let started = Instant::now();
    let writes: Vec<_> = (0..100)
        .map(|id: u32| {
            let stack = std::sync::Arc::clone(&stack);
            tokio::spawn(async move { stack.execute(&upsert(&id.to_string())).await.map(drop) })
        })
        .collect();
    for write in writes {
        let error = write.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(!error.may_have_been_applied());
    }
    let intervals = started.elapsed().as_secs() / 5;
    assert!(intervals >= 2, "{:?}", started.elapsed());
    assert!(stack.account_reads() <= intervals + 2, "{} reads", stack.account_reads());
}

/// The write waited for five seconds, because the account had been read a moment before it changed.
#[tokio::test(start_paused = true)]
async fn a_write_that_meets_a_moved_write_region_has_the_account_read_at_once() {
    let stack = ThreeRegions::preferring("West US").await;
    stack.execute(&upsert("0")).await.unwrap();
    let east = RegionName::from("East US");
    stack.account.account().change_write_region(&east, WriteRegionChange::Forced).unwrap();
    let started = Instant::now();
    let written = stack.execute(&upsert("1")).await;
    assert_eq!(regions(&written), ["West US", "East US"]);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!(stack.account_reads(), 2);
}

/// A write is under way while the write region moves, another is refused and the account read, which takes some time.
/// The first one is refused after 300 ms. Says when it was written in the new region.
async fn written_after_a_read_for_another(read_takes: Duration) -> Duration {
    let stack = ThreeRegions::preferring("West US").await;
    stack.execute(&upsert("0")).await.unwrap();
    let delay = FaultEffect::DelayBefore { wait: Duration::from_millis(300) };
    stack.inject("West US", Operation::Upsert, delay, Some(1));
    let started = Instant::now();
    let under_way = async { (stack.execute(&upsert("1")).await, started.elapsed()) };
    let refused_before = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (account, east) = (stack.account.account(), RegionName::from("East US"));
        account.change_write_region(&east, WriteRegionChange::Forced).unwrap();
        let delay = FaultEffect::DelayBefore { wait: read_takes };
        let resource = Some(ResourceType::DatabaseAccount);
        let condition = FaultCondition { resource, ..FaultCondition::default() };
        account.add_fault(FaultRule { condition, ..FaultRule::new(delay) }).unwrap();
        stack.execute(&upsert("2")).await
    };
    let ((under_way, took), refused_before) = tokio::join!(under_way, refused_before);
    for written in [under_way, refused_before] {
        assert_eq!(regions(&written), ["West US", "East US"]);
    }
    assert_eq!(stack.account_reads(), 2, "one for both, after the first of all");
    took
}

/// The write waited for seconds, until the account could be read once more, although it had been read since.
#[tokio::test(start_paused = true)]
async fn a_refused_write_is_satisfied_with_a_read_that_began_after_it_started() {
    let took = written_after_a_read_for_another(Duration::ZERO).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_waits_for_a_read_under_way_that_began_after_it_started() {
    let took = written_after_a_read_for_another(Duration::from_secs(1)).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn operations_follow_the_write_region_without_the_global_endpoint() {
    let stack = ThreeRegions::preferring("UK South").await;
    stack.execute(&upsert("2")).await.unwrap();
    stack.account.set_global_online(false);
    let east = RegionName::from("East US");
    stack.account.account().change_write_region(&east, WriteRegionChange::Forced).unwrap();
    stack.execute(&upsert("3")).await.unwrap();
    assert_eq!(regions(&stack.execute(&upsert("4")).await), ["East US"]);
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn an_account_is_read_at_a_custom_endpoint_if_the_global_one_is_down() {
    let stack = ThreeRegions::preferring("UK South").await;
    stack.account.set_global_online(false);
    let mut options = CosmosClientOptions::default();
    let custom = stack.account.endpoint_of("East US").to_string();
    options.account.custom_endpoints = Some([custom].into());
    let driver = stack.account.driver_on(stack.account.runtime(), options);
    let found = driver.execute_operation(&read("1"), &Default::default()).await;
    assert_eq!(regions(&found), ["West US"]);
    assert_eq!(stack.account_reads(), 1);
}

/// The pool of every endpoint ever used stayed, pinging and connecting again.
#[tokio::test(start_paused = true)]
async fn connections_to_a_region_that_left_the_account_are_closed() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    let stack = ThreeRegions::new(false, CosmosClientOptions::default()).await;
    let runtime = stack.account.runtime();
    let driver = stack.account.driver_on(std::sync::Arc::clone(&runtime), options);
    let options = OperationOptions::default();
    driver.execute_operation(&read("1"), &options).await.unwrap();
    let left = stack.account.endpoint_of("UK South");
    let is_there = || runtime.pool_snapshots().iter().any(|pool| pool.endpoint == left);
    assert!(is_there());
    stack.account.account().remove_region(&RegionName::from("UK South")).unwrap();
    let moved = driver.execute_operation(&read("1"), &options).await;
    assert_eq!(regions(&moved), ["UK South", "West US"]);
    assert!(!is_there());
}

#[tokio::test(start_paused = true)]
async fn a_lost_write_is_repeated_in_another_region_only_if_idempotent() {
    let stack = ThreeRegions::new(true, CosmosClientOptions::default()).await;
    stack.inject("West US", Operation::Upsert, FaultEffect::ResetAfter, None);
    let repeated = stack.execute(&upsert("2")).await;
    assert_eq!(regions(&repeated), ["West US", "West US", "East US"]);
    repeated.unwrap();

    let stack = ThreeRegions::new(true, CosmosClientOptions::default()).await;
    stack.inject("West US", Operation::Patch, FaultEffect::ResetAfter, None);
    let increment = Bytes::from_static(br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    let patch = CosmosOperation::patch_item(&orders(), "contoso".into(), "1", increment).unwrap();
    let lost = stack.execute(&patch).await;
    assert_eq!(regions(&lost), ["West US"]);
    assert!(lost.unwrap_err().may_have_been_applied());
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_longer_than_the_deadline() {
    let stack = ThreeRegions::preferring("UK South").await;
    for region in REGIONS {
        stack.inject(region, Operation::Read, FaultEffect::Hang, None);
    }
    let allowed = Duration::from_secs(3);
    let within = |deadline| {
        let method = ClientMethodOptions { deadline: Some(deadline), ..Default::default() };
        OperationOptions::default().with_method_options(method)
    };
    let started = Clock::now();
    let late = stack.driver.execute_operation(&read("1"), &within(started + allowed)).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(Clock::now() - started, allowed);

    // The first read of the account counts too.
    let driver = stack.account.driver();
    let slow = NetworkFaults { latency: Duration::from_secs(60), ..NetworkFaults::NONE };
    stack.account.network().set_faults(slow);
    let started = Clock::now();
    let late = driver.execute_operation(&read("1"), &within(started + allowed)).await;
    let error = late.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(error.to_string().contains("the account was being read"), "{error}");
    assert_eq!(Clock::now() - started, allowed);
}
