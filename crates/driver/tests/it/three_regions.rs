//! A driver, three regions and a container of orders, for tests of regions and sessions.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{CosmosClientOptions, Ratio};
use sidereal_driver::{CosmosDriver, CosmosOperation, CosmosResponse, Error, OperationOptions};
use sidereal_emulator::{
    AccountOptions, CounterRow, FaultCondition, FaultEffect, FaultRule, Operation,
};
use sidereal_protocol::{
    OperationType, PartitionKey, RegionName, RequestPath, ResourceLink, ResourceType,
};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

pub(crate) const REGIONS: [&str; 3] = ["West US", "East US", "UK South"];
pub(crate) const LATENCY: Duration = Duration::from_millis(10);

/// An account in three regions with a container of orders, and a driver for it.
pub(crate) struct ThreeRegions {
    pub(crate) account: InProcessAccount,
    pub(crate) driver: CosmosDriver,
}

impl ThreeRegions {
    pub(crate) async fn new(multi_write: bool, options: CosmosClientOptions) -> Self {
        Self::with(AccountOptions { multi_write, ..AccountOptions::default() }, options).await
    }

    /// Several partitions, whose ranges the driver knows; reads prefer the region named.
    pub(crate) async fn partitioned(account: AccountOptions, region: &str) -> Self {
        let mut options = CosmosClientOptions::default();
        options.regions.preferred_regions = Some(vec![RegionName::from(region)]);
        let partitions = account.partitions.or(Some(4));
        let stack = Self::with(AccountOptions { partitions, ..account }, options).await;
        stack.driver.container(&orders()).await.unwrap();
        stack
    }

    /// An account of which only the regions are given. Times are exact unless the options give them jitter.
    pub(crate) async fn with(account: AccountOptions, mut options: CosmosClientOptions) -> Self {
        options.partition_failover.unavailability_jitter.get_or_insert(Ratio::constant(0.0));
        let regions = REGIONS.map(RegionName::from).to_vec();
        let account_options = AccountOptions { regions, ..account };
        let network = NetworkFaults { latency: LATENCY, ..NetworkFaults::NONE };
        let account = InProcessAccount::new(account_options, 7, network);
        // By another driver, so that the one under test begins with nothing known.
        let founder = account.driver();
        let database = r#"{"id":"store"}"#;
        create(&founder, ResourceLink::ACCOUNT, ResourceType::Database, database).await;
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let store = ResourceLink::database("store").unwrap();
        create(&founder, store, ResourceType::DocumentCollection, orders).await;
        founder.execute_operation(&upsert("1"), &Default::default()).await.unwrap();
        account.account().reset_counters();
        let driver = account.driver_on(account.runtime(), options);
        Self { account, driver }
    }

    /// One region accepts writes; reads prefer the one named.
    pub(crate) async fn preferring(region: &str) -> Self {
        let mut options = CosmosClientOptions::default();
        options.regions.preferred_regions = Some(vec![RegionName::from(region)]);
        Self::new(false, options).await
    }

    pub(crate) async fn execute(
        &self,
        operation: &CosmosOperation,
    ) -> Result<CosmosResponse, Error> {
        self.driver.execute_operation(operation, &OperationOptions::default()).await
    }

    /// A customer whose orders are in a partition range.
    pub(crate) async fn customer_in(&self, range: &str) -> String {
        let container = self.driver.container(&orders()).await.unwrap();
        let is_there = |customer: &String| {
            let key = PartitionKey::from(customer.as_str());
            let effective = container.partition_key_definition().effective_key(&key).unwrap();
            container.ranges().at(&effective).id().as_str() == range
        };
        (0..).map(|number| format!("customer {number}")).find(is_there).unwrap()
    }

    /// Makes a partition range answer so in a region.
    pub(crate) fn inject_in_range(
        &self,
        region: &str,
        range: &str,
        operation: Operation,
        effect: FaultEffect,
    ) -> String {
        let condition = FaultCondition {
            region: Some(RegionName::from(region)),
            operation: Some(operation),
            resource: Some(ResourceType::Document),
            range: Some(range.parse().unwrap()),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, ..FaultRule::new(effect) };
        self.account.account().add_fault(rule).unwrap()
    }

