//! The client of a database.

use std::sync::Arc;

use sidereal_driver::options::{
    CreateContainerOptions, DeleteDatabaseOptions, ReadContainerOptions, ReadDatabaseOptions,
    ThroughputOptions,
};
use sidereal_driver::{CosmosDriver, CosmosOperation};
use sidereal_protocol::{
    ContainerProperties, DatabaseProperties, OperationType, RequestPath, ResourceLink,
    ResourceType, ThroughputProperties,
};

use super::ContainerClient;
use super::throughput::{self, with_throughput};
use crate::call::{execute, resource_options};
use crate::item_body::encode;
use crate::{Error, ErrorKind, Response, Result};

/// The client of a database: see [`CosmosClient::database`](crate::CosmosClient::database).
#[derive(Clone, Debug)]
pub struct DatabaseClient {
    driver: Arc<CosmosDriver>,
    id: Arc<str>,
}

impl DatabaseClient {
    pub(super) fn new(driver: Arc<CosmosDriver>, id: &str) -> Self {
        Self { driver, id: id.into() }
    }

    /// The id of the database.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn driver(&self) -> &Arc<CosmosDriver> {
        &self.driver
    }

    /// The client of a container of this database.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// let orders = store.container("orders");
    /// assert_eq!(orders.id(), "orders");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn container(&self, id: &str) -> ContainerClient {
        ContainerClient::new(Arc::clone(&self.driver), &self.id, id)
    }

    pub(crate) fn link(&self) -> Result<ResourceLink> {
        Ok(ResourceLink::database(&self.id)?)
    }

    fn operation(&self, operation: OperationType) -> Result<CosmosOperation> {
        Ok(CosmosOperation::new(operation, RequestPath::of(self.link()?)))
    }

    /// Reads the database.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// println!("{:?}", store.read(None).await?.into_properties()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if the database does not exist.
    pub async fn read(
        &self,
        options: Option<ReadDatabaseOptions<'_>>,
    ) -> Result<Response<DatabaseProperties>> {
        let read = self.operation(OperationType::Read)?;
        execute(&self.driver, &read, &resource_options(options)).await
    }

    /// Deletes the database with all that is in it.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// store.delete(None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if the database does not exist.
    pub async fn delete(&self, options: Option<DeleteDatabaseOptions<'_>>) -> Result<Response<()>> {
        let delete = self.operation(OperationType::Delete)?;
        execute(&self.driver, &delete, &resource_options(options)).await
    }

    /// Creates a container; there must be none of its id.
    ///
    /// ```no_run
    /// use sidereal::options::CreateContainerOptions;
    /// use sidereal::prelude::*;
    ///
    /// # async fn create(client: CosmosClient) -> sidereal::Result<()> {
    /// let by_customer = PartitionKeyDefinition::new(["/customer"])?;
    /// let options = CreateContainerOptions {
    ///     throughput: Some(ThroughputProperties::manual(400)),
    ///     ..Default::default()
    /// };
    /// let orders = ContainerProperties::new("orders", by_customer);
    /// client.database("store").create_container(orders, Some(options)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] if a container of this id exists; [`ErrorKind::InvalidRequest`] if its definition is
    /// malformed; [`ErrorKind::NotFound`] if the database does not exist.
    pub async fn create_container(
        &self,
        properties: ContainerProperties,
        options: Option<CreateContainerOptions<'_>>,
    ) -> Result<Response<ContainerProperties>> {
        // Refused here, where the sentence can say what an id may be.
        ResourceLink::container(&self.id, &properties.id)?;
        let options = options.unwrap_or_default();
        let path = RequestPath::feed(self.link()?, ResourceType::DocumentCollection)?;
        let create =
            CosmosOperation::new(OperationType::Create, path).with_body(encode(&properties)?);
        let create = with_throughput(create, options.throughput)?;
        execute(&self.driver, &create, &resource_options(Some(options))).await
    }

    /// Creates a container unless there is one of its id, which stays as it is.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// let by_customer = PartitionKeyDefinition::new(["/customer"])?;
    /// let orders = ContainerProperties::new("orders", by_customer);
    /// store.create_container_if_not_exists(orders, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if a container of this id exists and is partitioned by other paths; otherwise the
    /// error of the read or of the creation.
    pub async fn create_container_if_not_exists(
        &self,
        properties: ContainerProperties,
        options: Option<CreateContainerOptions<'_>>,
    ) -> Result<Response<ContainerProperties>> {
        let options = options.unwrap_or_default();
        let container = self.container(&properties.id);
        let read = || {
            let method_options = options.method_options.clone();
            container.read(Some(ReadContainerOptions { method_options }))
        };
        match read().await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return same_key(found?, &properties),
        }
        match self.create_container(properties.clone(), Some(options.clone())).await {
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                same_key(read().await?, &properties)
            }
            created => created,
        }
    }

    /// Reads the throughput that the database's containers share; none if they have their own.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// match store.read_throughput(None).await? {
    ///     Some(shared) => println!("{shared:?}"),
    ///     None => println!("each container has its own"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] if the database does not exist.
    pub async fn read_throughput(
        &self,
        options: Option<ThroughputOptions<'_>>,
    ) -> Result<Option<ThroughputProperties>> {
        let options = resource_options(options);
        let read = self.operation(OperationType::Read)?;
        let database: Response<DatabaseProperties> = execute(&self.driver, &read, &options).await?;
        let rid = database.into_properties()?.system.rid;
        throughput::read(&self.driver, rid, &options).await
    }

    /// Changes the throughput that the database's containers share.
    ///
    /// ```no_run
    /// # async fn example(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// store.replace_throughput(ThroughputProperties::manual(1000), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if the database has no throughput of its own, or the service refuses the new one.
    pub async fn replace_throughput(
        &self,
        throughput: ThroughputProperties,
        options: Option<ThroughputOptions<'_>>,
    ) -> Result<ThroughputProperties> {
        let options = resource_options(options);
        let read = self.operation(OperationType::Read)?;
        let database: Response<DatabaseProperties> = execute(&self.driver, &read, &options).await?;
        let rid = database.into_properties()?.system.rid;
        throughput::replace(&self.driver, rid, throughput, &options).await
    }
}

/// A container that is partitioned otherwise would refuse what the application writes to it.
fn same_key(
    found: Response<ContainerProperties>,
    wanted: &ContainerProperties,
) -> Result<Response<ContainerProperties>> {
    let there: ContainerProperties = crate::response::decode(found.body())?;
    match there.partition_key.paths() == wanted.partition_key.paths() {
        true => Ok(found),
        false => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "the container {} is there and is partitioned by {}, not by {}: \
                 delete it, or use another id",
                there.id, there.partition_key, wanted.partition_key
            ),
        )),
    }
}
