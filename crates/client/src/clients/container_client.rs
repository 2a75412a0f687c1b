//! The client of a container: the container itself. Its items are in `items.rs`.
//!
//! The calls that make a query, a bulk, a change feed or its processor are beside those types (`query/builder.rs`,
//! `bulk/builder.rs` and so on): they are made of a client, and no client knows them.

use std::sync::Arc;

use sidereal_driver::options::{
    DeleteContainerOptions, ReadContainerOptions, ReplaceContainerOptions, ThroughputOptions,
};
use sidereal_driver::{CosmosDriver, CosmosOperation, OperationOptions};
use sidereal_protocol::{
    ContainerProperties, OperationType, RequestPath, ResourceLink, ThroughputProperties,
};

use super::{FeedRange, throughput};
use crate::call::{execute, resource_options};
use crate::item_body::encode;
use crate::{Error, Response, Result};

/// The client of a container: see [`DatabaseClient::container`](crate::DatabaseClient::container).
#[derive(Clone, Debug)]
pub struct ContainerClient {
    driver: Arc<CosmosDriver>,
    address: Arc<Address>,
}

/// Where a container is, or why it can be nowhere.
#[derive(Debug)]
struct Address {
    id: String,
    link: Result<ResourceLink, sidereal_protocol::Error>,
}

impl ContainerClient {
    pub(super) fn new(driver: Arc<CosmosDriver>, database: &str, id: &str) -> Self {
        // Shared, for every operation on an item keeps it.
        let link = ResourceLink::container(database, id).map(ResourceLink::into_shared);
        let address = Address { id: id.to_owned(), link };
        Self { driver, address: Arc::new(address) }
    }

    /// The id of the container.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.address.id
    }

    pub(crate) fn driver(&self) -> &Arc<CosmosDriver> {
        &self.driver
    }

    /// The link of the container; an error if none can have its name.
    pub(crate) fn link(&self) -> Result<&ResourceLink> {
        self.address.link.as_ref().map_err(|error| Error::from(error.clone()))
    }

    fn operation(&self, operation: OperationType) -> Result<CosmosOperation> {
        Ok(CosmosOperation::new(operation, RequestPath::of(self.link()?.clone())))
    }

    /// Reads what the container is: how it is partitioned and indexed, how long items live.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let properties = orders.read(None).await?.into_properties()?;
    /// println!("partitioned by {}", properties.partition_key);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn read(
        &self,
        options: Option<ReadContainerOptions<'_>>,
    ) -> Result<Response<ContainerProperties>> {
        let read = self.operation(OperationType::Read)?;
        execute(&self.driver, &read, &resource_options(options)).await
    }

    /// Replaces what can be changed of a container: its indexing policy, how long items live.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::models::TimeToLive;
    ///
    /// let mut properties = orders.read(None).await?.into_properties()?;
    /// properties.default_ttl = Some(TimeToLive::Seconds(24 * 3600));
    /// orders.replace(properties, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the properties belong to another container or change what cannot be changed;
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn replace(
        &self,
        properties: ContainerProperties,
        options: Option<ReplaceContainerOptions<'_>>,
    ) -> Result<Response<ContainerProperties>> {
        let replace = self.operation(OperationType::Replace)?.with_body(encode(&properties)?);
        execute(&self.driver, &replace, &resource_options(options)).await
    }

    /// Deletes the container with all that is in it.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// orders.delete(None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn delete(
        &self,
        options: Option<DeleteContainerOptions<'_>>,
    ) -> Result<Response<()>> {
        let delete = self.operation(OperationType::Delete)?;
        execute(&self.driver, &delete, &resource_options(options)).await
    }

    /// Reads the container's own throughput; none if it shares its database's.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// println!("{:?}", orders.read_throughput(None).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn read_throughput(
        &self,
        options: Option<ThroughputOptions<'_>>,
    ) -> Result<Option<ThroughputProperties>> {
        let options = resource_options(options);
        throughput::read(&self.driver, self.rid(&options).await?, &options).await
    }

    /// Changes the container's own throughput, also between manual and autoscale.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// orders.replace_throughput(ThroughputProperties::autoscale(4000, None), None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the container has no throughput of its own, or the service refuses
    /// the new one; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn replace_throughput(
        &self,
        throughput: ThroughputProperties,
        options: Option<ThroughputOptions<'_>>,
    ) -> Result<ThroughputProperties> {
        let options = resource_options(options);
        throughput::replace(&self.driver, self.rid(&options).await?, throughput, &options).await
    }

    async fn rid(&self, options: &OperationOptions<'_>) -> Result<Option<String>> {
        let read = self.operation(OperationType::Read)?;
        let container: Response<ContainerProperties> =
            execute(&self.driver, &read, options).await?;
        Ok(container.into_properties()?.system.rid)
    }

    /// The parts of the container that can be read apart from each other: one for each partition range now.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// // One reader for each part.
    /// for range in orders.read_feed_ranges().await? {
    ///     let part = orders.query("SELECT * FROM c").with_feed_range(range);
    ///     println!("{}", part.items::<serde_json::Value>().collect().await?.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist.
    pub async fn read_feed_ranges(&self) -> Result<Vec<FeedRange>> {
        let container = self.driver.refresh_container(self.link()?).await?;
        Ok(container.ranges().ranges().iter().map(|it| FeedRange(it.range().clone())).collect())
    }
}
