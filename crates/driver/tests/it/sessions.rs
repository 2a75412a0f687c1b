//! An application reads its own writes, in whichever region it reads them. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{CosmosClientOptions, RequestOptions, SessionRetryOptions};
use sidereal_driver::{CosmosOperation, ErrorKind, OperationOptions};
use sidereal_emulator::{
    AccountOptions, FaultCondition, FaultEffect, FaultRule, HeaderCondition, Operation,
    WriteRegionChange,
};
use sidereal_protocol::{
    ConsistencyLevel, OperationType, ReadConsistencyStrategy, RegionName, RequestPath,
    ResourceLink, ResourceType, SessionToken,
};

use crate::three_regions::{
    REGIONS, ThreeRegions, create, orders, read, read_of, regions, unavailable, upsert, upsert_of,
};

/// Reads prefer a region to which replication is paused.
async fn behind() -> ThreeRegions {
    let stack = ThreeRegions::preferring("East US").await;
    pause(&stack, true);
    stack
}

fn pause(stack: &ThreeRegions, is_paused: bool) {
    let east = RegionName::from("East US");
    stack.account.account().pause_replication(&east, is_paused).unwrap();
}

fn within_request(request: RequestOptions) -> OperationOptions<'static> {
    OperationOptions::default().with_request(request)
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_write_finds_it_although_its_region_is_behind() {
    let stack = behind().await;
    stack.execute(&upsert("2")).await.unwrap();
    let found = stack.execute(&read("2")).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    found.unwrap();
    // A lagging region is not a failing one: nothing is marked.
    pause(&stack, false);
    assert_eq!(regions(&stack.execute(&read("2")).await), ["East US"]);
}

