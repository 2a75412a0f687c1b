//! The metrics and spans of a driver as an exporter sees them: an account in this process, on a paused clock.

mod spans;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use sidereal_driver::options::{
    AvailabilityOptions, CosmosClientOptions, CosmosEnvironmentOptions, HedgingThreshold,
};
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, ErrorKind,
};
use sidereal_emulator::{AccountOptions, FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_protocol::{OperationType, RegionName, RequestPath, ResourceLink, ResourceType};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};
use sidereal_testing::metrics::{Exported, Point};

const DURATION: &str = "db.client.operation.duration";
const CHARGE: &str = "azure.cosmosdb.client.operation.request_charge";
const ATTEMPTS: &str = "sidereal.client.operation.attempts";
const FAILOVERS: &str = "sidereal.client.failovers";
const HEDGES: &str = "sidereal.client.hedges";
const PROBES: &str = "sidereal.client.probes";
const SHARDS: &str = "sidereal.client.shards";

const LATENCY: Duration = Duration::from_millis(10);
const MS: Duration = Duration::from_millis(1);

/// An account in two regions with one order, and a driver whose metrics are exported. Reads prefer UK South.
struct Measured {
    account: InProcessAccount,
    driver: CosmosDriver,
    runtime: Arc<CosmosDriverRuntime>,
    provider: SdkMeterProvider,
    exported: Exported,
}

