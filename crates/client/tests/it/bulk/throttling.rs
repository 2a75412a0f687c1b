//! Ranges whose throughput is spent.

use std::time::Duration;

use sidereal::options::CreateContainerOptions;
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use super::{Partitioned, all_succeeded, count, upserts};

/// A container of two ranges with 5,000 request units a second each.
async fn limited() -> (Partitioned, ContainerClient) {
    let options = AccountOptions {
        partitions: Some(2),
        enforce_throughput: true,
        ..AccountOptions::default()
    };
    let store = Partitioned::with(options, NetworkFaults::NONE).await;
    let throughput = Some(ThroughputProperties::manual(10_000));
    let options = CreateContainerOptions { throughput, ..CreateContainerOptions::default() };
    let properties = ContainerProperties::new("limited", "/pk".parse().unwrap());
    let database = store.client.database("db");
    database.create_container(properties, Some(options)).await.unwrap();
    (store, database.container("limited"))
}

#[tokio::test(start_paused = true)]
async fn a_throttled_bulk_goes_on_at_the_pace_of_the_container() {
    let (_store, items) = limited().await;
    let started = Instant::now();
    let report = items.bulk().execute(upserts(10_000)).await.unwrap();
    all_succeeded(&report, 10_000);
    assert_eq!(count(&items).await, 10_000);
    assert!(report.throttled() > 0);
    let (seconds, charge) = (started.elapsed().as_secs_f64(), report.request_charge());
    // The second that began before, and the refused operations, which cost too.
    let least = charge / 10_000.0;
    assert!(seconds <= least + 3.0, "{seconds} s for {charge} RU");
    // Operations that were refused went into batches again.
    assert!(report.requests() <= 10_000 / 50, "{}", report.requests());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_throttled_as_a_whole_is_waited_out() {
    let store = Partitioned::new(1).await;
    let retry_after = Some(Duration::from_millis(500));
    let effect = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::Batch);
    // More often than the driver is patient.
    rule.hit_limit = Some(25);
    store.account.account().add_fault(rule).unwrap();
    let report = store.items.bulk().execute(upserts(300)).await.unwrap();
    all_succeeded(&report, 300);
    assert_eq!(report.requests(), 25 + 3);
}

#[tokio::test(start_paused = true)]
async fn a_bulk_that_is_throttled_for_ever_ends_with_its_deadline() {
    let store = Partitioned::new(1).await;
    let effect = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: None };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::Batch);
    store.account.account().add_fault(rule).unwrap();
    let mut options = ItemOptions::default();
    options.availability.end_to_end_timeout = Some(Duration::from_secs(600));
    let started = Instant::now();
    let report = store.items.bulk().with_options(options).execute(upserts(5)).await.unwrap();
    assert_eq!(started.elapsed().as_secs(), 600);
    for failure in report.failures() {
        let error = failure.outcome().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::DeadlineExceeded | ErrorKind::Throttled));
        assert!(!error.may_have_been_applied(), "{error}");
    }
    assert_eq!(report.failures().count(), 5);
}
