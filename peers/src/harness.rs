//! Emulators, clients and scenarios.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use azure_data_cosmos::clients::{ContainerClient, CosmosClient, DatabaseClient};
use azure_data_cosmos::models::{ContainerProperties, PartitionKeyDefinition};
use azure_data_cosmos::options::{
    BinaryEncodingOptions, ConnectionPoolOptions, ContentResponseOnWrite, CreateContainerOptions,
    ItemWriteOptions, OperationOptions, RoutingStrategy, ServerCertificateValidation,
};
use azure_data_cosmos::{AccountEndpoint, AccountReference, CosmosError, CosmosRuntime};
use serde_json::{Value, json};
use sidereal_emulator::{Emulator, Operation};

/// Longer than any scenario takes; it only ends one that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

pub type Failure = Box<dyn Error + Send + Sync>;

/// What a scenario found.
pub enum Outcome {
    Passed,
    /// The SDK refuses, by itself, what the scenario asks of it; what it lacks, and how it says so.
    SdkLacks(String),
    /// The emulator refuses, with a sentence, what the SDK and the service have.
    EmulatorLacks(&'static str),
    Failed(Failure),
}

impl Outcome {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::SdkLacks(_) => "SDK lacks",
            Self::EmulatorLacks(_) => "not here",
            Self::Failed(_) => "FAILED",
        }
    }
}

type Run = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

pub struct Scenario {
    pub area: &'static str,
    pub name: &'static str,
    pub run: fn(Peer) -> Run,
}

/// Makes scenarios of functions; their names are the sentences that they prove.
#[macro_export]
macro_rules! scenarios {
    ($area:literal: $($function:ident),+ $(,)?) => {
        pub fn all() -> Vec<$crate::harness::Scenario> {
            vec![$($crate::harness::Scenario {
                area: $area,
                name: stringify!($function),
                run: |peer| Box::pin($function(peer)),
            }),+]
        }
    };
}

/// Fails the scenario unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($format:tt)+) => {
        if !$condition {
            return Err(format!("{}: {}", stringify!($condition), format!($($format)+)).into());
        }
    };
}

pub async fn run(scenario: &Scenario, peer: Peer) -> Outcome {
    match tokio::time::timeout(TIMEOUT, (scenario.run)(peer)).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(_) => Outcome::Failed(format!("it takes longer than {TIMEOUT:?}").into()),
    }
}

/// The regions of the account that accepts writes in all of them.
const REGIONS: [&str; 2] = ["East US", "West US 2"];

/// A container of a scenario's own, called `c`, and its database.
pub struct Container {
    database: String,
    client: ContainerClient,
}

impl Deref for Container {
    type Target = ContainerClient;

    fn deref(&self) -> &ContainerClient {
        &self.client
    }
}

/// The accounts of all scenarios.
pub struct Emulators {
    /// One region, five partitions for each container.
    single: Arc<Emulator>,
    /// Two regions that both accept writes.
    multi_write: Arc<Emulator>,
}

impl Emulators {
    pub async fn start() -> Result<Self, Failure> {
        let single = Emulator::builder().partitions(5).start().await?;
        let multi_write = Emulator::builder().regions(REGIONS).multi_write(true).start().await?;
        Ok(Self { single: single.into(), multi_write: multi_write.into() })
    }
}

/// A way to connect.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    is_tls: bool,
    /// None: what the SDK does by default.
    binary: Option<bool>,
}

impl Connection {
    pub const ALL: [Self; 6] = [
        Self { is_tls: false, binary: None },
        Self { is_tls: false, binary: Some(true) },
        Self { is_tls: false, binary: Some(false) },
        Self { is_tls: true, binary: None },
        Self { is_tls: true, binary: Some(true) },
        Self { is_tls: true, binary: Some(false) },
    ];

    pub fn name(self) -> &'static str {
        match (self.is_tls, self.binary) {
            (false, None) => "http",
            (false, Some(true)) => "http binary",
            (false, Some(false)) => "http text",
            (true, None) => "tls",
            (true, Some(true)) => "tls binary",
            (true, Some(false)) => "tls text",
        }
    }
}

/// The SDK, connected in one way to the accounts.
#[derive(Clone)]
pub struct Peer {
    single: Arc<Emulator>,
    multi_write: Arc<Emulator>,
    connection: Connection,
}

impl Peer {
    pub fn new(emulators: &Emulators, connection: Connection) -> Self {
        let Emulators { single, multi_write } = emulators;
        Self { single: single.clone(), multi_write: multi_write.clone(), connection }
    }

    /// Splits a partition range of a container.
    pub fn split(&self, container: &Container, range: &str) -> Result<(), Failure> {
        self.single.account().split_range(&container.database, "c", range, Duration::ZERO)?;
        Ok(())
    }

    /// Whether this way to connect sends and asks for binary JSON, which the SDK does by default.
    pub fn is_binary(&self) -> bool {
        self.connection.binary != Some(false)
    }

    /// The bytes of the bodies of an operation on a container's items, sent and answered.
    pub fn body_bytes(&self, container: &Container, operation: Operation) -> (u64, u64) {
        let name = format!("{}/c", container.database);
        let rows = self.single.account().counters().into_iter();
        // Only requests about items have a range.
        let own = rows.filter(|row| {
            row.operation == operation
                && row.range.is_some()
                && row.container.as_deref() == Some(&name)
        });
        own.fold((0, 0), |(sent, answered), row| {
            (sent + row.request_bytes, answered + row.response_bytes)
        })
    }