#[tokio::test(start_paused = true)]
async fn another_driver_has_a_session_of_its_own_and_can_be_given_a_token() {
    let stack = behind().await;
    let written = stack.execute(&upsert("2")).await.unwrap();
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("East US")]);
    let other = stack.account.driver_on(stack.account.runtime(), options);
    let missing = other.execute_operation(&read("2"), &Default::default()).await;
    assert_eq!(regions(&missing), ["East US"]);
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);

    let token: SessionToken = written.headers().session_token().unwrap();
    let in_session = read("2").with_session_token(token);
    other.execute_operation(&in_session, &Default::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_weaker_consistency_reads_whatever_its_region_has() {
    let stack = behind().await;
    stack.execute(&upsert("2")).await.unwrap();
    let eventual = RequestOptions::default().with_consistency_level(ConsistencyLevel::Eventual);
    let any =
        RequestOptions::default().with_read_consistency_strategy(ReadConsistencyStrategy::Eventual);
    for weak in [eventual, any] {
        let missing = stack.driver.execute_operation(&read("2"), &within_request(weak)).await;
        assert_eq!(regions(&missing), ["East US"]);
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_advances_the_session_too() {
    let stack = behind().await;
    stack.execute(&upsert("2")).await.unwrap();
    // A driver that has only been refused by the write region has seen what it holds.
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("East US")]);
    let other = stack.account.driver_on(stack.account.runtime(), options);
    let body = Bytes::from_static(br#"{"id":"2","customer":"contoso"}"#);
    let create = CosmosOperation::create_item(&orders(), "contoso".into(), body).unwrap();
    let refused = other.execute_operation(&create, &Default::default()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
    let found = other.execute_operation(&read("2"), &Default::default()).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    found.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_through_a_split() {
    let stack = behind().await;
    stack.execute(&upsert("2")).await.unwrap();
    let takes = Duration::ZERO;
    stack.account.account().split_range("store", "orders", "0", takes).unwrap();
    let found = stack.execute(&read("2")).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    stack.execute(&upsert("3")).await.unwrap();
    stack.execute(&read("3")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_container_that_is_recreated_begins_a_new_session() {
    let stack = ThreeRegions::preferring("West US").await;
    for id in 0..20 {
        stack.execute(&upsert(&id.to_string())).await.unwrap();
    }
    let delete = CosmosOperation::new(OperationType::Delete, RequestPath::of(orders()));
    stack.execute(&delete).await.unwrap();
    let definition = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let store = ResourceLink::database("store").unwrap();
    create(&stack.driver, store, ResourceType::DocumentCollection, definition).await;
    stack.execute(&upsert("a")).await.unwrap();
    let found = stack.execute(&read("a")).await;
    assert_eq!(regions(&found), ["West US"], "the old container's progress is not asked for");
    found.unwrap();
}

/// A multi-write account whose regions are a moment behind each other; reads and writes prefer different ones.
async fn a_moment_behind(session: SessionRetryOptions) -> ThreeRegions {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("West US")]);
    options.retry.session_retry = Some(session);
    let stack = ThreeRegions::new(true, options).await;
    let east = RegionName::from("East US");
    let delay = Duration::from_millis(300);
    stack.account.account().set_replication_delay(&east, delay).unwrap();
    stack
}

/// Writes in the West and reads in the East at once.
async fn read_elsewhere_at_once(stack: &ThreeRegions) -> Vec<String> {
    stack.execute(&upsert("2")).await.unwrap();
    let in_east = RequestOptions::default().with_excluded_regions(["West US", "UK South"]);
    let options = within_request(in_east);
    let found = stack.driver.execute_operation(&read("2"), &options).await;
    let visited = regions(&found);
    found.unwrap();
    visited
}

#[tokio::test(start_paused = true)]
async fn a_region_of_a_multi_write_account_gets_time_to_catch_up() {
    let stack = a_moment_behind(SessionRetryOptions::default()).await;
    assert_eq!(read_elsewhere_at_once(&stack).await, ["East US", "East US"]);
}

#[tokio::test(start_paused = true)]
async fn the_settings_say_how_often_and_for_how_long_a_region_is_waited_for() {
    let session = SessionRetryOptions::default()
        .with_max_in_region_retry_count(4)
        .with_min_in_region_retry_time(Duration::from_millis(400));
    let stack = a_moment_behind(session).await;
    // Each time after 100 ms and a round trip of 10 ms: the session arrives before the third retry.
    assert_eq!(read_elsewhere_at_once(&stack).await, ["East US"; 4]);
}

#[tokio::test(start_paused = true)]
async fn another_region_is_asked_at_once_where_that_is_preferred() {
    let session = SessionRetryOptions::default().with_remote_region_preferred(true);
    let stack = a_moment_behind(session).await;
    stack.execute(&upsert("2")).await.unwrap();
    let not_west = RequestOptions::default().with_excluded_regions(["West US"]);
    let east_first = stack.driver.execute_operation(&read("2"), &within_request(not_west)).await;
    assert_eq!(regions(&east_first), ["East US", "UK South"]);
    east_first.unwrap();
}

/// Writes arrive in the other regions after an hour.
fn delay_replication(stack: &ThreeRegions) {
    for region in REGIONS {
        let hour = Duration::from_secs(3_600);
        stack.account.account().set_replication_delay(&region.into(), hour).unwrap();
    }
}

/// Moves the write region at once, without a write being lost.
fn hand_over(stack: &ThreeRegions, to: &str) {
    let (announcement, overlap) = (Duration::ZERO, Duration::ZERO);
    let change = WriteRegionChange::Graceful { announcement, overlap };
    stack.account.account().change_write_region(&to.into(), change).unwrap();
}

/// A read was refused by every region in turn: each attempt carried what other operations had written by then, and the
/// write region had moved to where the first attempt had been.
#[tokio::test(start_paused = true)]
async fn a_read_carries_the_session_as_of_its_start() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("West US")]);
    options.availability.hedging_enabled = Some(false);
    let stack = ThreeRegions::new(false, options).await;
    delay_replication(&stack);
    hand_over(&stack, "East US");
    stack.execute(&upsert("2")).await.unwrap();
    // Until the account may be read again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Refused at once, and told so late.
    let late = FaultEffect::DelayAfter { wait: Duration::from_secs(2) };
    stack.inject("West US", Operation::Read, late, Some(1));
    let order = read("2");
    let meanwhile = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        hand_over(&stack, "West US");
        let written = stack.execute(&upsert("3")).await;
        assert_eq!(regions(&written), ["East US", "West US"]);
        written.unwrap();
    };
    let (found, ()) = tokio::join!(stack.execute(&order), meanwhile);
    assert_eq!(regions(&found), ["West US", "East US"]);
    found.unwrap();
    // What was written meanwhile counts for the next one.
    assert_eq!(regions(&stack.execute(&read("3")).await), ["West US"]);
}

