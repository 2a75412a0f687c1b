//! The kind of a pool, and the configuration it is made with.

use std::sync::Arc;

use super::ShardingConfig;
use crate::system::{Clock, TaskSpawner};
use crate::transport::{HttpClientConfig, HttpClientFactory};

/// The kind of a pool, by version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// HTTP/2, or a client that does not say: several clients, each with its streams.
    Sharded,
    /// HTTP/1.1: one client with a pool of connections of its own; nothing is checked or evicted.
    Plain,
}

/// The configuration of pools, shared by those of one transport.
#[derive(Clone, Debug)]
pub struct PoolContext {
    /// The factory of clients.
    pub factory: Arc<dyn HttpClientFactory>,
    /// The configuration of clients.
    pub client_config: HttpClientConfig,
    /// How many there are, and when one is evicted.
    pub sharding: ShardingConfig,
    /// How many are made as soon as streams run out, usually [`ShardingConfig::eager_clients`].
    pub eager_clients_per_endpoint: u32,
    /// The owner of the tasks that make and end connections.
    pub tasks: TaskSpawner,
    /// The source of the random part of a connection's age.
    pub clock: Clock,
}
