//! The clients: of an account, of one of its databases, of one of its containers.
//!
//! A client is a cheap clone of a handle. Making one for a database or a container sends nothing and cannot
//! fail: a name that no resource can have is refused by the first call.

mod client_builder;
mod container_client;
mod cosmos_client;
mod database_client;
mod emulator_account;
mod feed_range;
mod items;
mod throughput;

pub use client_builder::CosmosClientBuilder;
pub use container_client::ContainerClient;
pub use cosmos_client::CosmosClient;
pub use database_client::DatabaseClient;
pub use feed_range::FeedRange;