/// Four partitions, reads that prefer a region and are tried in one other.
async fn with_one_session_retry(
    partition_failover: bool,
    preferred: &str,
) -> (ThreeRegions, String) {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from(preferred)]);
    options.availability.max_session_retry_count = Some(1);
    let account =
        AccountOptions { partition_failover, partitions: Some(4), ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    (stack, customer)
}

/// The session was looked for in the account's write region, which the partition had left.
#[tokio::test(start_paused = true)]
async fn a_session_is_looked_for_where_the_writes_of_the_partition_have_moved() {
    let (stack, customer) = with_one_session_retry(true, "East US").await;
    delay_replication(&stack);
    let account = stack.account.account();
    account.move_partition("store", "orders", "1", Some(&"UK South".into())).unwrap();
    let written = stack.execute(&upsert_of(&customer, "2")).await;
    assert_eq!(regions(&written).last().map(String::as_str), Some("UK South"));
    let found = stack.execute(&read_of(&customer, "2")).await;
    assert_eq!(regions(&found), ["East US", "UK South"]);
    found.unwrap();
}

/// The session was looked for in every region but the one that has it, because the partition had failed there.
#[tokio::test(start_paused = true)]
async fn a_session_is_read_in_a_write_region_that_reads_have_left() {
    let (stack, customer) = with_one_session_retry(false, "West US").await;
    stack.inject_in_range("West US", "1", Operation::Read, unavailable());
    for _ in 0..3 {
        let found = stack.execute(&read_of(&customer, "1")).await;
        assert_eq!(regions(&found), ["West US", "East US"]);
    }
    stack.account.account().clear_faults();
    delay_replication(&stack);
    stack.execute(&upsert_of(&customer, "2")).await.unwrap();
    let found = stack.execute(&read_of(&customer, "2")).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    found.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stronger_level_is_refused_unless_upgraded_to_a_local_quorum() {
    let strong = RequestOptions::default().with_consistency_level(ConsistencyLevel::Strong);
    let strong = within_request(strong);
    let stack = ThreeRegions::preferring("East US").await;
    let refused = stack.driver.execute_operation(&read("1"), &strong).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidRequest);

    let mut options = CosmosClientOptions::default();
    options.account.enable_upgrade_consistency_to_local_quorum = Some(true);
    let upgrading = stack.account.driver_on(stack.account.runtime(), options);
    upgrading.execute_operation(&read("1"), &strong).await.unwrap();
}

