//! The configuration of a provider: account, names, throughput, intervals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sidereal::driver::system::Clock;
use sidereal::models::{ContainerProperties, RegionName, ThroughputProperties};
use sidereal::{CosmosClient, CosmosCredential};
use sidereal_protocol::ConnectionString;

use crate::definition::properties;
use crate::dispatch::Dispatch;
use crate::telemetry::Telemetry;
use crate::{LeaseProvider, ProviderSetupError};

/// The default of `reconciler_scan_interval`.
const SCAN_INTERVAL: Duration = Duration::from_secs(30);

/// The endpoint of the local account, and the key of every Cosmos DB emulator, which is public.
const EMULATOR_ENDPOINT: &str = "http://localhost:8081/";
const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The configuration of a [`CosmosDBProvider`](crate::CosmosDBProvider).
///
/// ```no_run
/// use sidereal_duroxide::CosmosDBProviderConfig;
///
/// let config = CosmosDBProviderConfig::from_env()?.with_database("workflows");
/// # Ok::<(), sidereal_duroxide::ProviderSetupError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct CosmosDBProviderConfig {
    pub(crate) account: Account,
    /// The database; it is created if it is missing.
    pub database: String,
    /// The container; it is created if it is missing.
    pub container: String,
    /// The throughput that the container is created with, manual or autoscale. An existing container keeps its own.
    ///
    /// Without it the service decides: 400 RU/s, or the throughput that the database shares. A batch of 99 writes costs about
    /// 1,000 RU, so a container with less throttles large turns.
    pub throughput: Option<ThroughputProperties>,
    /// How many orchestration dispatchers the runtime has.
    pub orch_concurrency: u32,
    /// How many worker dispatchers the runtime has.
    pub worker_concurrency: u32,
    /// How often this process looks for undelivered messages of its own whose back-off has ended.
    pub reconciler_interval: Duration,
    /// The age from which this process delivers pending messages of other processes.
    pub reconciler_age_threshold: Duration,
    /// How often the container is searched for pending messages of other processes.
    pub reconciler_scan_interval: Duration,
    /// Whether a fetch queries the container once and ignores its poll timeout. Each dispatcher then queries by itself.
    pub short_poll: bool,
    /// The pause between queries for work after one that found some.
    pub feed_interval_min: Duration,
    /// The longest pause between queries for work, for a container of one partition; with more, pauses are longer. Work of
    /// other processes waits for so long; that of this process is found at once.
    pub feed_interval_max: Duration,
    /// The limit of the history cache, in bytes.
    pub history_cache_bytes: usize,
    /// How the slots of the instances are divided among processes and dispatchers.
    pub leases: Leases,
    /// How long a process that is gone keeps its slots and its locks. Each process extends its lease at a third of it.
    pub lease_duration: Duration,
    /// Whether this process tells its own dispatchers of work that it enqueues. Without hints all work is found by queries:
    /// slower, and as correct. For tests.
    pub hints: bool,
    /// The region that the container is moved to; see
    /// [`with_region_moved_risking_duplicates`](Self::with_region_moved_risking_duplicates).
    pub(crate) moved_to: Option<RegionName>,
    pub(crate) clock: Clock,
    #[cfg(feature = "otel")]
    pub(crate) meter: Option<opentelemetry::metrics::Meter>,
}

/// How the slots of the instances are divided among processes and dispatchers.
#[derive(Clone, Debug, Default)]
pub enum Leases {
    /// Among all processes of the container, by leases that are stored there.
    #[default]
    CosmosDB,
    /// Among the dispatchers of this process, which is the only one.
    InMemory,
    /// By lease providers of the application.
    Custom {
        /// For orchestrations, and for the process as a whole.
        orchestrations: Arc<dyn LeaseProvider>,
        /// For workers that query by themselves, with short polls.
        workers: Arc<dyn LeaseProvider>,
    },
}

/// The account that a provider stores in.
#[derive(Clone, Debug)]
pub(crate) enum Account {
    /// An account to connect to.
    At(String, CosmosCredential),
    /// An account that the application is connected to.
    Connected(CosmosClient),
    /// An account within the process, started by the first provider that needs it.
    #[cfg(feature = "emulator")]
    Embedded(EmbeddedAccount),
}