impl Measured {
    async fn new() -> Self {
        let network = NetworkFaults { latency: LATENCY, ..NetworkFaults::NONE };
        let regions = ["West US", "UK South"].map(RegionName::from).to_vec();
        let options = AccountOptions { regions, partitions: Some(4), ..AccountOptions::default() };
        let account = InProcessAccount::new(options, 7, network);
        // By a driver without metrics, so that nothing of it is among them.
        let founder = account.driver();
        let create = async |parent, kind, body: &'static str| {
            let path = RequestPath::feed(parent, kind).unwrap();
            let operation = CosmosOperation::new(OperationType::Create, path)
                .with_body(Bytes::from_static(body.as_bytes()));
            founder.execute_operation(&operation, &Default::default()).await.unwrap();
        };
        create(ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let store = ResourceLink::database("store").unwrap();
        create(store, ResourceType::DocumentCollection, orders).await;
        let order = Bytes::from_static(br#"{"id":"1","customer":"contoso"}"#);
        let order = CosmosOperation::create_item(&orders_link(), "contoso".into(), order).unwrap();
        founder.execute_operation(&order, &Default::default()).await.unwrap();
        Self::on(account)
    }

    fn on(account: InProcessAccount) -> Self {
        let exported = Exported::default();
        let provider = exported.provider();
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(account.factory())
            .clock(account.driver_clock())
            .meter_provider(&provider)
            .build()
            .unwrap();
        let driver = account.driver_on(Arc::clone(&runtime), preferring_uk());
        Self { account, driver, runtime, provider, exported }
    }

    fn inject(&self, region: &str, effect: FaultEffect, limit: Option<u64>) {
        let condition = FaultCondition {
            region: Some(RegionName::from(region)),
            operation: Some(Operation::Read),
            resource: Some(ResourceType::Document),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, hit_limit: limit, ..FaultRule::new(effect) };
        self.account.account().add_fault(rule).unwrap();
    }

    async fn read(&self, id: &str) -> Result<CosmosResponse, Error> {
        let read = CosmosOperation::read_item(&orders_link(), "contoso".into(), id).unwrap();
        self.driver.execute_operation(&read, &Default::default()).await
    }

    fn all(&self, instrument: &str) -> Vec<Point> {
        let points = self.exported.collect(&self.provider).into_iter();
        points.filter(|it| it.instrument == instrument).collect()
    }

    /// The only value of an instrument that is about reads of items.
    fn of_reads(&self, instrument: &str) -> Point {
        let is_read = |it: &Point| it.attribute("db.operation.name") == Some("read_item");
        let mut points = self.all(instrument).into_iter().filter(is_read);
        match (points.next(), points.next()) {
            (Some(point), None) => point,
            other => panic!("{instrument}: {other:?}"),
        }
    }
}

fn orders_link() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn preferring_uk() -> CosmosClientOptions {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability =
        AvailabilityOptions::default().with_hedging_threshold(HedgingThreshold::Static(100 * MS));
    options
}

fn answer(status: u16, sub_status: u32) -> FaultEffect {
    FaultEffect::Answer { status, sub_status, retry_after: Some(5 * MS) }
}

fn pairs(point: &Point) -> Vec<(&str, &str)> {
    point.attributes.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

#[tokio::test(start_paused = true)]
async fn reads_that_succeed_are_measured_with_what_they_are_about() {
    let measured = Measured::new().await;
    let mut took = Duration::ZERO;
    let mut charge = 0.0;
    for _ in 0..3 {
        let response = measured.read("1").await.unwrap();
        took += response.diagnostics().elapsed();
        charge += response.diagnostics().charge();
    }
    let duration = measured.of_reads(DURATION);
    assert_eq!((duration.count, duration.unit.as_str()), (3, "s"));
    assert!((duration.sum - took.as_secs_f64()).abs() < 1e-9 && duration.sum > 0.0);
    let known = [
        ("db.collection.name", "orders"),
        ("db.namespace", "store"),
        ("db.operation.name", "read_item"),
        ("db.response.status_code", "200"),
        ("db.system.name", "azure.cosmosdb"),
    ];
    assert_eq!(pairs(&duration), known, "no id, no key, no address");
    let charged = measured.of_reads(CHARGE);
    assert_eq!((charged.count, charged.sum, charged.unit.as_str()), (3, charge, "{request_unit}"));
    assert_eq!(pairs(&charged), known);
    assert_eq!((measured.of_reads(ATTEMPTS).count, measured.of_reads(ATTEMPTS).sum), (3, 3.0));
    assert!(measured.all(FAILOVERS).is_empty() && measured.all(HEDGES).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failover_is_counted_with_the_region_that_it_went_to() {
    let measured = Measured::new().await;
    measured.inject("UK South", answer(503, 0), None);
    measured.read("1").await.unwrap();
    assert_eq!(measured.of_reads(ATTEMPTS).sum, 2.0);
    let failovers = measured.of_reads(FAILOVERS);
    assert_eq!((failovers.sum, failovers.attribute("cloud.region")), (1.0, Some("West US")));
    assert_eq!(failovers.attribute("db.collection.name"), Some("orders"));
    assert_eq!(measured.of_reads(DURATION).attribute("db.response.status_code"), Some("200"));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_read_has_several_attempts_and_no_failover() {
    let measured = Measured::new().await;
    measured.inject("UK South", answer(429, 3200), Some(2));
    let response = measured.read("1").await.unwrap();
    assert_eq!((measured.of_reads(ATTEMPTS).count, measured.of_reads(ATTEMPTS).sum), (1, 3.0));
    assert_eq!(measured.of_reads(CHARGE).sum, response.diagnostics().charge());
    assert!(measured.all(FAILOVERS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_measured_with_its_status_and_its_kind() {
    let measured = Measured::new().await;
    assert_eq!(measured.read("none").await.unwrap_err().kind(), ErrorKind::NotFound);
    let duration = measured.of_reads(DURATION);
    assert_eq!(duration.attribute("db.response.status_code"), Some("404"));
    assert_eq!(duration.attribute("error.type"), Some("not_found"));

    let measured = Measured::new().await;
    measured.inject("UK South", answer(429, 3200), None);
    measured.inject("West US", answer(429, 3200), None);
    assert_eq!(measured.read("1").await.unwrap_err().kind(), ErrorKind::Throttled);
    let duration = measured.of_reads(DURATION);
    let sub_status = duration.attribute("azure.cosmosdb.response.sub_status_code");
    assert_eq!((duration.attribute("error.type"), sub_status), (Some("throttled"), Some("3200")));
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_no_response_came_to_has_no_charge() {
    let measured = Measured::new().await;
    measured.read("1").await.unwrap();
    for region in ["UK South", "West US"] {
        measured.account.account().set_online(&RegionName::from(region), false).unwrap();
    }
    let error = measured.read("1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // The driver reads the container meanwhile, and fails too.
    let failed = |it: &Point| {
        it.attribute("error.type") == Some("unavailable")
            && it.attribute("db.operation.name") == Some("read_item")
    };
    assert_eq!(measured.all(DURATION).into_iter().filter(failed).count(), 1);
    assert_eq!(measured.all(CHARGE).into_iter().filter(failed).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hedge_is_counted_by_whether_its_answer_was_used() {
    let measured = Measured::new().await;
    measured.read("1").await.unwrap();
    measured.inject("UK South", FaultEffect::DelayBefore { wait: 500 * MS }, Some(1));
    measured.read("1").await.unwrap();
    let won = measured.of_reads(HEDGES);
    assert_eq!((won.sum, won.attribute("sidereal.hedge.won")), (1.0, Some("true")));
    assert_eq!(won.attribute("cloud.region"), Some("West US"));

    measured.inject("UK South", FaultEffect::DelayBefore { wait: 120 * MS }, Some(1));
    measured.inject("West US", FaultEffect::DelayBefore { wait: 500 * MS }, Some(1));
    measured.read("1").await.unwrap();
    let mut hedges = measured.all(HEDGES);
    hedges.sort_by(|one, two| one.attributes.cmp(&two.attributes));
    let counts = hedges.iter().map(|it| (it.attribute("sidereal.hedge.won"), it.sum));
    assert_eq!(counts.collect::<Vec<_>>(), [(Some("false"), 1.0), (Some("true"), 1.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_the_region_that_a_partition_had_left_is_counted() {
    let measured = Measured::new().await;
    measured.driver.container(&orders_link()).await.unwrap();
    measured.inject("UK South", answer(503, 0), Some(3));
    for _ in 0..3 {
        measured.read("1").await.unwrap();
    }
    assert!(measured.all(PROBES).is_empty());
    tokio::time::sleep(Duration::from_secs(6)).await;
    measured.read("1").await.unwrap();
    let probes = measured.of_reads(PROBES);
    assert_eq!((probes.sum, probes.attribute("cloud.region")), (1.0, Some("UK South")));
}

#[tokio::test(start_paused = true)]
async fn connections_are_counted_by_endpoint_until_the_runtime_is_gone() {
    let measured = Measured::new().await;
    assert!(measured.all(SHARDS).is_empty());
    measured.read("1").await.unwrap();
    let of_data = |points: Vec<Point>| {
        let is_of_data = |it: &Point| it.attribute("sidereal.plane") == Some("data");
        points.into_iter().filter(is_of_data).collect::<Vec<_>>()
    };
    let shared = of_data(measured.all(SHARDS));
    assert_eq!(shared.len(), 1, "{shared:?}");
    let uk = measured.account.endpoint_of("UK South");
    assert_eq!(shared[0].attribute("server.address"), Some(uk.host()));
    assert_eq!(shared[0].attribute("server.port"), Some("443"));
    let before = shared[0].sum;
    assert!(before >= 1.0);

    // Connections of an account's own, to the same endpoint, are added.
    let mut own = preferring_uk();
    own.connection.request_timeout = Some(Duration::from_secs(20));
    let second = measured.account.driver_on(Arc::clone(&measured.runtime), own);
    let read = CosmosOperation::read_item(&orders_link(), "contoso".into(), "1").unwrap();
    second.execute_operation(&read, &Default::default()).await.unwrap();
    let sum: f64 = of_data(measured.all(SHARDS)).iter().map(|it| it.sum).sum();
    assert_eq!(sum, before + 1.0);
    drop(second);

    let Measured { driver, runtime, provider, exported, .. } = measured;
    let kept = Arc::downgrade(&runtime);
    drop((driver, runtime));
    // Background tasks see that their driver is gone.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(kept.strong_count(), 0, "the provider does not keep it");
    let left = exported.collect(&provider);
    assert!(left.iter().all(|it| it.instrument != SHARDS), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn operations_are_measured_also_where_they_are_not_traced() {
    let mut measured = Measured::new().await;
    let mut options = preferring_uk();
    options.client_options.tracing_enabled = Some(false);
    measured.driver = measured.account.driver_on(Arc::clone(&measured.runtime), options);
    measured.read("1").await.unwrap();
    assert_eq!(measured.of_reads(DURATION).count, 1);
}
