//! Reading many items by id, on accounts in this process and a paused clock.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sidereal::models::{PartitionKeyValue, RegionName};
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults, RecordingFactory};

use crate::bulk::upserts;
use crate::query::Partitioned;

fn names(count: usize) -> Vec<(String, String)> {
    (0..count).map(|n| (format!("p{n}"), n.to_string())).collect()
}

async fn filled(store: Partitioned, count: usize) -> Partitioned {
    let report = store.items.bulk().execute(upserts(count)).await.unwrap();
    assert!(report.is_success());
    store
}

fn numbers(items: &[Option<Value>]) -> Vec<Option<u64>> {
    items.iter().map(|item| item.as_ref().and_then(|it| it["n"].as_u64())).collect()
}

#[tokio::test(start_paused = true)]
async fn items_come_in_the_order_they_were_named_in_few_requests() {
    let store = filled(Partitioned::new(4).await, 1_000).await;
    let mut wanted = names(1_000);
    wanted.reverse();
    let response = store.items.read_many(wanted).execute::<Value>().await.unwrap();
    let expected: Vec<_> = (0..1_000).rev().map(Some).collect();
    assert_eq!(numbers(response.items()), expected);
    // One for each range and hundred items that are begun.
    assert!(response.requests() <= 10 + 4, "{}", response.requests());
    assert!(response.request_charge() > 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_none_and_what_is_named_twice_comes_twice() {
    let store = filled(Partitioned::new(3).await, 20).await;
    let wanted = [("p3", "3"), ("p3", "absent"), ("p4", "3"), ("p3", "3"), ("p19", "19")];
    let response = store.items.read_many(wanted).execute::<Value>().await.unwrap();
    assert_eq!(numbers(response.items()), [Some(3), None, None, Some(3), Some(19)]);
    let alone = store.items.read_many([("p1", "absent")]).execute::<Value>().await.unwrap();
    assert_eq!((numbers(alone.items()), alone.requests()), (vec![None], 1));
    let nothing = store.items.read_many(names(0)).execute::<Value>().await.unwrap();
    assert!(nothing.items().is_empty() && nothing.requests() == 0);
}

#[tokio::test(start_paused = true)]
async fn one_item_of_a_range_is_a_point_read_and_several_are_a_query() {
    let options = AccountOptions { partitions: Some(1), ..AccountOptions::default() };
    let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
    let recorder = RecordingFactory::before(account.factory());
    let store = filled(Partitioned::before(account, Arc::clone(&recorder) as _).await, 10).await;
    let is_query = || recorder.last_about_items().contains_key("x-ms-documentdb-isquery");
    store.items.read_many(names(1)).execute::<Value>().await.unwrap();
    assert!(!is_query());
    store.items.read_many(names(2)).execute::<Value>().await.unwrap();
    assert!(is_query());
}

/// The key of an item that has neither of two properties.
fn undefined() -> PartitionKey {
    PartitionKey::new([PartitionKeyValue::Undefined, PartitionKeyValue::Undefined]).unwrap()
}

#[tokio::test(start_paused = true)]
async fn keys_of_every_kind_and_of_several_levels_are_found() {
    let store = Partitioned::new(3).await;
    let by = PartitionKeyDefinition::new(["/tenant", "/user/id"]).unwrap();
    let properties = ContainerProperties::new("deep", by);
    store.client.database("db").create_container(properties, None).await.unwrap();
    let deep = store.client.database("db").container("deep");
    let items = [
        (("a", 1).into(), json!({"id": "x", "tenant": "a", "user": {"id": 1}, "n": 0})),
        (("a", 2).into(), json!({"id": "x", "tenant": "a", "user": {"id": 2}, "n": 1})),
        (
            (None::<&str>, true).into(),
            json!({"id": "x", "tenant": null, "user": {"id": true}, "n": 2}),
        ),
        (undefined(), json!({"id": "x", "n": 3})),
    ];
    for (key, item) in &items {
        let key: PartitionKey = key.clone();
        deep.create_item(key, item, None).await.unwrap();
    }
    let wanted = items.iter().map(|(key, _)| (key.clone(), "x"));
    let response = deep.read_many(wanted).execute::<Value>().await.unwrap();
    assert_eq!(numbers(response.items()), [Some(0), Some(1), Some(2), Some(3)]);
    let error = deep.read_many([("a", "x")]).execute::<Value>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

/// Pages end at 4 MB, whatever was asked for.
#[tokio::test(start_paused = true)]
async fn items_that_do_not_fit_into_one_page_come_in_several() {
    let store = Partitioned::new(1).await;
    for n in 0..8 {
        let item = json!({"id": n.to_string(), "pk": "a", "n": n, "text": "x".repeat(1_000_000)});
        store.items.create_item("a", &item, None).await.unwrap();
    }
    let wanted = (0..8).map(|n| ("a", n.to_string()));
    let response = store.items.read_many(wanted).execute::<Value>().await.unwrap();
    assert_eq!(numbers(response.items()), (0..8).map(Some).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn splits_merges_throttling_and_a_lost_region_lose_nothing() {
    let regions = ["West US", "East US"].map(RegionName::from).to_vec();
    let options = AccountOptions { regions, partitions: Some(2), ..AccountOptions::default() };
    let network = NetworkFaults { latency: Duration::from_millis(50), ..NetworkFaults::NONE };
    let store = filled(Partitioned::with(options, network).await, 600).await;
    let effect = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: None };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::Query);
    rule.hit_limit = Some(3);
    store.account.account().add_fault(rule).unwrap();

    let reading = store.items.read_many(names(600)).with_max_parallelism(2);
    let reading = tokio::spawn(reading.execute::<Value>());
    tokio::time::sleep(Duration::from_millis(60)).await;
    let [left, right] = store.split("0");
    tokio::time::sleep(Duration::from_millis(60)).await;
    store.account.account().set_online(&RegionName::from("West US"), false).unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    store.merge(&left, &right);
    let response = reading.await.unwrap().unwrap();
    assert_eq!(numbers(response.items()), (0..600).map(Some).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_that_of_all_requests() {
    let store = filled(Partitioned::new(2).await, 400).await;
    let rule = FaultRule::new(FaultEffect::DelayBefore { wait: Duration::from_secs(1) });
    store.account.account().add_fault(rule).unwrap();
    let mut options = ItemOptions::default();
    options.availability.end_to_end_timeout = Some(Duration::from_millis(2_500));
    let reading = store.items.read_many(names(400)).with_options(options).with_max_parallelism(1);
    let error = reading.execute::<Value>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
}

#[tokio::test(start_paused = true)]
async fn an_item_of_another_shape_is_an_error() {
    let store = filled(Partitioned::new(2).await, 3).await;
    let error = store.items.read_many(names(3)).execute::<u32>().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidResponse);
}
