//! The account of an example: the one that the environment names, else an emulator within the process.

use sidereal::prelude::*;
use sidereal_emulator::Emulator;

/// An account with a database of its own.
pub(crate) struct Account {
    pub(crate) database: DatabaseClient,
    /// The emulator, if the account is its.
    pub(crate) emulator: Option<Emulator>,
}

impl Account {
    /// Connects to the account of `AZURE_COSMOS_ENDPOINT` and `AZURE_COSMOS_KEY`, or of
    /// `AZURE_COSMOS_CONNECTION_STRING`; starts an emulator with three regions if none is set.
    pub(crate) async fn open(example: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let names = ["AZURE_COSMOS_ENDPOINT", "AZURE_COSMOS_CONNECTION_STRING"];
        let is_named = names.iter().any(|name| std::env::var_os(name).is_some());
        let (client, emulator) = match is_named {
            true => (CosmosClient::from_env(None)?, None),
            false => {
                let regions = ["West US", "East US", "UK South"];
                let emulator = Emulator::builder().regions(regions).partitions(4).start().await?;
                let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
                    .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())?
                    .build()?;
                (client, Some(emulator))
            }
        };
        // One that nobody has yet: it is removed at the end.
        let id = format!("sidereal-{example}-{}", std::process::id());
        client.create_database(&id, None).await?;
        Ok(Self { database: client.database(&id), emulator })
    }

    /// A container of the example's database, partitioned by one property.
    #[allow(dead_code, reason = "not every example needs one")]
    pub(crate) async fn container(&self, id: &str, key: &str) -> sidereal::Result<ContainerClient> {
        let properties = ContainerProperties::new(id, PartitionKeyDefinition::new([key])?);
        self.database.create_container(properties, None).await?;
        Ok(self.database.container(id))
    }

    /// Removes what the example made.
    pub(crate) async fn close(self) -> sidereal::Result<()> {
        self.database.delete(None).await?;
        if let Some(emulator) = self.emulator {
            emulator.shutdown().await;
        }
        Ok(())
    }
}