/// An account within the process, for as long as a provider or a configuration has it.
#[cfg(feature = "emulator")]
pub(crate) type EmbeddedAccount =
    std::sync::Arc<tokio::sync::OnceCell<sidereal_emulator::Emulator>>;

impl CosmosDBProviderConfig {
    /// Configures the account at an endpoint, with any credential that the client takes.
    pub fn new(endpoint: impl Into<String>, credential: impl Into<CosmosCredential>) -> Self {
        Self::of(Account::At(endpoint.into(), credential.into()))
    }

    /// Configures the account of a client of the application.
    pub fn with_client(client: CosmosClient) -> Self {
        Self::of(Account::Connected(client))
    }

    fn of(account: Account) -> Self {
        Self {
            account,
            database: "duroxide".to_owned(),
            container: "duroxide".to_owned(),
            throughput: None,
            orch_concurrency: 1,
            worker_concurrency: 1,
            reconciler_interval: Duration::from_secs(2),
            reconciler_age_threshold: Duration::from_secs(2),
            reconciler_scan_interval: SCAN_INTERVAL,
            short_poll: false,
            feed_interval_min: Duration::from_millis(50),
            feed_interval_max: Duration::from_millis(1_250),
            history_cache_bytes: 64 << 20,
            leases: Leases::CosmosDB,
            lease_duration: Duration::from_secs(9),
            hints: true,
            moved_to: None,
            clock: Clock::default(),
            #[cfg(feature = "otel")]
            meter: None,
        }
    }

    /// Configures the account that a connection string names, as the portal shows it.
    ///
    /// ```
    /// use sidereal_duroxide::CosmosDBProviderConfig;
    ///
    /// let text = "AccountEndpoint=https://contoso.documents.azure.com/;AccountKey=c2VjcmV0;";
    /// let config = CosmosDBProviderConfig::from_connection_string(text)?;
    /// # Ok::<(), sidereal_duroxide::ProviderSetupError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProviderSetupError`] if the text lacks the endpoint or the key, or the key is not base64. The error does not repeat the text.
    pub fn from_connection_string(text: &str) -> Result<Self, ProviderSetupError> {
        let parsed: ConnectionString = text.trim().parse().map_err(sidereal::Error::from)?;
        Ok(Self::new(parsed.endpoint().to_string(), parsed.key().clone()))
    }