/// Writes and reads what it wrote at once, many times. Says how many requests the reads took, and the 99th percentile of
/// the last half.
async fn write_and_read(stack: &ThreeRegions, rounds: usize) -> (usize, Duration) {
    let (mut requests, mut took) = (0, Vec::new());
    for round in 0..rounds {
        stack.execute(&upsert("2")).await.unwrap();
        let found = stack.execute(&read("2")).await;
        requests += regions(&found).len();
        if round >= rounds / 2 {
            took.push(found.unwrap().diagnostics().elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    took.sort();
    (requests, took[took.len() * 99 / 100])
}

/// Every read after a write was sent to a region that could not have it yet, and then to the write region.
#[tokio::test(start_paused = true)]
async fn reads_beside_a_region_that_is_slightly_behind_take_one_request() {
    for delay in [20, 1_000] {
        let stack = ThreeRegions::preferring("East US").await;
        let delay = Duration::from_millis(delay);
        stack.account.account().set_replication_delay(&"East US".into(), delay).unwrap();
        let (requests, p99) = write_and_read(&stack, 300).await;
        assert!(requests <= 315, "{delay:?}: {requests} requests");
        assert!(p99 <= Duration::from_millis(30), "{delay:?}: {p99:?}");
    }
}

/// With a slow write region, half a second for each of them, for good.
#[tokio::test(start_paused = true)]
async fn a_session_is_waited_for_instead_of_read_in_a_slow_write_region() {
    let stack = ThreeRegions::preferring("East US").await;
    stack.driver.container(&orders()).await.unwrap();
    let delay = Duration::from_millis(20);
    stack.account.account().set_replication_delay(&"East US".into(), delay).unwrap();
    let slow = FaultEffect::DelayBefore { wait: Duration::from_millis(500) };
    stack.inject("West US", Operation::Read, slow, None);
    let (requests, p99) = write_and_read(&stack, 1_000).await;
    assert!(requests <= 1_100, "{requests} requests");
    // A read that came too early, the least time before a hedge, and its round trip.
    assert!(p99 <= Duration::from_millis(100), "{p99:?}");
}

/// The write region of the account need not be the hub of the partition: it says so, and the read goes on.
#[tokio::test(start_paused = true)]
async fn a_session_is_read_from_the_hub_of_its_partition_alone() {
    let (stack, customer) = with_one_session_retry(true, "East US").await;
    let hub_only = |stack: &ThreeRegions| {
        let header = "x-ms-cosmos-hub-region-processing-only".to_owned();
        let condition = FaultCondition {
            header: Some(HeaderCondition { name: header, value: Some("True".to_owned()) }),
            ..FaultCondition::default()
        };
        let effect = FaultEffect::DelayBefore { wait: Duration::from_millis(20) };
        let rule = FaultRule { condition, ..FaultRule::new(effect) };
        stack.account.account().add_fault(rule).unwrap();
    };
    hub_only(&stack);
    delay_replication(&stack);
    stack.execute(&upsert_of(&customer, "2")).await.unwrap();
    let found = stack.execute(&read_of(&customer, "2")).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    let attempts = found.unwrap().diagnostics().attempts().to_vec();
    assert!(attempts[0].elapsed().unwrap() < Duration::from_millis(20));
    assert!(attempts[1].elapsed().unwrap() >= Duration::from_millis(20), "it asked for the hub");

    // Moved by the service, unknown to a driver that has not written since.
    stack
        .account
        .account()
        .move_partition("store", "orders", "1", Some(&"UK South".into()))
        .unwrap();
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec!["East US".into()]);
    let other = stack.account.driver_on(stack.account.runtime(), options);
    let written = stack.execute(&upsert_of(&customer, "3")).await.unwrap();
    let token: SessionToken = written.headers().session_token().unwrap();
    let read = read_of(&customer, "3").with_session_token(token);
    let found = other.execute_operation(&read, &Default::default()).await;
    assert_eq!(regions(&found), ["East US", "West US", "UK South"]);
    found.unwrap();
}

/// With the write region gone, reads of what had just been written failed, although it was on its way to the others.
#[tokio::test(start_paused = true)]
async fn a_session_is_waited_for_while_the_region_that_has_it_is_down() {
    let stack = ThreeRegions::preferring("East US").await;
    for region in ["East US", "UK South"] {
        let delay = Duration::from_secs(1);
        stack.account.account().set_replication_delay(&region.into(), delay).unwrap();
    }
    stack.execute(&upsert("2")).await.unwrap();
    stack.set_online("West US", false);
    let found = stack.execute(&read("2")).await.unwrap();
    assert!(found.diagnostics().elapsed() < Duration::from_secs(2));
    // Not for ever: nothing is on its way.
    for region in ["East US", "UK South"] {
        stack.account.account().pause_replication(&region.into(), true).unwrap();
    }
    stack.set_online("West US", true);
    stack.execute(&upsert("3")).await.unwrap();
    stack.set_online("West US", false);
    let missing = stack.execute(&read("3")).await.unwrap_err();
    let elapsed = missing.diagnostics().unwrap().elapsed();
    assert!(elapsed < Duration::from_secs(8), "{elapsed:?}");
}

/// Of a region's replicas one may be behind the others: the region that has the session is asked again, before regions that
/// cannot have it.
#[tokio::test(start_paused = true)]
async fn a_write_region_whose_replica_is_behind_is_asked_for_another_one() {
    for (preferred, expected) in [
        ("West US", vec!["West US", "West US"]),
        ("East US", vec!["East US", "West US", "West US"]),
    ] {
        let stack = ThreeRegions::preferring(preferred).await;
        delay_replication(&stack);
        stack.execute(&upsert("2")).await.unwrap();
        let behind = FaultEffect::Answer { status: 404, sub_status: 1002, retry_after: None };
        stack.inject("West US", Operation::Read, behind, Some(1));
        let found = stack.execute(&read("2")).await;
        assert_eq!(regions(&found), expected);
        found.unwrap();
    }
}