    /// How many items were created in each region of the account of two.
    pub fn creates_by_region(&self) -> [u64; 2] {
        REGIONS.map(|region| {
            let rows = self.multi_write.account().counters().into_iter();
            let creates = rows.filter(|row| {
                row.region.as_str() == region
                    && row.operation == Operation::Create
                    && row.status == 201
            });
            creates.filter(|row| row.range.is_some()).map(|row| row.requests).sum()
        })
    }

    pub async fn client(&self) -> Result<CosmosClient, Failure> {
        self.connect(&self.single, vec!["West US".into()]).await
    }

    /// A client of the account of two regions that prefers one of them.
    pub async fn multi_write_client(&self, region: &'static str) -> Result<CosmosClient, Failure> {
        self.connect(&self.multi_write, vec![region.into()]).await
    }

    async fn connect(
        &self,
        emulator: &Emulator,
        regions: Vec<azure_data_cosmos::options::Region>,
    ) -> Result<CosmosClient, Failure> {
        let url =
            if self.connection.is_tls { emulator.endpoint() } else { emulator.http_endpoint() };
        let endpoint: AccountEndpoint = url.parse()?;
        let key = emulator.key().expose_secret().to_owned();
        let account = AccountReference::with_authentication_key(endpoint, key);
        // The emulator's certificate is its own.
        let pool = ConnectionPoolOptions::builder()
            .with_server_certificate_validation(ServerCertificateValidation::RequiredUnlessEmulator)
            .build()?;
        let runtime = CosmosRuntime::builder().with_connection_pool(pool).build().await?;
        let mut builder = CosmosClient::builder().with_runtime(runtime);
        if let Some(enabled) = self.connection.binary {
            let options = BinaryEncodingOptions::new().with_enabled(enabled);
            builder = builder.with_binary_encoding_options(options);
        }
        Ok(builder.build(account, RoutingStrategy::PreferredRegions(regions)).await?)
    }

    /// A database of the scenario's own.
    pub async fn database(&self, client: &CosmosClient) -> Result<DatabaseClient, Failure> {
        let name = unique("db");
        client.create_database(&name, None).await?;
        Ok(client.database_client(name))
    }

    /// A container of the scenario's own, partitioned by `/pk`.
    pub async fn container(&self) -> Result<Container, Failure> {
        self.container_by("/pk".into()).await
    }

    pub async fn container_by(&self, key: PartitionKeyDefinition) -> Result<Container, Failure> {
        let client = self.client().await?;
        let database = self.database(&client).await?;
        let name = database.name().ok_or("a database without a name")?.to_owned();
        let client = create_container(&database, ContainerProperties::new("c", key), None).await?;
        Ok(Container { database: name, client })
    }

    /// A container with items `0` to `count - 1`, spread over ten partition keys.
    pub async fn filled(&self, count: u64) -> Result<Container, Failure> {
        let container = self.container().await?;
        for number in 0..count {
            let item = numbered(number);
            container.create_item(key_of(number), &number.to_string(), &item, None).await?;
        }
        Ok(container)
    }
}

pub async fn create_container(
    database: &DatabaseClient,
    properties: ContainerProperties,
    options: Option<CreateContainerOptions>,
) -> Result<ContainerClient, Failure> {
    let name = properties.id.to_string();
    database.create_container(properties, options).await?;
    Ok(database.container_client(name, None).await?)
}

/// The item that the queries are written for.
pub fn numbered(number: u64) -> Value {
    json!({
        "id": number.to_string(),
        "pk": key_of(number),
        "number": number,
        "parity": if number.is_multiple_of(2) { "even" } else { "odd" },
        "tags": [format!("t{}", number % 3), "all"],
    })
}

pub fn key_of(number: u64) -> String {
    format!("key-{}", number % 10)
}

pub fn unique(kind: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only uniqueness matters.
    format!("{kind}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options of a write whose response has the item in it.
pub fn with_body() -> Option<ItemWriteOptions> {
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    Some(ItemWriteOptions::default().with_operation_options(operation))
}

/// The status that a call was refused with.
pub fn refused<T>(result: Result<T, CosmosError>, status: u16) -> Result<CosmosError, Failure> {
    match result {
        Ok(_) => Err(format!("expected {status}, got an answer").into()),
        Err(error) if error.status().status_code() == status => Ok(error),
        Err(error) => Err(Box::new(Unexpected { status, error })),
    }
}

/// What the SDK lacks: it must refuse by itself, or not name a feature among those that a plan may need, so that the
/// account refuses it with 400/1004.
pub fn lacks<T>(result: Result<T, CosmosError>, what: &str) -> Result<Outcome, Failure> {
    match result {
        Ok(_) => Err(format!("the SDK has {what} by now: write the scenario").into()),
        Err(error) if error.is_from_wire() && sub_status(&error) != Some(1004) => Err(error.into()),
        Err(error) => Ok(Outcome::SdkLacks(format!("{what} ({})", error.status()))),
    }
}

/// The sub-status that an error carries.
pub fn sub_status(error: &CosmosError) -> Option<u16> {
    error.status().sub_status().map(|sub_status| sub_status.value())
}

#[derive(Debug)]
struct Unexpected {
    status: u16,
    error: CosmosError,
}

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, got {}", self.status, self.error)
    }
}

impl Error for Unexpected {}

/// An item without the properties that the service adds.
pub fn without_system(mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| !name.starts_with('_'));
    }
    item
}
