//! Partition ranges that are split and merged, and regions that are lost, while a bulk runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sidereal::models::RegionName;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::NetworkFaults;
use sidereal_testing::in_process::scripting::{ScriptedFactory, answer, header};
use tokio::time::Instant;

use super::{Partitioned, all_succeeded, count, upserts};
use crate::query::client_of;

#[tokio::test(start_paused = true)]
async fn splits_and_merges_in_the_middle_lose_and_fail_nothing() {
    let store = Arc::new(Partitioned::new(2).await);
    let changes = Mutex::new(0);
    let account = Arc::clone(&store);
    let bulk = store.items.bulk().with_max_concurrency(2).with_progress(move |_| {
        let mut changes = changes.lock().unwrap();
        *changes += 1;
        match *changes {
            2 => drop(account.split("0")),
            4 => drop(account.split("1")),
            // The children of the first split.
            6 => drop(account.merge("2", "3")),
            _ => {}
        }
    });
    let report = bulk.execute(upserts(3_000)).await.unwrap();
    all_succeeded(&report, 3_000);
    assert_eq!(count(&store.items).await, 3_000);
    // Batches that met a range that was gone, and those that were not full afterwards.
    assert!(report.requests() <= 60, "{}", report.requests());
    assert_eq!(store.ranges().await.len(), 3);
}

/// A client that has known the container for long sends its first batches to ranges that are gone.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_the_ranges_may_be_out_of_date() {
    let store = Partitioned::new(2).await;
    store.items.bulk().execute(upserts(10)).await.unwrap();
    for range in store.stranger_ranges().await {
        store.split(&range);
    }
    let report = store.items.bulk().execute(upserts(500)).await.unwrap();
    all_succeeded(&report, 500);
    assert_eq!(count(&store.items).await, 500);
}

/// Operations that a split refused one by one, within an answer of success, were sent again without a pause until none
/// of their retries was left, which took no time at all.
#[tokio::test(start_paused = true)]
async fn a_split_that_is_told_operation_by_operation_is_waited_for() {
    let store = Partitioned::new(1).await;
    let over = Instant::now() + Duration::from_secs(5);
    let factory = ScriptedFactory::before(store.account.factory(), move |request| {
        let is_batch = header(request, "x-ms-cosmos-is-batch-request").is_some();
        (is_batch && Instant::now() < over).then(|| {
            let operations: Vec<Value> = serde_json::from_slice(request.body()).unwrap();
            let splitting = json!({"statusCode": 410, "subStatusCode": 1007});
            let results = Value::from(vec![splitting; operations.len()]);
            answer(StatusCode::MULTI_STATUS, &results.to_string(), None)
        })
    });
    let items = client_of(&store.account, factory).database("db").container("items");
    let report = items.bulk().execute(upserts(20)).await.unwrap();
    all_succeeded(&report, 20);
    assert_eq!(count(&store.items).await, 20);
}

fn regions(multi_write: bool) -> AccountOptions {
    let regions = ["West US", "East US"].map(RegionName::from).to_vec();
    AccountOptions { regions, multi_write, partitions: Some(3), ..AccountOptions::default() }
}

fn latency() -> NetworkFaults {
    NetworkFaults { latency: Duration::from_millis(20), ..NetworkFaults::NONE }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_is_lost_in_the_middle_is_left_for_another() {
    let store = Partitioned::with(regions(true), latency()).await;
    let account = store.account.clone();
    let mut told = 0;
    let bulk = store.items.bulk().with_max_concurrency(3).with_progress(move |_| {
        told += 1;
        if told == 3 {
            account.account().set_online(&RegionName::from("West US"), false).unwrap();
        }
    });
    let report = bulk.execute(upserts(2_000)).await.unwrap();
    all_succeeded(&report, 2_000);
    assert_eq!(count(&store.items).await, 2_000);
}

/// The write region of an account with one is waited for.
#[tokio::test(start_paused = true)]
async fn a_write_region_that_comes_back_is_waited_for() {
    let store = Partitioned::with(regions(false), latency()).await;
    let account = store.account.clone();
    let mut told = 0;
    let bulk = store.items.bulk().with_max_concurrency(3).with_progress(move |_| {
        told += 1;
        if told == 3 {
            let account = account.clone();
            account.account().set_online(&RegionName::from("West US"), false).unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(10)).await;
                account.account().set_online(&RegionName::from("West US"), true).unwrap();
            });
        }
    });
    let report = bulk.execute(upserts(2_000)).await.unwrap();
    all_succeeded(&report, 2_000);
}