    /// Configures the account that the environment names: `COSMOSDB_CONNECTION_STRING`, or `COSMOSDB_ENDPOINT` and `COSMOSDB_KEY`.
    ///
    /// The connection string wins over the other two. `COSMOSDB_DATABASE` and `COSMOSDB_CONTAINER` name the database and the
    /// container. `COSMOS_…` are aliases.
    ///
    /// # Errors
    ///
    /// [`ProviderSetupError`] if neither the connection string nor both of the others are set, or the key is not base64.
    pub fn from_env() -> Result<Self, ProviderSetupError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Configures the account that an environment of the caller's names.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_lookup(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderSetupError> {
        let set = |name: &str| {
            let names = [format!("COSMOSDB_{name}"), format!("COSMOS_{name}")];
            names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()))
        };
        let missing = |name: &str| {
            ProviderSetupError::configuration(format!(
                "COSMOSDB_{name} is not set: name the account in COSMOSDB_ENDPOINT and COSMOSDB_KEY, or in \
                 COSMOSDB_CONNECTION_STRING"
            ))
        };
        let mut config = match set("CONNECTION_STRING") {
            Some(text) => Self::from_connection_string(&text)?,
            None => {
                let endpoint = set("ENDPOINT").ok_or_else(|| missing("ENDPOINT"))?;
                let key = set("KEY").ok_or_else(|| missing("KEY"))?;
                Self::new(endpoint, CosmosCredential::key(&key)?)
            }
        };
        if let Some(database) = set("DATABASE") {
            config.database = database;
        }
        if let Some(container) = set("CONTAINER") {
            config.container = container;
        }
        Ok(config)
    }

    /// Configures the local account, as `sidereal emulator` starts it.
    pub fn emulator() -> Self {
        let key = CosmosCredential::key(EMULATOR_KEY).expect("the emulator's key is base64");
        Self::new(EMULATOR_ENDPOINT, key)
    }

    /// Configures an account within the process, which keeps everything in memory: for tests and demonstrations.
    ///
    /// It starts with the first provider and ends with the last one and the last copy of the configuration. Copies
    /// share it, so that two providers of one are two processes on one account.
    ///
    /// ```
    /// use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), sidereal_duroxide::ProviderSetupError> {
    /// let store = CosmosDBProvider::new(CosmosDBProviderConfig::embedded()).await?;
    /// # store.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "emulator")]
    pub fn embedded() -> Self {
        Self::of(Account::Embedded(EmbeddedAccount::default()))
    }

    /// Sets the database.
    pub fn with_database(mut self, database: impl Into<String>) -> Self {
        self.database = database.into();
        self
    }

    /// Sets the container.
    pub fn with_container(mut self, container: impl Into<String>) -> Self {
        self.container = container.into();
        self
    }

    /// Sets the throughput of the container, if the provider creates it.
    ///
    /// ```no_run
    /// use sidereal::prelude::*;
    /// use sidereal_duroxide::CosmosDBProviderConfig;
    ///
    /// let throughput = ThroughputProperties::autoscale(4_000, None);
    /// let config = CosmosDBProviderConfig::from_env()?.with_throughput(throughput);
    /// # Ok::<(), sidereal_duroxide::ProviderSetupError>(())
    /// ```
    pub fn with_throughput(mut self, throughput: ThroughputProperties) -> Self {
        self.throughput = Some(throughput);
        self
    }

    /// Returns the definition of the container: its partition key, time to live and indexing policy.
    ///
    /// For creating it beforehand where the provider's credential cannot, as with roles of the data plane (Entra ID).
    #[must_use]
    pub fn container_properties(&self) -> ContainerProperties {
        properties(&self.container)
    }

    /// Moves the container's orchestrations to another region of an account that takes writes in several.
    ///
    /// There, all requests of all providers of a container go to one region: the first provider's, which is stored in
    /// the container. Two regions would each grant the same lock. What the former region has not replicated yet is
    /// missing in the new one: turns that were committed may run again, and messages may be handled twice. Stop every
    /// provider of the container first, and wait until the regions agree; if the former region is lost, there is no
    /// such moment. Start one provider with this setting, then all without it.
    pub fn with_region_moved_risking_duplicates(mut self, region: impl Into<RegionName>) -> Self {
        self.moved_to = Some(region.into());
        self
    }

    /// Sends metrics through a meter provider of the application; see
    /// [docs/telemetry.md](https://sidereal.example/repository/docs/telemetry.md). Those of the requests below are the
    /// client's.
    #[cfg(feature = "otel")]
    pub fn with_meter_provider(
        mut self,
        provider: &dyn opentelemetry::metrics::MeterProvider,
    ) -> Self {
        let scope = opentelemetry::InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        self.meter = Some(provider.meter_with_scope(scope));
        self
    }

    /// The instruments of the provider.
    #[cfg(feature = "otel")]
    pub(crate) fn telemetry(&self, dispatch: &Arc<Dispatch>) -> Telemetry {
        let Some(meter) = &self.meter else { return Telemetry::default() };
        // Weak: a provider of meters keeps its callbacks for as long as it lives.
        let dispatch = Arc::downgrade(dispatch);
        Telemetry::observe_queues(meter, move || Some(dispatch.upgrade()?.ready()));
        Telemetry::new(meter)
    }

    #[cfg(not(feature = "otel"))]
    #[allow(clippy::unused_self, reason = "the same call as with the feature")]
    pub(crate) fn telemetry(&self, _dispatch: &Arc<Dispatch>) -> Telemetry {
        Telemetry::default()
    }

    /// Takes time and ids from a clock, such as a simulation's.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
}

impl Account {
    /// Whether the account is within the process.
    pub(crate) fn is_embedded(&self) -> bool {
        match self {
            Self::At(..) | Self::Connected(_) => false,
            #[cfg(feature = "emulator")]
            Self::Embedded(_) => true,
        }
    }

