//! The driver on an account in the same process, over the simulated network, on a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::RequestOptions;
use sidereal_driver::{CosmosDriver, CosmosOperation, ErrorKind, OperationOptions};
use sidereal_protocol::{OperationType, PartitionKey, RequestPath, ResourceLink, ResourceType};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

async fn create(driver: &CosmosDriver, parent: ResourceLink, kind: ResourceType, body: &str) {
    let path = RequestPath::feed(parent, kind).unwrap();
    let operation = CosmosOperation::new(OperationType::Create, path)
        .with_body(Bytes::copy_from_slice(body.as_bytes()));
    driver.execute_operation(&operation, &OperationOptions::default()).await.unwrap();
}

/// An account with a container of orders, and a driver for it.
async fn open(seed: u64) -> (InProcessAccount, CosmosDriver) {
    let account =
        InProcessAccount::with_regions(&["West US", "East US"], seed, NetworkFaults::NONE);
    let driver = account.driver();
    create(&driver, ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
    let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
    let database = ResourceLink::database("store").unwrap();
    create(&driver, database, ResourceType::DocumentCollection, orders).await;
    (account, driver)
}

fn create_order(id: u32) -> CosmosOperation {
    let orders = ResourceLink::container("store", "orders").unwrap();
    let path = RequestPath::feed(orders, ResourceType::Document).unwrap();
    CosmosOperation::new(OperationType::Create, path)
        .with_partition_key(PartitionKey::from("contoso"))
        .with_body(Bytes::from(format!(r#"{{"id":"{id}","customer":"contoso"}}"#)))
}

fn read_order(id: u32) -> CosmosOperation {
    let item = ResourceLink::container("store", "orders").unwrap().item(&id.to_string()).unwrap();
    CosmosOperation::new(OperationType::Read, RequestPath::of(item))
        .with_partition_key(PartitionKey::from("contoso"))
}

#[tokio::test(start_paused = true)]
async fn what_is_written_without_a_socket_is_read_back() {
    let (account, driver) = open(1).await;
    let options = OperationOptions::default();
    driver.execute_operation(&create_order(1), &options).await.unwrap();
    let response = driver.execute_operation(&read_order(1), &options).await.unwrap();
    assert!(response.body().starts_with(br#"{"id":"1""#), "{:?}", response.body());
    assert_eq!(account.network().requests(), 8, "the account and the container are read once");
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_lost_leaves_its_work_done() {
    let (account, driver) = open(1).await;
    account.network().set_faults(NetworkFaults { lost_after: 1.0, ..NetworkFaults::NONE });
    let lost = driver.execute_operation(&create_order(1), &OperationOptions::default()).await;
    assert!(lost.unwrap_err().may_have_been_applied());

    account.network().set_faults(NetworkFaults::NONE);
    let read = driver.execute_operation(&read_order(1), &OperationOptions::default()).await;
    read.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_lost_on_its_way_leaves_nothing_done() {
    let (account, driver) = open(1).await;
    account.network().set_faults(NetworkFaults { lost_before: 1.0, ..NetworkFaults::NONE });
    let lost = driver.execute_operation(&create_order(1), &OperationOptions::default()).await;
    assert!(lost.unwrap_err().may_have_been_applied(), "a client cannot know");

    account.network().set_faults(NetworkFaults::NONE);
    let read = driver.execute_operation(&read_order(1), &OperationOptions::default()).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn hours_of_latency_pass_at_once() {
    let (account, driver) = open(1).await;
    let latency = Duration::from_secs(3);
    account.network().set_faults(NetworkFaults { latency, ..NetworkFaults::NONE });
    let before = tokio::time::Instant::now();
    for id in 0..1_500 {
        driver.execute_operation(&create_order(id), &OperationOptions::default()).await.unwrap();
    }
    let simulated = before.elapsed();
    assert!(simulated >= 1_500 * latency, "{simulated:?}");
}

/// The outcomes of a run of mixed operations under mixed faults, in order.
async fn run(seed: u64) -> Vec<String> {
    let (account, driver) = open(seed).await;
    account.network().set_faults(NetworkFaults {
        latency: Duration::from_millis(2),
        latency_spread: Duration::from_millis(40),
        lost_before: 0.05,
        lost_after: 0.05,
    });
    let (west, east) = ("West US".into(), "East US".into());
    let options = OperationOptions::default();
    let (mut seen, mut writes) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        match step {
            4 => account.account().pause_replication(&east, true).unwrap(),
            6 => account.account().set_online(&west, false).unwrap(),
            8 => account.account().set_online(&west, true).unwrap(),
            _ => {}
        }
        let (write, read) = (create_order(step), read_order(step));
        // Concurrent on purpose: the order in which futures are polled is part of what must repeat.
        let (written, found) = tokio::join!(
            driver.execute_operation(&write, &options),
            driver.execute_operation(&read, &options),
        );
        writes.push(match &written {
            Ok(_) => Some(true),
            Err(error) if error.may_have_been_applied() => None,
            Err(_) => Some(false),
        });
        for outcome in [written, found] {
            seen.push(match outcome {
                Ok(response) => {
                    format!("{} {}", response.status(), response.diagnostics().to_json())
                }
                Err(error) => format!("{error} {}", error.diagnostics().unwrap().to_json()),
            });
        }
    }
    account.network().set_faults(NetworkFaults::NONE);
    // In the write region: what is asked is what was written, and replication to the other one is paused.
    let in_west = RequestOptions::default().with_excluded_regions(["East US"]);
    let in_west = OperationOptions::default().with_request(in_west);
    for (step, applied) in (0..STEPS).zip(writes) {
        let there = driver.execute_operation(&read_order(step), &in_west).await.is_ok();
        assert!(applied.is_none_or(|applied| applied == there), "seed {seed}, step {step}");
    }
    seen
}

const STEPS: u32 = 12;

#[test]
fn the_same_seed_gives_the_same_diagnostics_to_the_byte() {
    let first = on_a_runtime_of_its_own(7);
    let second = on_a_runtime_of_its_own(7);
    assert_eq!(first, second);
    assert_ne!(first, on_a_runtime_of_its_own(8), "the seed decides");
    assert!(first.iter().any(|line| line.starts_with("201")), "some writes succeed: {first:#?}");
}

/// No seed may make an operation hang, panic or lie: what it says was created is there afterwards, and what
/// it says cannot have been applied is not.
#[test]
fn two_hundred_seeds_of_faults_give_every_operation_an_outcome() {
    for seed in 0..200 {
        let outcome = std::panic::catch_unwind(|| on_a_runtime_of_its_own(seed));
        match outcome {
            Ok(seen) => assert_eq!(seen.len(), 2 * STEPS as usize, "seed {seed}"),
            Err(_) => {
                panic!("seed {seed} fails: run it alone with `on_a_runtime_of_its_own({seed})`")
            }
        }
    }
}

/// A run on a runtime that nothing else has used: timers and tasks then start from the same state.
fn on_a_runtime_of_its_own(seed: u64) -> Vec<String> {
    let worker = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(run(seed))
    });
    worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
