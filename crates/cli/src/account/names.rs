//! Names on the command line.

use std::fmt;
use std::str::FromStr;

use sidereal::models::{ContainerProperties, PartitionKeyDefinition};
use sidereal::{ContainerClient, CosmosClient};

use crate::failure::Failure;

/// A container, as `database/container`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerName {
    pub(crate) database: String,
    pub(crate) container: String,
}

impl ContainerName {
    /// The client of the container.
    pub(crate) fn client(&self, client: &CosmosClient) -> ContainerClient {
        client.database(&self.database).container(&self.container)
    }

    /// Reads how the container is partitioned; one that is not there is told with the way to find it.
    pub(crate) async fn open(&self, client: &CosmosClient) -> Result<ItemScope, Failure> {
        let container = self.client(client);
        let read = container.read(None).await.map_err(|error| self.explain(error))?;
        let properties: ContainerProperties = read.into_properties()?;
        Ok(ItemScope { container, definition: properties.partition_key })
    }

    /// A failure with what this container has to do with it.
    pub(crate) fn explain(&self, error: sidereal::Error) -> Failure {
        let is_missing = error.kind() == sidereal::ErrorKind::NotFound;
        let failure = Failure::from(error);
        if !is_missing {
            return failure;
        }
        Failure::new(failure.status(), format!("there is no container {self}")).with_hint(format!(
            "`sidereal container list {}` lists those that there are",
            self.database
        ))
    }
}

/// A container whose partition key is known, so that keys can be taken from items.
#[derive(Clone, Debug)]
pub(crate) struct ItemScope {
    pub(crate) container: ContainerClient,
    pub(crate) definition: PartitionKeyDefinition,
}

impl fmt::Display for ContainerName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.database, self.container)
    }
}

impl FromStr for ContainerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An id has no slash in it, so there is one way to read this.
        match text.split_once('/') {
            Some((database, container))
                if !database.is_empty() && !container.is_empty() && !container.contains('/') =>
            {
                Ok(Self { database: database.to_owned(), container: container.to_owned() })
            }
            _ => Err("expected a database and a container, such as shop/orders".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_named_with_its_database() {
        let name: ContainerName = "shop/käufe".parse().unwrap();
        assert_eq!((name.database.as_str(), name.container.as_str()), ("shop", "käufe"));
        assert_eq!(name.to_string(), "shop/käufe");
        for wrong in ["", "shop", "shop/", "/orders", "a/b/c"] {
            assert!(wrong.parse::<ContainerName>().unwrap_err().contains("shop/orders"), "{wrong}");
        }
    }
}