    /// Connects to the account; one within the process is started before.
    pub(crate) async fn connect(&self) -> Result<CosmosClient, ProviderSetupError> {
        match self {
            Self::Connected(client) => Ok(client.clone()),
            Self::At(endpoint, credential) => {
                Ok(CosmosClient::new(endpoint, credential.clone(), None)?)
            }
            #[cfg(feature = "emulator")]
            Self::Embedded(account) => {
                let started = account.get_or_try_init(|| async {
                    sidereal_emulator::Emulator::builder().start().await.map_err(|error| {
                        let sentence = format!("the account within the process: {error}");
                        ProviderSetupError::configuration(sentence)
                    })
                });
                let emulator = started.await?;
                let key = emulator.key().clone();
                Ok(CosmosClient::new(emulator.http_endpoint(), key, None)?)
            }
        }
    }
}

impl fmt::Debug for CosmosDBProviderConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = match &self.account {
            Account::At(endpoint, _) => endpoint.as_str(),
            Account::Connected(_) => "connected",
            #[cfg(feature = "emulator")]
            Account::Embedded(_) => "embedded",
        };
        formatter
            .debug_struct("CosmosDBProviderConfig")
            .field("endpoint", &endpoint)
            .field("database", &self.database)
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<CosmosDBProviderConfig, ProviderSetupError> {
        CosmosDBProviderConfig::from_lookup(|name| {
            set.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_names_the_account_the_database_and_the_container() {
        let account = [("COSMOSDB_ENDPOINT", "https://contoso/"), ("COSMOSDB_KEY", "c2VjcmV0")];
        let config = of(&account).unwrap();
        assert_eq!((config.database.as_str(), config.container.as_str()), ("duroxide", "duroxide"));
        let printed = format!("{config:?}");
        assert!(printed.contains("https://contoso/") && !printed.contains("c2VjcmV0"), "{printed}");
        let names = [("COSMOSDB_DATABASE", "workflows"), ("COSMOS_CONTAINER", "orders")];
        let config = of(&[&account[..], &names].concat()).unwrap();
        assert_eq!((config.database.as_str(), config.container.as_str()), ("workflows", "orders"));
        let aliases = [("COSMOS_ENDPOINT", "https://other/"), ("COSMOS_KEY", "c2VjcmV0")];
        assert!(format!("{:?}", of(&aliases).unwrap()).contains("https://other/"));
        let both = of(&[&account[..], &aliases].concat()).unwrap();
        assert!(format!("{both:?}").contains("https://contoso/"), "the alias comes second");
    }

    #[test]
    fn a_connection_string_wins_over_endpoint_and_key() {
        let text = "AccountEndpoint=https://contoso/;AccountKey=c2VjcmV0;";
        let others = [("COSMOSDB_ENDPOINT", "https://other/"), ("COSMOSDB_KEY", "b3RoZXI=")];
        for name in ["COSMOSDB_CONNECTION_STRING", "COSMOS_CONNECTION_STRING"] {
            let config = of(&[&others[..], &[(name, text), ("COSMOSDB_DATABASE", "db")]].concat());
            let printed = format!("{:?}", config.unwrap());
            assert!(
                printed.contains("https://contoso/") && printed.contains("\"db\""),
                "{printed}"
            );
        }
        let malformed = of(&[("COSMOSDB_CONNECTION_STRING", "AccountKey=half-a-secret?")]);
        let told = format!("{0} {0:?}", malformed.unwrap_err());
        assert!(told.contains("AccountEndpoint") && !told.contains("half-a-secret"), "{told}");
    }

    #[test]
    fn what_is_missing_or_malformed_in_the_environment_is_told() {
        let key = ("COSMOSDB_KEY", "c2VjcmV0");
        let told = |set: &[(&str, &str)]| of(set).unwrap_err().to_string();
        assert!(told(&[key]).contains("COSMOSDB_ENDPOINT is not set"));
        assert!(told(&[("COSMOSDB_ENDPOINT", ""), key]).contains("COSMOSDB_ENDPOINT is not set"));
        assert!(told(&[("COSMOSDB_ENDPOINT", "https://c/")]).contains("COSMOSDB_KEY is not set"));
        let malformed = told(&[("COSMOSDB_ENDPOINT", "https://c/"), ("COSMOSDB_KEY", "no key!")]);
        assert!(!malformed.contains("no key!"), "{malformed}");
    }
}
