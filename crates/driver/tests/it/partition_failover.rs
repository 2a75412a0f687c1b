//! Partitions that fail, move and return, as the application and the account see it. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::CosmosClientOptions;
use sidereal_driver::{CosmosOperation, OperationOptions};
use sidereal_emulator::{
    AccountOptions, FaultCondition, FaultEffect, FaultRule, Operation, WriteRegionChange,
};
use sidereal_protocol::{RegionName, ResourceLink, ResourceType};
use sidereal_testing::in_process::InProcessAccount;

use crate::three_regions::{
    ThreeRegions, contexts, create, orders, read_of, regions, unavailable, upsert_of,
};

const SECOND: Duration = Duration::from_secs(1);

/// Four partitions of a single-write account; reads prefer UK South, where those of range 1 fail.
async fn with_a_sick_partition() -> (ThreeRegions, String) {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    stack.account.account().reset_counters();
    stack.inject_in_range("UK South", "1", Operation::Read, unavailable());
    (stack, customer)
}

/// Reads until the partition has moved.
async fn trip(stack: &ThreeRegions, customer: &str) {
    for _ in 0..3 {
        let found = stack.execute(&read_of(customer, "1")).await;
        assert_eq!(regions(&found), ["UK South", "West US"]);
        found.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_keeps_failing_moves_and_nothing_else_does() {
    let (stack, sick) = with_a_sick_partition().await;
    trip(&stack, &sick).await;
    for _ in 0..10 {
        assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["West US"]);
    }
    assert_eq!(stack.seen_in_range("UK South", "1"), 3, "more than two failures");
    for range in ["0", "2", "3"] {
        let healthy = stack.customer_in(range).await;
        stack.execute(&upsert_of(&healthy, "1")).await.unwrap();
        assert_eq!(regions(&stack.execute(&read_of(&healthy, "1")).await), ["UK South"]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_probes_a_recovered_region_before_the_others_return() {
    let (stack, sick) = with_a_sick_partition().await;
    trip(&stack, &sick).await;
    let twenty = vec![read_of(&sick, "1"); 20];
    tokio::time::sleep(4 * SECOND).await;
    stack.execute_all(&twenty).await.into_iter().for_each(|found| drop(found.unwrap()));
    assert_eq!(stack.seen_in_range("UK South", "1"), 3, "too early to ask");
    for probes in 1..=3 {
        tokio::time::sleep(5 * SECOND).await;
        let found = stack.execute_all(&twenty).await;
        let probing: Vec<_> =
            found.iter().filter(|it| contexts(it)[0] == "circuit_breaker_probe").collect();
        assert_eq!(probing.len(), 1);
        assert_eq!(regions(probing[0]), ["UK South", "West US"]);
        assert!(found.iter().all(Result::is_ok), "the probe's own caller notices nothing");
        assert_eq!(stack.seen_in_range("UK South", "1"), 3 + probes);
    }
    stack.account.account().clear_faults();
    tokio::time::sleep(5 * SECOND).await;
    let found = stack.execute_all(&twenty).await;
    let in_uk = found.iter().filter(|it| regions(it) == ["UK South"]).count();
    assert_eq!(in_uk, 1, "the others wait for its verdict");
    let found = stack.execute_all(&twenty).await;
    assert!(found.iter().all(|it| regions(it) == ["UK South"]));
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_repeated_is_never_the_probe() {
    let account = AccountOptions { multi_write: true, ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "UK South").await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    stack.inject_in_range("UK South", "1", Operation::Patch, unavailable());
    let increment = Bytes::from_static(br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    let key = || customer.as_str().into();
    let increment = CosmosOperation::patch_item(&orders(), key(), "1", increment).unwrap();
    for _ in 0..6 {
        stack.execute(&increment).await.unwrap();
    }
    assert_eq!(regions(&stack.execute(&increment).await), ["West US"]);
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(regions(&stack.execute(&increment).await), ["West US"]);
    let set = Bytes::from_static(br#"{"operations":[{"op":"set","path":"/m","value":1}]}"#);
    let set = CosmosOperation::patch_item(&orders(), key(), "1", set).unwrap();
    let probed = stack.execute(&set).await;
    assert_eq!(contexts(&probed), ["circuit_breaker_probe", "region_failover"]);
}

#[tokio::test(start_paused = true)]
async fn writes_follow_a_partition_that_the_service_moves_and_return_with_it() {
    let account = AccountOptions { partition_failover: true, ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "West US").await;
    let (moved, other) = (stack.customer_in("1").await, stack.customer_in("2").await);
    for customer in [&moved, &other] {
        assert_eq!(regions(&stack.execute(&upsert_of(customer, "1")).await), ["West US"]);
    }
    let east = RegionName::from("East US");
    let emulated = stack.account.account();
    emulated.move_partition("store", "orders", "1", Some(&east)).unwrap();
    let first = stack.execute(&upsert_of(&moved, "1")).await;
    assert_eq!(regions(&first), ["West US", "East US"]);
    first.unwrap();
    assert_eq!(regions(&stack.execute(&upsert_of(&moved, "1")).await), ["East US"]);
    assert_eq!(regions(&stack.execute(&upsert_of(&other, "1")).await), ["West US"]);
    assert_eq!(regions(&stack.execute(&read_of(&moved, "1")).await), ["West US"], "reads stay");
    emulated.move_partition("store", "orders", "1", None).unwrap();
    let back = stack.execute(&upsert_of(&moved, "1")).await;
    back.unwrap();
    tokio::time::sleep(6 * SECOND).await;
    stack.execute(&upsert_of(&moved, "1")).await.unwrap();
    assert_eq!(regions(&stack.execute(&upsert_of(&moved, "1")).await), ["West US"]);
}

/// Every write of a partition that the service had moved tried to connect to the lost write region first.
#[tokio::test(start_paused = true)]
async fn writes_of_a_moved_partition_do_not_try_the_lost_write_region_again() {
    let account = AccountOptions { partition_failover: true, ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "West US").await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    let emulated = stack.account.account();
    emulated.set_online(&"West US".into(), false).unwrap();
    let east = RegionName::from("East US");
    emulated.move_partition("store", "orders", "1", Some(&east)).unwrap();
    let first = stack.execute(&upsert_of(&customer, "1")).await;
    assert_eq!(regions(&first).last().map(String::as_str), Some("East US"));
    first.unwrap();
    for _ in 0..5 {
        let written = stack.execute(&upsert_of(&customer, "1")).await;
        assert_eq!(regions(&written), ["East US"]);
        written.unwrap();
    }
}

/// A write that every region had refused waited and was sent to the last of them again and again, although writes had
/// been handed over to another one meanwhile.
#[tokio::test(start_paused = true)]
async fn a_write_that_every_region_refused_goes_around_again_once_it_has_waited() {
    for successor in ["East US", "UK South"] {
        let mut options = CosmosClientOptions::default();
        options.availability.max_failover_retry_count = Some(8);
        let account = AccountOptions {
            partition_failover: true,
            partitions: Some(4),
            ..AccountOptions::default()
        };
        let stack = ThreeRegions::with(account, options).await;
        let customer = stack.customer_in("1").await;
        stack.execute(&upsert_of(&customer, "1")).await.unwrap();
        let emulated = stack.account.account();
        emulated.set_online(&"West US".into(), false).unwrap();
        let hand_over = async {
            tokio::time::sleep(SECOND / 4).await;
            let change = WriteRegionChange::Graceful {
                announcement: Duration::ZERO,
                overlap: Duration::ZERO,
            };
            emulated.change_write_region(&successor.into(), change).unwrap();
        };
        // The second is held back while the first one finds out where writes are accepted.
        let writes = [upsert_of(&customer, "1"), upsert_of(&customer, "2")];
        let second = async {
            tokio::time::sleep(SECOND / 5).await;
            stack.execute(&writes[1]).await
        };
        let (first, second, ()) = tokio::join!(stack.execute(&writes[0]), second, hand_over);
        let [probing, mut held_back] = [&first, &second].map(|written| {
            let mut tried = regions(written);
            tried.dedup();
            tried
        });
        let mut each = probing[..3].to_vec();
        each.sort();
        assert_eq!(each, ["East US", "UK South", "West US"], "each before any of them twice");
        assert_eq!([&probing, &held_back].map(|it| it.last().unwrap().as_str()), [successor; 2]);
        let requests = held_back.len();
        held_back.sort();
        held_back.dedup();
        assert_eq!(held_back.len(), requests, "no region twice");
        for written in [first, second] {
            let written = written.unwrap();
            assert!(written.diagnostics().elapsed() < 2 * SECOND, "{}", written.diagnostics());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_moves_on_when_the_next_region_fails_too() {
    let (stack, sick) = with_a_sick_partition().await;
    trip(&stack, &sick).await;
    stack.inject_in_range("West US", "1", Operation::Read, unavailable());
    let on = stack.execute(&read_of(&sick, "1")).await;
    assert_eq!(regions(&on), ["West US", "East US"]);
    on.unwrap();
    assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["East US"]);
}

#[tokio::test(start_paused = true)]
async fn a_region_is_left_before_all_of_its_partitions_have_failed() {
    let account = AccountOptions { partitions: Some(8), ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "UK South").await;
    let mut customers = Vec::new();
    for range in 0..8 {
        customers.push(stack.customer_in(&range.to_string()).await);
    }
    for customer in &customers {
        stack.execute(&upsert_of(customer, "1")).await.unwrap();
        stack.execute(&read_of(customer, "1")).await.unwrap();
    }
    stack.account.account().reset_counters();
    stack.inject("UK South", Operation::Read, unavailable(), None);
    for (range, customer) in customers.iter().enumerate() {
        let found = stack.execute(&read_of(customer, "1")).await;
        // Half of the eight that were asked there.
        let expected: &[&str] = if range < 4 { &["UK South", "West US"] } else { &["West US"] };
        assert_eq!(regions(&found), expected, "range {range}");
    }
    assert_eq!(stack.items_seen_in("UK South"), 4);
}

/// A gateway answers for the account by itself: each minute operations went back to a region half of whose partitions failed.
#[tokio::test(start_paused = true)]
async fn a_region_is_not_used_again_while_the_partitions_that_failed_there_do() {
    let account = AccountOptions { partitions: Some(8), ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "UK South").await;
    let mut customers = Vec::new();
    for range in 0..8 {
        customers.push(stack.customer_in(&range.to_string()).await);
    }
    for customer in &customers {
        stack.execute(&upsert_of(customer, "1")).await.unwrap();
        stack.execute(&read_of(customer, "1")).await.unwrap();
    }
    for range in ["0", "1", "2", "3"] {
        for operation in [Operation::Read, Operation::ChangeFeed] {
            stack.inject_in_range("UK South", range, operation, unavailable());
        }
    }
    for customer in &customers[..4] {
        stack.execute(&read_of(customer, "1")).await.unwrap();
    }
    let healthy = read_of(&customers[7], "1");
    for _ in 0..3 {
        assert_eq!(regions(&stack.execute(&healthy).await), ["West US"]);
        // The read after the window asks for a probe.
        tokio::time::sleep(61 * SECOND).await;
        assert_eq!(regions(&stack.execute(&healthy).await), ["West US"]);
        tokio::time::sleep(SECOND).await;
    }
    assert!(stack.seen_in_range("UK South", "3") > 1, "the probes asked it");
    stack.account.account().clear_faults();
    tokio::time::sleep(61 * SECOND).await;
    assert_eq!(regions(&stack.execute(&healthy).await), ["West US"]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(regions(&stack.execute(&healthy).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn two_containers_have_their_own_range_0() {
    let stack = ThreeRegions::preferring("UK South").await;
    let carts = r#"{"id":"carts","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let store = ResourceLink::database("store").unwrap();
    create(&stack.driver, store, ResourceType::DocumentCollection, carts).await;
    let carts = ResourceLink::container("store", "carts").unwrap();
    let item = Bytes::from_static(br#"{"id":"1","customer":"contoso"}"#);
    let cart = CosmosOperation::upsert_item(&carts, "contoso".into(), item).unwrap();
    stack.execute(&cart).await.unwrap();
    stack.driver.container(&orders()).await.unwrap();
    let condition = FaultCondition {
        container: Some("store/orders".to_owned()),
        region: Some(RegionName::from("UK South")),
        resource: Some(ResourceType::Document),
        ..FaultCondition::default()
    };
    let rule = FaultRule { condition, ..FaultRule::new(unavailable()) };
    stack.account.account().add_fault(rule).unwrap();
    for _ in 0..4 {
        stack.execute(&read_of("contoso", "1")).await.unwrap();
    }
    assert_eq!(regions(&stack.execute(&read_of("contoso", "1")).await), ["West US"]);
    let read = CosmosOperation::read_item(&carts, "contoso".into(), "1").unwrap();
    assert_eq!(regions(&stack.execute(&read).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_split_is_not_remembered_as_failing() {
    let (stack, sick) = with_a_sick_partition().await;
    trip(&stack, &sick).await;
    assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["West US"]);
    let emulated = stack.account.account();
    emulated.split_range("store", "orders", "1", Duration::ZERO).unwrap();
    // The response comes from a range that is not known, so the ranges are read again.
    stack.execute(&read_of(&sick, "1")).await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn settings_turn_partition_level_failover_off() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.retry.disable_partition_level_failover = Some(true);
    let account = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let (sick, healthy) = (stack.customer_in("1").await, stack.customer_in("2").await);
    stack.inject_in_range("UK South", "1", Operation::Read, unavailable());
    for customer in [&sick, &healthy] {
        stack.execute(&upsert_of(customer, "1")).await.unwrap();
    }
    stack.execute(&read_of(&sick, "1")).await.unwrap();
    // Nothing smaller than the endpoint can be blamed.
    assert_eq!(regions(&stack.execute(&read_of(&healthy, "1")).await), ["West US"]);
}

/// A driver with settings of its own, and a partition whose reads fail in its preferred region.
async fn attempts_in_uk(options: CosmosClientOptions, reads: usize, apart: Duration) -> u64 {
    let mut options = options;
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    let account = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let sick = stack.customer_in("1").await;
    stack.execute(&upsert_of(&sick, "1")).await.unwrap();
    stack.account.account().reset_counters();
    stack.inject_in_range("UK South", "1", Operation::Read, unavailable());
    for _ in 0..reads {
        stack.execute(&read_of(&sick, "1")).await.unwrap();
        tokio::time::sleep(apart).await;
    }
    stack.seen_in_range("UK South", "1")
}

#[tokio::test(start_paused = true)]
async fn the_threshold_the_window_and_the_wait_are_those_of_the_settings() {
    let mut options = CosmosClientOptions::default();
    assert_eq!(attempts_in_uk(options.clone(), 10, Duration::ZERO).await, 3);
    options.partition_failover.read_failure_threshold = Some(6);
    assert_eq!(attempts_in_uk(options.clone(), 10, Duration::ZERO).await, 7);
    // Failures that are further apart than the window never add up.
    options.partition_failover.read_failure_threshold = Some(1);
    options.partition_failover.counter_reset_window = Some(SECOND);
    assert_eq!(attempts_in_uk(options.clone(), 10, 2 * SECOND).await, 10);
    // A second after each failure it is asked again.
    let mut options = CosmosClientOptions::default();
    options.partition_failover.partition_unavailability_duration = Some(SECOND);
    assert_eq!(attempts_in_uk(options, 10, 2 * SECOND).await, 10);
}

#[tokio::test(start_paused = true)]
async fn the_account_turns_failover_on_while_the_driver_runs() {
    let account = InProcessAccount::new(
        AccountOptions {
            regions: crate::three_regions::REGIONS.map(RegionName::from).to_vec(),
            partition_failover: true,
            ..AccountOptions::default()
        },
        3,
        sidereal_testing::in_process::NetworkFaults::NONE,
    );
    let driver = account.driver();
    let store = r#"{"id":"store"}"#;
    create(&driver, ResourceLink::ACCOUNT, ResourceType::Database, store).await;
    let orders_text = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let store = ResourceLink::database("store").unwrap();
    create(&driver, store, ResourceType::DocumentCollection, orders_text).await;
    let options = OperationOptions::default();
    // The first response tells the range; the container is not resolved yet.
    let east = RegionName::from("East US");
    account.account().move_partition("store", "orders", "0", Some(&east)).unwrap();
    let written = driver.execute_operation(&upsert_of("contoso", "1"), &options).await;
    assert_eq!(regions(&written), ["West US", "East US"]);
    written.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_probe_without_an_answer_is_repeated_after_its_lease() {
    let (stack, sick) = with_a_sick_partition().await;
    trip(&stack, &sick).await;
    stack.account.account().clear_faults();
    stack.inject_in_range("UK South", "1", Operation::Read, FaultEffect::Hang);
    tokio::time::sleep(5 * SECOND).await;
    // It is hedged to where the partition is served, so its caller waits for the threshold alone.
    let probe = stack.execute(&read_of(&sick, "1")).await;
    assert_eq!(contexts(&probe), ["circuit_breaker_probe", "hedging"]);
    assert!(probe.unwrap().diagnostics().elapsed() < 2 * SECOND);
    let seen = stack.seen_in_range("UK South", "1");
    for _ in 0..5 {
        assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["West US"]);
    }
    assert_eq!(stack.seen_in_range("UK South", "1"), seen);
    stack.account.account().clear_faults();
    tokio::time::sleep(6 * SECOND).await;
    assert_eq!(regions(&stack.execute(&read_of(&sick, "1")).await), ["UK South"]);
}

/// One request that timed out moved every partition of its region for a minute.
#[tokio::test(start_paused = true)]
async fn a_timeout_beside_answered_requests_blames_the_partition() {
    let account =
        AccountOptions { multi_write: true, partitions: Some(4), ..AccountOptions::default() };
    let stack = std::sync::Arc::new(ThreeRegions::partitioned(account, "UK South").await);
    let (sick, other) = (stack.customer_in("1").await, stack.customer_in("2").await);
    stack.inject_in_range("UK South", "1", Operation::Upsert, FaultEffect::Hang);
    let hung = {
        let (stack, write) = (std::sync::Arc::clone(&stack), upsert_of(&sick, "1"));
        tokio::spawn(async move { stack.execute(&write).await })
    };
    for _ in 0..300 {
        let written = stack.execute(&upsert_of(&other, "1")).await;
        assert_eq!(regions(&written), ["UK South"]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let written = hung.await.unwrap();
    assert_eq!(regions(&written).last().map(String::as_str), Some("West US"));
    written.unwrap();
}

/// A partition that only got increments never returned to its region: none of them may be the probe of others.
#[tokio::test(start_paused = true)]
async fn a_partition_that_gets_only_unrepeatable_writes_is_probed_too() {
    let account =
        AccountOptions { multi_write: true, partitions: Some(4), ..AccountOptions::default() };
    let stack = ThreeRegions::partitioned(account, "UK South").await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    let fault = stack.inject_in_range("UK South", "1", Operation::Patch, unavailable());
    let increment = || {
        let patch = br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#;
        let patch = bytes::Bytes::from_static(patch);
        CosmosOperation::patch_item(&orders(), customer.as_str().into(), "1", patch).unwrap()
    };
    while regions(&stack.execute(&increment()).await) != ["West US"] {}
    stack.account.account().remove_fault(&fault);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(regions(&stack.execute(&increment()).await), ["West US"], "others come first");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(regions(&stack.execute(&increment()).await), ["UK South"]);
    assert_eq!(regions(&stack.execute(&increment()).await), ["UK South"]);
}
