//! Snapshots of a pool and its shards, for diagnostics and tests.

use super::pool_context::PoolKind;
use super::shard_health::ShardStats;
use crate::exchange::Endpoint;

/// The shards of an endpoint at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The kind of the pool.
    pub kind: PoolKind,
    /// The shards, from the oldest to the youngest.
    pub shards: Vec<ShardSnapshot>,
    /// The requests that wait for a stream.
    pub queued: usize,
    /// The share of shards that take new requests.
    pub load_spread_ratio: f64,
}

/// One shard at one moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// Its number among those of the endpoint.
    pub id: u64,
    /// Whether its connection is made.
    pub is_ready: bool,
    /// Statistics of its requests; times count from the pool's creation.
    pub stats: ShardStats,
}
