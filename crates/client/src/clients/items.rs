//! Calls on one item, and on several of one partition key at once.
//!
//! Each call awaits the driver's future itself. It is large, and a function between them would have a future of its
//! own around it, into which it is copied.

use serde::Serialize;
use sidereal_driver::options::ItemOptions;
use sidereal_driver::{CosmosOperation, Precondition};
use sidereal_protocol::PartitionKey;

use super::ContainerClient;
use crate::call::item_options;
use crate::item_body::encode_item;
use crate::{BatchResponse, Error, ItemResponse, Patch, Response, Result, TransactionalBatch};

/// Calls on items.
///
/// Each takes the item's partition key: a text, a number, a tuple for hierarchical keys, `None::<&str>` for null.
impl ContainerClient {
    /// Reads an item.
    ///
    /// ```no_run
    /// # async fn read(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// # #[derive(serde::Deserialize)]
    /// # struct Order { total: u32 }
    /// let response = orders.read_item("contoso", "4711", None).await?;
    /// let etag = response.etag();
    /// let order: Order = response.into_model()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the item does not exist.
    pub async fn read_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let mut read = CosmosOperation::read_item(self.link()?, key.into(), id)?;
        if let Some(etag) = options.as_ref().and_then(|it| it.if_none_match_etag.clone()) {
            read = read.with_precondition(Precondition::IfNoneMatch(etag));
        }
        self.check_key(&read)?;
        let response = self.driver().execute_operation(&read, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Creates an item; there must be none of its id in its partition key.
    ///
    /// If its answer is lost it is sent again, which can undo what another writer did in between:
    /// [`AmbiguousWriteRetry`](crate::options::AmbiguousWriteRetry) tells how, and narrows it.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let order = serde_json::json!({"id": "4711", "customer": "contoso", "total": 120});
    /// let created = orders.create_item("contoso", &order, None).await?;
    /// println!("{} RU", created.request_charge());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict) if an item of this id exists; [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the item is
    /// malformed.
    pub async fn create_item<T: Serialize>(
        &self,
        key: impl Into<PartitionKey>,
        item: T,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let body = encode_item(&item)?;
        let create = CosmosOperation::create_item(self.link()?, key.into(), body)?;
        self.check_key(&create)?;
        let response = self.driver().execute_operation(&create, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Creates an item, or replaces the one of its id.
    ///
    /// If its answer is lost it is sent again, which can undo what another writer did in between:
    /// [`AmbiguousWriteRetry`](crate::options::AmbiguousWriteRetry) tells how, and narrows it.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let order = serde_json::json!({"id": "4711", "customer": "contoso", "total": 130});
    /// let response = orders.upsert_item("contoso", &order, None).await?;
    /// println!("created now: {}", response.status().code() == 201);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the item is malformed;
    /// [`ErrorKind::PreconditionFailed`](crate::ErrorKind::PreconditionFailed) if `if_match_etag` does not match.
    pub async fn upsert_item<T: Serialize>(
        &self,
        key: impl Into<PartitionKey>,
        item: T,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let body = encode_item(&item)?;
        let upsert = CosmosOperation::upsert_item(self.link()?, key.into(), body)?;
        self.check_key(&upsert)?;
        let response = self.driver().execute_operation(&upsert, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Replaces an item; there must be one.
    ///
    /// If its answer is lost it is sent again, which can undo what another writer did in between:
    /// [`AmbiguousWriteRetry`](crate::options::AmbiguousWriteRetry) tells how, and narrows it.
    ///
    /// ```no_run
    /// # async fn replace(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::options::ItemWriteOptions;
    /// use sidereal::prelude::*;
    ///
    /// let response = orders.read_item("contoso", "4711", None).await?;
    /// let (etag, mut order): (_, serde_json::Value) = (response.etag(), response.into_model()?);
    /// order["total"] = 130.into();
    ///
    /// // Only if nobody else has changed it since: `ErrorKind::PreconditionFailed` otherwise.
    /// let write = ItemWriteOptions { if_match_etag: etag, ..Default::default() };
    /// let options = ItemOptions { write, ..Default::default() };
    /// orders.replace_item("contoso", "4711", &order, Some(options)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the item does not exist;
    /// [`ErrorKind::PreconditionFailed`](crate::ErrorKind::PreconditionFailed) if `if_match_etag` does not match.
    pub async fn replace_item<T: Serialize>(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        item: T,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let body = encode_item(&item)?;
        let replace = CosmosOperation::replace_item(self.link()?, key.into(), id, body)?;
        self.check_key(&replace)?;
        let response = self.driver().execute_operation(&replace, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Deletes an item.
    ///
    /// If its answer is lost it is sent again, which can undo what another writer did in between:
    /// [`AmbiguousWriteRetry`](crate::options::AmbiguousWriteRetry) tells how, and narrows it.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// orders.delete_item("contoso", "4711", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the item does not exist;
    /// [`ErrorKind::PreconditionFailed`](crate::ErrorKind::PreconditionFailed) if `if_match_etag` does not match.
    pub async fn delete_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let delete = CosmosOperation::delete_item(self.link()?, key.into(), id)?;
        self.check_key(&delete)?;
        let response = self.driver().execute_operation(&delete, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Changes parts of an item, all or none of them.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// let patch = Patch::new().set("/status", "shipped");
    /// orders.patch_item("contoso", "4711", patch, None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the item does not exist; [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the patch
    /// cannot be applied to it; [`ErrorKind::PreconditionFailed`](crate::ErrorKind::PreconditionFailed) if its condition does not hold.
    pub async fn patch_item(
        &self,
        key: impl Into<PartitionKey>,
        id: &str,
        patch: Patch,
        options: Option<ItemOptions<'_>>,
    ) -> Result<ItemResponse> {
        let body = patch.encode()?;
        let patch = CosmosOperation::patch_item(self.link()?, key.into(), id, body)?;
        self.check_key(&patch)?;
        let response = self.driver().execute_operation(&patch, &item_options(options)).await?;
        Ok(Response::new(response))
    }

    /// Executes the operations of a batch, all or none of them.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// let batch = TransactionalBatch::new("contoso").delete_item("1", None).delete_item("2", None);
    /// if let Err(error) = orders.execute_batch(batch, None).await {
    ///     println!("{:?}", error.batch_failure());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the batch is empty or exceeds the service's limits. If an
    /// operation fails, no operation is applied: the kind is that operation's, and
    /// [`Error::batch_failure`](crate::Error::batch_failure) says which it is.
    pub async fn execute_batch(
        &self,
        batch: TransactionalBatch,
        options: Option<ItemOptions<'_>>,
    ) -> Result<BatchResponse> {
        let write = options.as_ref().map(|options| options.write.clone()).unwrap_or_default();
        let wants_items = self.driver().content_response_on_write(&write);
        let (operation, operations) = batch.into_operation(self.link()?, wants_items)?;
        self.check_key(&operation)?;
        let response = self.driver().execute_operation(&operation, &item_options(options)).await;
        BatchResponse::of(response?, &operations)
    }

    /// Refuses a key that no item of the container can have, if the container is known.
    fn check_key(&self, operation: &CosmosOperation) -> Result<()> {
        let Some(key) = operation.partition_key() else { return Ok(()) };
        let Some(container) = self.driver().known_container(self.link()?) else { return Ok(()) };
        let definition = container.partition_key_definition();
        let (given, wanted) = (key.components().len(), definition.paths().len());
        // No component stands for an item without any of the key's properties.
        if given == wanted || given == 0 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the key {key} has {given} components and the container {} is partitioned by {wanted}, \
             {definition}: give a component for each",
            self.id()
        )))
    }
}
