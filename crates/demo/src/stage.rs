//! The account of the demo, and the application that uses it: one process, but every request over a socket.

use std::sync::Arc;
use std::time::Duration;

use sidereal::driver::CosmosDriverRuntime;
use sidereal::options::{CosmosClientOptions, CosmosEnvironmentOptions, Ratio};
use sidereal::prelude::{
    ContainerClient, ContainerProperties, CosmosClient, PartitionKeyDefinition,
};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::Emulator;
use sidereal_protocol::RegionName;

use crate::error::DemoError;
use crate::schedule::{PARTITIONS, Windows};

/// The database of everything.
pub(crate) const DATABASE: &str = "shop";
/// The container of plain reads and writes.
const PROFILES: &str = "profiles";
/// The container of the items that activities create.
pub(crate) const EFFECTS: &str = "effects";
/// The container of the items that the last activity of an orchestration creates.
pub(crate) const RECEIPTS: &str = "receipts";
/// The container of the provider.
pub(crate) const ORCHESTRATIONS: &str = "orchestrations";
/// Containers as counters name them.
pub(crate) const EFFECTS_PATH: &str = "shop/effects";
pub(crate) const RECEIPTS_PATH: &str = "shop/receipts";
/// Every container, for what happens to a partition of each.
pub(crate) const CONTAINERS: [&str; 4] = [PROFILES, EFFECTS, RECEIPTS, ORCHESTRATIONS];

/// How far the other regions are behind the one that writes.
const REPLICATION_DELAY: Duration = Duration::from_millis(20);

/// How often an operation goes to another region. While the write region is lost, no region accepts writes until they are
/// handed over, and a write has to be tried for that long.
const FAILOVER_RETRIES: u32 = 10;

/// The share of requests that may be joined by another: a region is slow for seconds here, not for minutes.
const HEDGING_RATIO: f64 = 0.5;

/// A setting that the demo does not leave as it is.
pub(crate) struct Adjustment {
    pub(crate) what: &'static str,
    pub(crate) here: String,
    pub(crate) usually: &'static str,
}

/// Every setting that is not the default: a run of seconds shows what takes minutes in production.
pub(crate) fn adjustments(windows: &Windows) -> [Adjustment; 4] {
    let ms = |duration: Duration| duration.as_millis();
    [
        Adjustment {
            what: "failback",
            here: format!("the client probes what it avoids after {} ms", ms(windows.failback)),
            usually: "5 s for a partition, 60 s for a region",
        },
        Adjustment {
            what: "hand-over",
            here: format!(
                "the write region changes within {} + {} ms",
                ms(windows.announcement),
                ms(windows.overlap)
            ),
            usually: "6 + 16 s, by the service",
        },
        Adjustment {
            what: "retries",
            here: format!("a call is retried {FAILOVER_RETRIES} times in other regions"),
            usually: "3",
        },
        Adjustment {
            what: "hedges",
            here: format!("{:.0} % of requests may be hedged", HEDGING_RATIO * 100.0),
            usually: "10 %",
        },
    ]
}

/// The account and the application's clients.
pub(crate) struct Stage {
    pub(crate) emulator: Emulator,
    client: CosmosClient,
}

impl Stage {
    /// Starts the account and creates the containers.
    pub(crate) async fn open(
        regions: &[RegionName],
        windows: Option<Windows>,
    ) -> Result<Self, DemoError> {
        let emulator = Emulator::builder()
            .regions(regions.iter().cloned())
            .partitions(PARTITIONS)
            .replication_delay(REPLICATION_DELAY)
            .partition_failover(true)
            .start()
            .await?;
        let client = connect(&emulator, regions, windows)?;
        let stage = Self { emulator, client };
        stage.client.create_database(DATABASE, None).await?;
        for (id, key) in [(PROFILES, "/customer"), (EFFECTS, "/order"), (RECEIPTS, "/order")] {
            let key = PartitionKeyDefinition::new([key])?;
            let properties = ContainerProperties::new(id, key);
            stage.client.database(DATABASE).create_container(properties, None).await?;
        }
        Ok(stage)
    }

    pub(crate) fn profiles(&self) -> ContainerClient {
        self.client.database(DATABASE).container(PROFILES)
    }

    /// The containers of effects and of receipts.
    pub(crate) fn effects(&self) -> (ContainerClient, ContainerClient) {
        let container = |id| self.client.database(DATABASE).container(id);
        (container(EFFECTS), container(RECEIPTS))
    }

    /// A provider for a duroxide runtime.
    pub(crate) async fn provider(&self) -> Result<Arc<CosmosDBProvider>, DemoError> {
        let config = CosmosDBProviderConfig::with_client(self.client.clone())
            .with_database(DATABASE)
            .with_container(ORCHESTRATIONS);
        Ok(Arc::new(CosmosDBProvider::new(config).await?))
    }
}

/// Connects the application, which is in the first region. Its settings are the defaults but for
/// [`adjustments`].
fn connect(
    emulator: &Emulator,
    regions: &[RegionName],
    windows: Option<Windows>,
) -> Result<CosmosClient, DemoError> {
    // Not from the environment: the same command shows the same on every machine.
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .build()
        .map_err(|error| DemoError::Driver(error.to_string()))?;
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(regions.to_vec());
    options.availability.max_failover_retry_count = Some(FAILOVER_RETRIES);
    options.availability.hedging_budget_ratio = Some(Ratio::constant(HEDGING_RATIO));
    if let Some(Windows { failback, .. }) = windows {
        options.partition_failover.partition_unavailability_duration = Some(failback);
        options.partition_failover.endpoint_unavailable_duration = Some(failback);
    }
    let builder = CosmosClient::builder(emulator.http_endpoint(), emulator.key().clone());
    Ok(builder.runtime(runtime).options(options).build()?)
}