    /// Requests about items of a range that reached a region.
    pub(crate) fn seen_in_range(&self, region: &str, range: &str) -> u64 {
        let region = RegionName::from(region);
        self.seen(|row| {
            row.region == region
                && row.resource == Some(ResourceType::Document)
                && row.range.as_deref() == Some(range)
        })
    }

    /// Executes operations at once.
    pub(crate) async fn execute_all(
        &self,
        operations: &[CosmosOperation],
    ) -> Vec<Result<CosmosResponse, Error>> {
        let running = operations.iter().map(|operation| self.execute(operation));
        futures_util::future::join_all(running).await
    }

    pub(crate) fn set_online(&self, region: &str, is_online: bool) {
        self.account.account().set_online(&RegionName::from(region), is_online).unwrap();
    }

    pub(crate) fn inject(
        &self,
        region: &str,
        operation: Operation,
        effect: FaultEffect,
        limit: Option<u64>,
    ) {
        let condition = FaultCondition {
            region: Some(RegionName::from(region)),
            operation: Some(operation),
            resource: Some(ResourceType::Document),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, hit_limit: limit, ..FaultRule::new(effect) };
        self.account.account().add_fault(rule).unwrap();
    }

    /// How many requests the account has seen of which this holds.
    pub(crate) fn seen(&self, holds: impl Fn(&CounterRow) -> bool) -> u64 {
        let rows = self.account.account().counters();
        rows.iter().filter(|row| holds(row)).map(|row| row.requests).sum()
    }

    /// Requests about items that reached a region.
    pub(crate) fn items_seen_in(&self, region: &str) -> u64 {
        let region = RegionName::from(region);
        self.seen(|row| row.region == region && row.resource == Some(ResourceType::Document))
    }

    pub(crate) fn account_reads(&self) -> u64 {
        self.seen(|row| row.resource == Some(ResourceType::DatabaseAccount))
    }
}

pub(crate) async fn create(
    driver: &CosmosDriver,
    parent: ResourceLink,
    kind: ResourceType,
    body: &str,
) {
    let path = RequestPath::feed(parent, kind).unwrap();
    let operation = CosmosOperation::new(OperationType::Create, path)
        .with_body(Bytes::copy_from_slice(body.as_bytes()));
    driver.execute_operation(&operation, &OperationOptions::default()).await.unwrap();
}

pub(crate) fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

pub(crate) fn order(id: &str) -> Bytes {
    Bytes::from(format!(r#"{{"id":"{id}","customer":"contoso","n":0}}"#))
}

pub(crate) fn read(id: &str) -> CosmosOperation {
    CosmosOperation::read_item(&orders(), "contoso".into(), id).unwrap()
}

pub(crate) fn upsert(id: &str) -> CosmosOperation {
    CosmosOperation::upsert_item(&orders(), "contoso".into(), order(id)).unwrap()
}

pub(crate) fn read_of(customer: &str, id: &str) -> CosmosOperation {
    CosmosOperation::read_item(&orders(), customer.into(), id).unwrap()
}

pub(crate) fn upsert_of(customer: &str, id: &str) -> CosmosOperation {
    let order = format!(r#"{{"id":"{id}","customer":"{customer}","n":0}}"#);
    CosmosOperation::upsert_item(&orders(), customer.into(), Bytes::from(order)).unwrap()
}

/// Why the attempts were made, in order.
pub(crate) fn contexts(outcome: &Result<CosmosResponse, Error>) -> Vec<&'static str> {
    let diagnostics = match outcome {
        Ok(response) => response.diagnostics(),
        Err(error) => error.diagnostics().unwrap(),
    };
    diagnostics.attempts().iter().map(|attempt| attempt.execution_context.as_str()).collect()
}

pub(crate) fn unavailable() -> FaultEffect {
    FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None }
}

/// The regions of the attempts, in order.
pub(crate) fn regions(outcome: &Result<CosmosResponse, Error>) -> Vec<String> {
    let diagnostics = match outcome {
        Ok(response) => response.diagnostics(),
        Err(error) => error.diagnostics().unwrap(),
    };
    let name = |region: &Option<RegionName>| region.as_ref().unwrap().as_str().to_owned();
    diagnostics.attempts().iter().map(|attempt| name(&attempt.region)).collect()
}
