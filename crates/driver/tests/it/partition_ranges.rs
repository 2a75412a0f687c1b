//! Containers that are split, merged and recreated under an application that does not notice. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::{CosmosOperation, ErrorKind, OperationOptions, OperationTarget};
use sidereal_emulator::{AccountOptions, FaultCondition, FaultEffect, FaultRule, HeaderCondition};
use sidereal_protocol::{
    CosmosStatus, OperationType, RegionName, RequestPath, ResourceLink, ResourceType,
};

use crate::three_regions::{
    ThreeRegions, create, order, orders, read, read_of, regions, upsert, upsert_of,
};

async fn ranges(stack: &ThreeRegions) -> Vec<String> {
    let container = stack.driver.container(&orders()).await.unwrap();
    container.ranges().ranges().iter().map(|it| it.id().to_string()).collect()
}

fn range_reads(stack: &ThreeRegions) -> u64 {
    stack.seen(|row| row.resource == Some(ResourceType::PartitionKeyRange))
}

fn list_range(range: &str) -> CosmosOperation {
    let path = RequestPath::feed(orders(), ResourceType::Document).unwrap();
    CosmosOperation::new(OperationType::ReadFeed, path)
        .with_target(OperationTarget::PartitionRange(range.parse().unwrap()))
}

#[tokio::test(start_paused = true)]
async fn the_range_of_a_key_is_known_from_the_second_operation_on() {
    let stack = ThreeRegions::preferring("UK South").await;
    let range = |found: &Result<sidereal_driver::CosmosResponse, sidereal_driver::Error>| {
        let attempt = found.as_ref().unwrap().diagnostics().attempts()[0].clone();
        (attempt.partition_range.map(|it| it.to_string()), attempt.session.lsn.is_some())
    };
    let first = stack.execute(&read("1")).await;
    assert_eq!(range(&first), (Some("0".to_owned()), true), "the response tells it");
    tokio::time::sleep(Duration::from_secs(1)).await;
    // A request that is lost has it all the same.
    stack.set_online("UK South", false);
    let found = stack.execute(&read("1")).await;
    assert_eq!(range(&found).0.as_deref(), Some("0"));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_operations_at_once_read_a_container_once() {
    let stack = ThreeRegions::preferring("UK South").await;
    let reads = vec![read("1"); 100];
    stack.execute_all(&reads).await.into_iter().for_each(|found| drop(found.unwrap()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    stack.execute_all(&reads).await.into_iter().for_each(|found| drop(found.unwrap()));
    let containers = stack.seen(|row| row.resource == Some(ResourceType::DocumentCollection));
    // The list of ranges, and the request that says nothing has changed since.
    assert_eq!((containers, range_reads(&stack)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_split_under_load_fails_nothing_and_is_noticed_once() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    let customers: Vec<String> = (0..40).map(|number| format!("customer {number}")).collect();
    let writes: Vec<_> = customers.iter().map(|customer| upsert_of(customer, "1")).collect();
    stack.execute_all(&writes).await.into_iter().for_each(|found| drop(found.unwrap()));
    let before = range_reads(&stack);
    let emulated = stack.account.account();
    let takes = Duration::from_secs(2);
    let children = emulated.split_range("store", "orders", "1", takes).unwrap();
    for _ in 0..50 {
        let reads: Vec<_> = customers.iter().map(|customer| read_of(customer, "1")).collect();
        stack.execute_all(&reads).await.into_iter().for_each(|found| drop(found.unwrap()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut expected = vec!["0".to_owned(), "2".to_owned(), "3".to_owned()];
    expected.extend(children);
    let mut known = ranges(&stack).await;
    known.sort();
    assert_eq!(known, expected);
    let reads = range_reads(&stack) - before;
    assert!((2..=60).contains(&reads), "{reads} reads of the ranges for 2,000 operations");
}

#[tokio::test(start_paused = true)]
async fn a_read_after_a_split_finds_what_was_written_before_it() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "East US").await;
    let east = RegionName::from("East US");
    let emulated = stack.account.account();
    emulated.pause_replication(&east, true).unwrap();
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "2")).await.unwrap();
    let children = emulated.split_range("store", "orders", "1", Duration::ZERO).unwrap();
    stack.driver.refresh_container(&orders()).await.unwrap();
    assert!(ranges(&stack).await.contains(&children[0]));
    // East has the split and not the write: the token of the parent tells it so.
    let found = stack.execute(&read_of(&customer, "2")).await;
    assert_eq!(regions(&found), ["East US", "West US"]);
    found.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_merge_is_followed_and_what_was_written_to_either_half_is_found() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "East US").await;
    let customers = [stack.customer_in("1").await, stack.customer_in("2").await];
    let east = RegionName::from("East US");
    let emulated = stack.account.account();
    emulated.pause_replication(&east, true).unwrap();
    for customer in &customers {
        stack.execute(&upsert_of(customer, "2")).await.unwrap();
    }
    let merged = emulated.merge_ranges("store", "orders", "1", "2", Duration::ZERO).unwrap();
    stack.driver.refresh_container(&orders()).await.unwrap();
    assert!(ranges(&stack).await.contains(&merged));
    for customer in &customers {
        let found = stack.execute(&read_of(customer, "2")).await;
        assert!(found.is_ok(), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_on_a_range_that_was_split_is_told_so_at_once() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    stack.execute(&list_range("1")).await.unwrap();
    let emulated = stack.account.account();
    emulated.split_range("store", "orders", "1", Duration::ZERO).unwrap();
    let error = stack.execute(&list_range("1")).await.unwrap_err();
    assert_eq!(error.status(), Some(CosmosStatus::PARTITION_KEY_RANGE_GONE));
    let diagnostics = error.diagnostics().unwrap();
    assert_eq!(diagnostics.attempts().len(), 1);
    let reason = diagnostics.attempts()[0].decision.unwrap().reason();
    assert!(reason.contains("ask the ranges that took its place"), "{reason}");
    for range in ranges(&stack).await {
        stack.execute(&list_range(&range)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_on_a_range_waits_for_its_split_to_complete() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    let emulated = stack.account.account();
    emulated.split_range("store", "orders", "1", Duration::from_secs(2)).unwrap();
    let error = stack.execute(&list_range("1")).await.unwrap_err();
    assert_eq!(error.status().map(CosmosStatus::code), Some(410));
    let attempts = error.diagnostics().unwrap().attempts().len();
    assert!(attempts <= 9, "{attempts} attempts");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_container_starts_a_new_session() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    let old = stack.driver.container(&orders()).await.unwrap().rid().to_owned();
    for number in 0..30 {
        stack.execute(&upsert(&number.to_string())).await.unwrap();
    }
    let delete = CosmosOperation::new(OperationType::Delete, RequestPath::of(orders()));
    stack.execute(&delete).await.unwrap();
    let again = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let store = ResourceLink::database("store").unwrap();
    create(&stack.driver, store, ResourceType::DocumentCollection, again).await;
    let missing = stack.execute(&read("1")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing:?}");
    let item = CosmosOperation::create_item(&orders(), "contoso".into(), order("1")).unwrap();
    stack.execute(&item).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stack.execute(&read("1")).await.unwrap();
    assert_ne!(stack.driver.container(&orders()).await.unwrap().rid(), old);
}

/// Writes to a container that another process had recreated went into it with what was known of the old one, and
/// nobody noticed.
#[tokio::test(start_paused = true)]
async fn a_write_to_a_container_that_was_recreated_elsewhere_is_tried_again() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    let old = stack.driver.container(&orders()).await.unwrap().rid().to_owned();
    let elsewhere = stack.account.driver();
    let delete = CosmosOperation::new(OperationType::Delete, RequestPath::of(orders()));
    elsewhere.execute_operation(&delete, &Default::default()).await.unwrap();
    let again = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let store = ResourceLink::database("store").unwrap();
    create(&elsewhere, store, ResourceType::DocumentCollection, again).await;
    let response = stack.execute(&upsert("1")).await.unwrap();
    let statuses: Vec<_> =
        response.diagnostics().attempts().iter().filter_map(|it| it.status).collect();
    assert_eq!(statuses[0], CosmosStatus::COLLECTION_RID_MISMATCH, "{}", response.diagnostics());
    assert_eq!(statuses.len(), 2);
    assert_ne!(stack.driver.container(&orders()).await.unwrap().rid(), old);
    let second = stack.execute(&upsert("2")).await.unwrap();
    assert_eq!(second.diagnostics().attempts().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_container_only_costs_the_known_range() {
    let stack = ThreeRegions::preferring("UK South").await;
    let missing = ResourceLink::container("store", "missing").unwrap();
    let read = CosmosOperation::read_item(&missing, "contoso".into(), "1").unwrap();
    for _ in 0..20 {
        let error = stack.execute(&read).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
    let error = stack.driver.container(&missing).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let reads = stack.seen(|row| row.resource == Some(ResourceType::DocumentCollection));
    assert_eq!(reads, 2, "one in the background, one that was asked for");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_shuts_down_leaves_nobody_waiting_for_a_container() {
    let stack = ThreeRegions::preferring("UK South").await;
    let runtime = stack.account.runtime();
    let driver = stack.account.driver_on(std::sync::Arc::clone(&runtime), Default::default());
    let _ = runtime.shutdown(Duration::from_secs(1)).await;
    let error = driver.container(&orders()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error:?}");
}

/// Every kind of write, its response lost after it was committed.
#[tokio::test(start_paused = true)]
async fn a_response_that_is_lost_after_the_commit_is_told_or_made_up_for() {
    let patch = |body: &'static str| {
        let body = Bytes::from_static(body.as_bytes());
        CosmosOperation::patch_item(&orders(), "contoso".into(), "1", body).unwrap()
    };
    let key = || "contoso".into();
    let cases: [(&str, CosmosOperation, Result<(), ErrorKind>); 7] = [
        (
            "create",
            CosmosOperation::create_item(&orders(), key(), order("9")).unwrap(),
            Err(ErrorKind::Conflict),
        ),
        ("upsert", upsert("9"), Ok(())),
        (
            "replace",
            CosmosOperation::replace_item(&orders(), key(), "1", order("1")).unwrap(),
            Ok(()),
        ),
        (
            "delete",
            CosmosOperation::delete_item(&orders(), key(), "1").unwrap(),
            Err(ErrorKind::NotFound),
        ),
        ("patch: set", patch(r#"{"operations":[{"op":"set","path":"/n","value":1}]}"#), Ok(())),
        (
            "patch: incr",
            patch(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#),
            Err(ErrorKind::Unavailable),
        ),
        ("batch", batch(), Err(ErrorKind::Unavailable)),
    ];
    for (name, operation, expected) in cases {
        let stack = ThreeRegions::preferring("West US").await;
        stack.account.account().add_fault(lost_once(operation.operation_type())).unwrap();
        let outcome = stack.execute(&operation).await;
        let seen = stack.seen(|row| row.resource == Some(ResourceType::Document));
        match expected {
            Ok(()) => drop(outcome.unwrap_or_else(|error| panic!("{name}: {error:?}"))),
            Err(kind) => {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), kind, "{name}");
                assert!(error.may_have_been_applied(), "{name}");
            }
        }
        let is_repeated = expected != Err(ErrorKind::Unavailable);
        assert_eq!(seen, if is_repeated { 2 } else { 1 }, "{name}");
    }
}

fn batch() -> CosmosOperation {
    let path = RequestPath::feed(orders(), ResourceType::Document).unwrap();
    let body = r#"[{"operationType":"Create","resourceBody":{"id":"9","customer":"contoso"}}]"#;
    CosmosOperation::new(OperationType::Batch, path)
        .with_partition_key("contoso".into())
        .with_body(Bytes::from_static(body.as_bytes()))
}

fn lost_once(operation: OperationType) -> sidereal_emulator::FaultRule {
    use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation};
    let operation = match operation {
        OperationType::Create => Operation::Create,
        OperationType::Upsert => Operation::Upsert,
        OperationType::Replace => Operation::Replace,
        OperationType::Delete => Operation::Delete,
        OperationType::Patch => Operation::Patch,
        _ => Operation::Batch,
    };
    let condition = FaultCondition {
        operation: Some(operation),
        resource: Some(ResourceType::Document),
        ..FaultCondition::default()
    };
    FaultRule { condition, hit_limit: Some(1), ..FaultRule::new(FaultEffect::ResetAfter) }
}

/// The options of one call reach the account.
#[tokio::test(start_paused = true)]
async fn the_ranges_are_read_with_default_options_whatever_the_call_asks_for() {
    let stack = ThreeRegions::preferring("UK South").await;
    let request =
        sidereal_driver::options::RequestOptions::default().with_excluded_regions(["UK South"]);
    let options = OperationOptions::default().with_request(request);
    let found = stack.driver.execute_operation(&read("1"), &options).await;
    assert_eq!(regions(&found), ["West US"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let uk = RegionName::from("UK South");
    let seen =
        stack.seen(|row| row.region == uk && row.resource == Some(ResourceType::PartitionKeyRange));
    assert_eq!(seen, 2);
}

/// Makes a region answer that nothing has changed since a list of ranges, also one that another region made.
fn answers_nothing_new(stack: &ThreeRegions, region: &str) {
    let header = HeaderCondition { name: "if-none-match".to_owned(), value: None };
    let condition = FaultCondition {
        region: Some(region.into()),
        resource: Some(ResourceType::PartitionKeyRange),
        header: Some(header),
        ..FaultCondition::default()
    };
    let effect = FaultEffect::Answer { status: 304, sub_status: 0, retry_after: None };
    let rule = FaultRule { condition, ..FaultRule::new(effect) };
    stack.account.account().add_fault(rule).unwrap();
}

/// The etag of one region's list was sent to another one, which numbers otherwise: the split stayed unseen for ever.
#[tokio::test(start_paused = true)]
async fn ranges_are_listed_from_the_start_in_another_region() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    for region in ["West US", "East US"] {
        answers_nothing_new(&stack, region);
    }
    stack.account.account().split_range("store", "orders", "1", Duration::ZERO).unwrap();
    stack.set_online("UK South", false);
    let gone = stack.execute(&list_range("1")).await.unwrap_err();
    assert_eq!(gone.response().unwrap().status(), CosmosStatus::PARTITION_KEY_RANGE_GONE);
    assert_eq!(ranges(&stack).await.len(), 5);
}

/// A region that answers that nothing has changed, although it says that a range is gone, is not believed.
#[tokio::test(start_paused = true)]
async fn ranges_are_listed_in_full_if_no_change_explains_a_missing_one() {
    let stack = ThreeRegions::partitioned(AccountOptions::default(), "UK South").await;
    answers_nothing_new(&stack, "UK South");
    stack.account.account().split_range("store", "orders", "1", Duration::ZERO).unwrap();
    let reads = range_reads(&stack);
    stack.execute(&list_range("1")).await.unwrap_err();
    assert_eq!(ranges(&stack).await.len(), 5);
    // What had changed, all ranges, and that nothing follows them.
    assert!(range_reads(&stack) - reads <= 3, "{} reads", range_reads(&stack) - reads);
}

/// A policy with a value that this version does not know made every operation on the container fail.
#[tokio::test(start_paused = true)]
async fn a_container_with_a_policy_of_a_later_version_is_used() {
    let stack = ThreeRegions::preferring("UK South").await;
    let path = RequestPath::of(orders());
    let container = CosmosOperation::new(OperationType::Read, path);
    let found = stack.execute(&container).await.unwrap();
    let properties = std::str::from_utf8(found.body()).unwrap();
    let later = properties.replace("\"consistent\"", "\"adaptive\"");
    assert_ne!(later, properties, "{properties}");
    let rule = FaultRule {
        condition: FaultCondition {
            resource: Some(ResourceType::DocumentCollection),
            ..FaultCondition::default()
        },
        ..FaultRule::new(FaultEffect::WrongBody { body: Some(later) })
    };
    stack.account.account().add_fault(rule).unwrap();
    let driver = stack.account.driver();
    driver.execute_operation(&upsert("1"), &OperationOptions::default()).await.unwrap();
    let ranges = driver.container(&orders()).await.unwrap();
    assert_eq!(ranges.ranges().ranges().len(), 1);
}
