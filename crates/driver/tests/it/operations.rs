//! Operations of the driver on an embedded account, over TLS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sidereal_driver::options::{
    AvailabilityOptions, ClientMethodOptions, CosmosClientOptions, CosmosEnvironmentOptions,
};
use sidereal_driver::system::ShutdownOutcome;
use sidereal_driver::transport::{Credential, HttpProtocol};
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, ErrorKind, OperationOptions,
};
use sidereal_emulator::{Emulator, WriteRegionChange};
use sidereal_protocol::{
    AccountKey, OperationType, PartitionKey, RegionName, RequestPath, ResourceLink, ResourceType,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// An account with a container of orders, and a driver for it.
struct Store {
    emulator: Emulator,
    runtime: Arc<CosmosDriverRuntime>,
    driver: CosmosDriver,
}

impl Store {
    async fn open() -> Self {
        let emulator = Emulator::builder().start().await.unwrap();
        Self::on(emulator, CosmosClientOptions::default()).await
    }

    async fn on(emulator: Emulator, options: CosmosClientOptions) -> Self {
        let runtime = runtime_for(&emulator);
        let endpoint = emulator.endpoint().parse().unwrap();
        let credential = Credential::Key(emulator.key().clone());
        let driver = CosmosDriver::new(Arc::clone(&runtime), endpoint, credential, options);
        let store = Self { emulator, runtime, driver: driver.unwrap() };
        store.create(ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let database = ResourceLink::database("store").unwrap();
        store.create(database, ResourceType::DocumentCollection, orders).await;
        store
    }

    async fn create(&self, parent: ResourceLink, kind: ResourceType, body: &'static str) {
        let path = RequestPath::feed(parent, kind).unwrap();
        let operation = CosmosOperation::new(OperationType::Create, path)
            .with_body(Bytes::from_static(body.as_bytes()));
        let answer = self.driver.execute_operation(&operation, &OperationOptions::default()).await;
        assert_eq!(answer.unwrap().status().code(), 201);
    }
}

/// A runtime that trusts an account's certificate.
fn runtime_for(emulator: &Emulator) -> Arc<CosmosDriverRuntime> {
    let root = CertificateDer::from_pem_slice(emulator.certificate_pem().as_bytes()).unwrap();
    CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .trust_root(root)
        .build()
        .unwrap()
}

fn driver_for(emulator: &Emulator, key: AccountKey) -> CosmosDriver {
    driver_on(&runtime_for(emulator), emulator, key)
}

fn driver_on(
    runtime: &Arc<CosmosDriverRuntime>,
    emulator: &Emulator,
    key: AccountKey,
) -> CosmosDriver {
    let runtime = Arc::clone(runtime);
    let endpoint = emulator.endpoint().parse().unwrap();
    let options = CosmosClientOptions::default();
    CosmosDriver::new(runtime, endpoint, Credential::Key(key), options).unwrap()
}

fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn create_order(id: &str) -> CosmosOperation {
    let path = RequestPath::feed(orders(), ResourceType::Document).unwrap();
    CosmosOperation::new(OperationType::Create, path)
        .with_partition_key(PartitionKey::from("contoso"))
        .with_body(Bytes::from(format!(r#"{{"id":"{id}","customer":"contoso"}}"#)))
}

fn read_order(id: &str) -> CosmosOperation {
    let path = RequestPath::of(orders().item(id).unwrap());
    CosmosOperation::new(OperationType::Read, path)
        .with_partition_key(PartitionKey::from("contoso"))
}

#[tokio::test]
async fn an_item_that_is_written_is_read_back_with_its_charge_and_diagnostics() {
    let store = Store::open().await;
    let options = OperationOptions::default();
    store.driver.execute_operation(&create_order("4711"), &options).await.unwrap();
    let answer = store.driver.execute_operation(&read_order("4711"), &options).await.unwrap();
    assert!(answer.body().starts_with(br#"{"id":"4711""#), "{:?}", answer.body());
    assert_eq!(answer.headers().request_charge(), Some(1.0));

    let diagnostics = answer.diagnostics();
    assert_eq!((diagnostics.charge(), diagnostics.attempts().len()), (1.0, 1));
    assert_eq!(diagnostics.attempts()[0].protocol, Some(HttpProtocol::Http2));
    let told = serde_json::from_str::<serde_json::Value>(&diagnostics.to_json()).unwrap();
    assert_eq!(told["activity_id"], diagnostics.activity_id().to_string());
}

/// The regions of the attempts at an operation, which succeeds.
async fn regions_of(store: &Store, operation: &CosmosOperation) -> Vec<String> {
    let response = store.driver.execute_operation(operation, &OperationOptions::default()).await;
    let response = response.unwrap();
    let attempts = response.diagnostics().attempts().iter();
    attempts.map(|it| it.region.as_ref().unwrap().as_str().to_owned()).collect()
}

/// Three regions over sockets: one goes offline, and the write region moves.
#[tokio::test]
async fn regions_that_disappear_and_move_cost_no_operation() {
    let emulator = Emulator::builder().regions(["West US", "East US", "UK South"]);
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    let store = Store::on(emulator.start().await.unwrap(), options).await;
    assert_eq!(regions_of(&store, &create_order("1")).await, ["West US"]);
    assert_eq!(regions_of(&store, &read_order("1")).await, ["UK South"]);

    store.emulator.take_offline(&RegionName::from("UK South")).unwrap();
    let visited = regions_of(&store, &read_order("1")).await;
    assert_eq!(visited.last().map(String::as_str), Some("West US"), "{visited:?}");
    assert_eq!(regions_of(&store, &read_order("1")).await, ["West US"]);

    let east = RegionName::from("East US");
    let account = store.emulator.account();
    account.change_write_region(&east, WriteRegionChange::Forced).unwrap();
    let visited = regions_of(&store, &create_order("2")).await;
    assert_eq!(visited, ["West US", "East US"]);
    assert_eq!(regions_of(&store, &create_order("3")).await, ["East US"]);
}

#[tokio::test]
async fn a_refusal_is_an_error_with_the_service_s_response() {
    let store = Store::open().await;
    let options = OperationOptions::default();
    let error = store.driver.execute_operation(&read_order("none"), &options).await.unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().code()), (ErrorKind::NotFound, 404));
    assert!(error.response().is_some() && !error.may_have_been_applied());

    store.driver.execute_operation(&create_order("1"), &options).await.unwrap();
    let again = store.driver.execute_operation(&create_order("1"), &options).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn a_wrong_key_is_refused_and_not_repeated_in_the_error() {
    let emulator = Emulator::builder().start().await.unwrap();
    let driver = driver_for(&emulator, AccountKey::from_base64("d3Jvbmc=").unwrap());
    let options = OperationOptions::default();
    let error = driver.execute_operation(&read_order("1"), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized);
    assert!(!format!("{error} {error:?}").contains("d3Jvbmc"));
}

#[tokio::test]
async fn an_operation_carries_its_activity_id_and_ends_at_its_deadline() {
    let store = Store::open().await;
    let activity_id = Uuid::from_u128(4711);
    let method_options =
        ClientMethodOptions { activity_id: Some(activity_id), ..Default::default() };
    let named = OperationOptions { method_options, ..OperationOptions::default() };
    store.driver.execute_operation(&create_order("1"), &named).await.unwrap();
    let answer = store.driver.execute_operation(&read_order("1"), &named).await.unwrap();
    assert_eq!(answer.headers().activity_id(), Some(activity_id.to_string().as_str()));

    let availability = AvailabilityOptions::default().with_end_to_end_timeout(Duration::ZERO);
    let late = OperationOptions { availability, ..OperationOptions::default() };
    let error = store.driver.execute_operation(&read_order("1"), &late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    let past = ClientMethodOptions { deadline: Some(Instant::now()), ..Default::default() };
    let late = OperationOptions { method_options: past, ..OperationOptions::default() };
    let error = store.driver.execute_operation(&create_order("2"), &late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert!(!error.may_have_been_applied(), "nothing was sent: {error:?}");
}

/// The account refused it: `application/json` is no patch.
#[tokio::test]
async fn an_item_is_patched() {
    let store = Store::open().await;
    let options = OperationOptions::default();
    store.driver.execute_operation(&create_order("1"), &options).await.unwrap();
    let path = RequestPath::of(orders().item("1").unwrap());
    let patch = CosmosOperation::new(OperationType::Patch, path)
        .with_partition_key(PartitionKey::from("contoso"))
        .with_body(Bytes::from_static(br#"{"operations":[{"op":"set","path":"/n","value":1}]}"#));
    store.driver.execute_operation(&patch, &options).await.unwrap();
    let item = store.driver.execute_operation(&read_order("1"), &options).await.unwrap();
    assert!(String::from_utf8_lossy(item.body()).contains(r#""n":1"#), "{:?}", item.body());
}

/// Connections' tasks went on after the shutdown, and served.
#[tokio::test]
async fn after_a_shutdown_no_task_is_left_and_no_connection() {
    let store = Store::open().await;
    let options = OperationOptions::default();
    store.driver.execute_operation(&create_order("1"), &options).await.unwrap();
    let outcome = store.runtime.shutdown(Duration::from_secs(20)).await;
    assert_eq!(outcome, ShutdownOutcome::AllEnded);
    let error = store.driver.execute_operation(&read_order("1"), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_cancelled_operation_ends_with_an_error() {
    let store = Store::open().await;
    let cancellation = CancellationToken::new();
    cancellation.cancel();
    let method_options =
        ClientMethodOptions { cancellation: Some(&cancellation), ..Default::default() };
    let options = OperationOptions { method_options, ..OperationOptions::default() };
    match store.driver.execute_operation(&read_order("1"), &options).await {
        Err(error) if error.kind() == ErrorKind::Cancelled => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn accounts_of_a_runtime_share_their_connections_unless_one_sets_its_own() {
    let emulator = Emulator::builder().start().await.unwrap();
    let runtime = runtime_for(&emulator);
    let driver = |options: CosmosClientOptions| {
        let endpoint = emulator.endpoint().parse().unwrap();
        let key = Credential::Key(emulator.key().clone());
        CosmosDriver::new(Arc::clone(&runtime), endpoint, key, options).unwrap()
    };
    let shard_of = async |driver: &CosmosDriver| {
        let options = OperationOptions::default();
        let error = driver.execute_operation(&read_order("1"), &options).await.unwrap_err();
        let attempt = &error.diagnostics().unwrap().attempts()[0];
        (attempt.shard, attempt.protocol)
    };
    let (first, second) =
        (driver(CosmosClientOptions::default()), driver(CosmosClientOptions::default()));
    let shared = (Some(0), Some(HttpProtocol::Http2));
    assert_eq!((shard_of(&first).await, shard_of(&second).await), (shared, shared));
    let mut own = CosmosClientOptions::default();
    own.client_options.is_http2_allowed = Some(false);
    assert_eq!(shard_of(&driver(own)).await, (Some(0), Some(HttpProtocol::Http1)));
}
