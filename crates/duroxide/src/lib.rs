//! Durable orchestrations on Azure Cosmos DB: a storage provider for [duroxide].
//!
//! [`CosmosDBProvider`] stores instances, histories and queues in one container, on the client and driver of
//! Sidereal: partition failover, sessions and diagnostics come with them. A turn of any size is committed whole or
//! not at all; what may have been committed is found out, not guessed; and nothing is looked up by a lock's token.

mod ack;
mod activity_filter;
mod admin;
mod cache;
mod call;
mod clock;
mod config;
mod context;
mod definition;
mod deletions;
mod dispatch;
mod documents;
mod enqueue;
mod error;
mod failure;
mod fetch;
#[cfg(feature = "otel")]
mod gauges;
mod held;
mod ids;
mod infrastructure;
mod last_fetch;
mod leases;
mod lock_token;
mod locks;
mod long_poll;
mod meter;
#[cfg(test)]
mod model;
mod outage;
mod outbox;
mod poller;
mod provider;
mod reader;
mod region;
mod region_watch;
mod sessions;
mod store;
mod tasks;
mod telemetry;
mod turn;
mod turn_locks;
mod work_items;
mod workers;
mod write;

pub use admin::{
    InstanceSearch, InstanceSummary, OutboxMetrics, RetriedMessages, UndeliverableMessage,
};
pub use config::{CosmosDBProviderConfig, Leases};
pub use error::ProviderSetupError;
pub use leases::{CosmosDBLeaseProvider, InMemoryLeaseProvider, LeaseProvider};
pub use provider::CosmosDBProvider;

/// How long a write is tried on, in milliseconds: far longer than the runtime would wait.
const PATIENCE_MS: i64 = 60_000;

/// Shortens a text for a message to people.
fn excerpt(text: &str) -> &str {
    const LONGEST: usize = 128;
    text.char_indices().nth(LONGEST).map_or(text, |(end, _)| &text[..end])
}
