//! Azure Cosmos DB for Rust: a typed client that keeps running while partitions and regions fail.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use sidereal::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     id: String,
//!     customer: String,
//!     total: u32,
//! }
//!
//! async fn place(client: &CosmosClient) -> sidereal::Result<u32> {
//!     let orders = client.database("store").container("orders");
//!     let order = Order { id: "4711".into(), customer: "contoso".into(), total: 120 };
//!     orders.upsert_item("contoso", &order, None).await?;
//!
//!     let response = orders.read_item("contoso", "4711", None).await?;
//!     println!("{} RU, served by {:?}", response.request_charge(), response.region());
//!     let order: Order = response.into_model()?;
//!     Ok(order.total)
//! }
//! ```
//!
//! | to | start at |
//! |---|---|
//! | connect | [`CosmosClient`] |
//! | create and change databases, containers, throughput | [`CosmosClient`], [`DatabaseClient`], [`ContainerClient`] |
//! | read and write items | [`ContainerClient::read_item`], [`ContainerClient::upsert_item`], [`Patch`] |
//! | write several items at once, all or none | [`TransactionalBatch`] |
//! | write or read very many, each by itself | [`ContainerClient::bulk`] |
//! | read many by id | [`ContainerClient::read_many`] |
//! | find items | [`ContainerClient::query`] |
//! | follow what changes | [`ContainerClient::change_feed`], [`ContainerClient::change_feed_processor`] |
//! | say what a call may cost and how long it may take | [`options`] |
//! | know what happened | [`Response::diagnostics`], [`Error::diagnostics`] |
//!
//! What keeps an application running (retries, failover of partitions and regions, hedging, sessions) is the
//! driver's, [`sidereal_driver`]; nothing here decides about it.
//!
//! # Features
//!
//! - `entra`: credentials of Entra ID from the Azure SDK.
//! - `otel`: metrics of operations and connections, and spans of operations, through the meter provider and the tracer
//!   provider of OpenTelemetry that [`CosmosClientBuilder`] is given.

#![forbid(unsafe_code)]

mod batch;
mod batch_failure;
mod bulk;
mod call;
pub mod change_feed;
mod clients;
mod credential;
mod error;
mod item_body;
mod long_call;
mod patch;
pub mod prelude;
pub mod query;
mod read_many;
mod response;
mod sealed_text;
mod telemetry;

pub use batch::{BatchItemOptions, BatchOperationResult, BatchResponse, TransactionalBatch};
pub use batch_failure::BatchFailure;
pub use bulk::{Bulk, BulkOperation, BulkProgress, BulkReport, BulkResult};
pub use clients::{ContainerClient, CosmosClient, CosmosClientBuilder, DatabaseClient, FeedRange};
pub use credential::CosmosCredential;
pub use error::{Error, ErrorKind, Result};
pub use patch::Patch;
pub use read_many::{ReadMany, ReadManyResponse};
pub use response::{Item, ItemResponse, Response};
pub use sidereal_driver::options;
pub use tokio_util::sync::CancellationToken;

/// The driver below the client, for what the client has no word for.
pub use sidereal_driver as driver;

/// Values of the protocol that calls take and give.
pub mod models {
    pub use sidereal_protocol::{
        AccountKey, AccountProperties, BatchOperationType, ConsistencyLevel, ContainerProperties,
        CosmosStatus, DatabaseProperties, Etag, IndexingDirective, IndexingPolicy, PartitionKey,
        PartitionKeyDefinition, PartitionKeyValue, PriorityLevel, ReadConsistencyStrategy,
        RegionName, SessionToken, ThroughputProperties, TimeToLive, UniqueKey, UniqueKeyPolicy,
    };
}

/// The examples of the front page compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

/// The examples of this crate's page compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
