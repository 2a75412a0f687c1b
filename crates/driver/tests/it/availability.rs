//! Failing partitions, slow and lagging regions, splits and recreated containers over real sockets: three regions,
//! both kinds of account. The same behaviours are tried at length on a paused clock, in `partition_failover.rs`,
//! `hedging.rs`, `sessions.rs` and others.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{
    AvailabilityOptions, CosmosClientOptions, CosmosEnvironmentOptions, HedgingThreshold, Ratio,
};
use sidereal_driver::transport::Credential;
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, ErrorKind,
    OperationOptions,
};
use sidereal_emulator::{Emulator, FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_protocol::{
    OperationType, PartitionKey, RegionName, RequestPath, ResourceLink, ResourceType,
};

const REGIONS: [&str; 3] = ["West US", "East US", "UK South"];
const PREFERRED: &str = "UK South";

struct Store {
    emulator: Emulator,
    driver: CosmosDriver,
}

impl Store {
    async fn open(multi_write: bool, partition_failover: bool) -> Self {
        let emulator = Emulator::builder()
            .regions(REGIONS)
            .partitions(4)
            .multi_write(multi_write)
            .partition_failover(partition_failover);
        let emulator = emulator.start().await.unwrap();
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .build()
            .unwrap();
        // Sooner than a response can take here, unless it is made to: what waits is hedged.
        let availability = AvailabilityOptions::default()
            .with_hedging_threshold(HedgingThreshold::Static(Duration::from_millis(200)));
        let mut options = CosmosClientOptions { availability, ..CosmosClientOptions::default() };
        options.regions.preferred_regions = Some(vec![RegionName::from(PREFERRED)]);
        options.partition_failover.partition_unavailability_duration =
            Some(Duration::from_millis(300));
        options.partition_failover.unavailability_jitter = Some(Ratio::constant(0.0));
        let endpoint = emulator.http_endpoint().parse().unwrap();
        let credential = Credential::Key(emulator.key().clone());
        let driver = CosmosDriver::new(Arc::clone(&runtime), endpoint, credential, options);
        let store = Self { emulator, driver: driver.unwrap() };
        store.create(ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
        store.create_orders().await;
        store.driver.container(&orders()).await.unwrap();
        store
    }

    async fn create_orders(&self) {
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let database = ResourceLink::database("store").unwrap();
        self.create(database, ResourceType::DocumentCollection, orders).await;
    }

    async fn create(&self, parent: ResourceLink, kind: ResourceType, body: &'static str) {
        let path = RequestPath::feed(parent, kind).unwrap();
        let operation = CosmosOperation::new(OperationType::Create, path)
            .with_body(Bytes::from_static(body.as_bytes()));
        self.execute(&operation).await.unwrap();
    }

    async fn execute(&self, operation: &CosmosOperation) -> Result<CosmosResponse, Error> {
        self.driver.execute_operation(operation, &OperationOptions::default()).await
    }

    /// A customer whose orders are in a range, with one order.
    async fn customer_in(&self, range: &str) -> String {
        let container = self.driver.container(&orders()).await.unwrap();
        let is_there = |customer: &String| {
            let key = PartitionKey::from(customer.as_str());
            let effective = container.partition_key_definition().effective_key(&key).unwrap();
            container.ranges().at(&effective).id().as_str() == range
        };
        let customer = (0..).map(|it| format!("customer {it}")).find(is_there).unwrap();
        self.execute(&upsert(&customer)).await.unwrap();
        self.execute(&read(&customer)).await.unwrap();
        customer
    }

    fn inject(&self, region: &str, range: &str, operation: Operation, effect: FaultEffect) {
        let condition = FaultCondition {
            region: Some(RegionName::from(region)),
            range: Some(range.parse().unwrap()),
            operation: Some(operation),
            resource: Some(ResourceType::Document),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, ..FaultRule::new(effect) };
        self.emulator.account().add_fault(rule).unwrap();
    }

    fn seen_in(&self, region: &str, range: &str) -> u64 {
        let region = RegionName::from(region);
        let rows = self.emulator.account().counters();
        let those = rows.iter().filter(|row| {
            row.region == region
                && row.resource == Some(ResourceType::Document)
                && row.range.as_deref() == Some(range)
        });
        those.map(|row| row.requests).sum()
    }
}

fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn upsert(customer: &str) -> CosmosOperation {
    let order = Bytes::from(format!(r#"{{"id":"1","customer":"{customer}"}}"#));
    CosmosOperation::upsert_item(&orders(), customer.into(), order).unwrap()
}

fn read(customer: &str) -> CosmosOperation {
    CosmosOperation::read_item(&orders(), customer.into(), "1").unwrap()
}

/// The regions of the attempts, in order. Attempts one after another in the same region count once: a region's
/// first connection finds out which version of HTTP is spoken there, and the request is sent again.
fn regions(outcome: &Result<CosmosResponse, Error>) -> Vec<String> {
    let diagnostics = match outcome {
        Ok(response) => response.diagnostics(),
        Err(error) => error.diagnostics().unwrap(),
    };
    let name = |it: &RegionName| it.as_str().to_owned();
    let mut regions: Vec<String> =
        diagnostics.attempts().iter().filter_map(|it| it.region.as_ref().map(name)).collect();
    regions.dedup();
    regions
}

const UNAVAILABLE: FaultEffect =
    FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };

#[tokio::test]
async fn a_sick_partition_moves_alone_and_returns_by_one_probe() {
    for multi_write in [false, true] {
        let store = Store::open(multi_write, false).await;
        let (sick, healthy) = (store.customer_in("1").await, store.customer_in("2").await);
        store.emulator.account().reset_counters();
        store.inject(PREFERRED, "1", Operation::Read, UNAVAILABLE);
        for _ in 0..3 {
            let found = store.execute(&read(&sick)).await;
            assert_eq!(regions(&found), [PREFERRED, "West US"]);
            found.unwrap();
        }
        assert_eq!(regions(&store.execute(&read(&sick)).await), ["West US"]);
        assert_eq!(regions(&store.execute(&read(&healthy)).await), [PREFERRED]);
        assert_eq!(store.seen_in(PREFERRED, "1"), 3);
        store.emulator.account().clear_faults();
        tokio::time::sleep(Duration::from_millis(350)).await;
        store.execute(&read(&sick)).await.unwrap();
        assert_eq!(store.seen_in(PREFERRED, "1"), 4, "the probe");
        assert_eq!(regions(&store.execute(&read(&sick)).await), [PREFERRED]);
    }
}

#[tokio::test]
async fn writes_follow_a_partition_whose_write_region_moves() {
    let store = Store::open(false, true).await;
    let (moved, other) = (store.customer_in("1").await, store.customer_in("2").await);
    let east = RegionName::from("East US");
    let account = store.emulator.account();
    account.move_partition("store", "orders", "1", Some(&east)).unwrap();
    let written = store.execute(&upsert(&moved)).await;
    assert_eq!(regions(&written).first().map(String::as_str), Some("West US"));
    assert_eq!(regions(&written).last().map(String::as_str), Some("East US"));
    written.unwrap();
    assert_eq!(regions(&store.execute(&upsert(&moved)).await), ["East US"]);
    assert_eq!(regions(&store.execute(&upsert(&other)).await), ["West US"]);
}

#[tokio::test]
async fn a_slow_partition_is_read_in_another_region_meanwhile() {
    let store = Store::open(false, false).await;
    let slow = store.customer_in("1").await;
    let wait = Duration::from_secs(5);
    store.inject(PREFERRED, "1", Operation::Read, FaultEffect::DelayBefore { wait });
    let found = store.execute(&read(&slow)).await;
    assert_eq!(regions(&found), [PREFERRED, "West US"]);
    assert_eq!(found.unwrap().diagnostics().attempts()[0].elapsed(), None, "it was cancelled");
}

#[tokio::test]
async fn a_region_that_disappears_and_a_region_that_lags_cost_no_operation() {
    for multi_write in [false, true] {
        let store = Store::open(multi_write, false).await;
        let customer = store.customer_in("1").await;
        let preferred = RegionName::from(PREFERRED);
        store.emulator.account().pause_replication(&preferred, true).unwrap();
        store.execute(&upsert(&customer)).await.unwrap();
        // Whichever region wrote it: the session tells who has it.
        store.execute(&read(&customer)).await.unwrap();
        store.emulator.account().pause_replication(&preferred, false).unwrap();
        store.emulator.take_offline(&preferred).unwrap();
        for _ in 0..10 {
            store.execute(&read(&customer)).await.unwrap();
            store.execute(&upsert(&customer)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_split_and_a_recreated_container_are_followed() {
    let store = Store::open(false, false).await;
    let customer = store.customer_in("1").await;
    let account = store.emulator.account();
    account.split_range("store", "orders", "1", Duration::ZERO).unwrap();
    store.execute(&read(&customer)).await.unwrap();
    let known = store.driver.refresh_container(&orders()).await.unwrap();
    assert!(known.ranges().is_gone("1"));
    assert_eq!(known.ranges().ranges().len(), 5);
    let before = known.rid().to_owned();

    let delete = CosmosOperation::new(OperationType::Delete, RequestPath::of(orders()));
    store.execute(&delete).await.unwrap();
    store.create_orders().await;
    let missing = store.execute(&read(&customer)).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing:?}");
    store.execute(&upsert(&customer)).await.unwrap();
    store.execute(&read(&customer)).await.unwrap();
    assert_ne!(store.driver.container(&orders()).await.unwrap().rid(), before);
}

#[tokio::test]
async fn throttling_is_waited_out_and_a_lost_response_is_made_up_for() {
    let store = Store::open(false, false).await;
    let customer = store.customer_in("1").await;
    let wait = Some(Duration::from_millis(10));
    let throttled = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: wait };
    let condition =
        FaultCondition { resource: Some(ResourceType::Document), ..FaultCondition::default() };
    for effect in [throttled, FaultEffect::ResetAfter] {
        let rule = FaultRule {
            condition: condition.clone(),
            hit_limit: Some(1),
            ..FaultRule::new(effect)
        };
        store.emulator.account().add_fault(rule).unwrap();
        let written = store.execute(&upsert(&customer)).await.unwrap();
        assert_eq!(written.diagnostics().attempts().len(), 2);
    }
}
