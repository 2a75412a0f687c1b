//! Several clients per endpoint: which gets the next request, when there are more, and when one is evicted.
//!
//! [`EndpointShardPool`] carries out what the pure files decide: `selection.rs` (which shard),
//! `shard_health.rs` (which is unhealthy), `load_spread.rs` (how many take new requests). Its state has
//! owners: `shard_list.rs`, `wait_queue.rs`, `load_meter.rs`, `connect_waiters.rs`, `growth_backoff.rs`.
//! The operations on them are in `reservation.rs` (a stream for a request), `sending.rs` (the request over it),
//! `growth.rs`, `eviction.rs` and `sweep.rs`.
//!
//! `stream_slots.rs` and `wait_queue.rs` are lock-free structures that many threads change at once; they
//! know no runtime, and a loom model (`tests/it/stream_reservation_model.rs`) tries all their
//! interleavings. Nothing here knows what a header is.

mod client_shard;
mod config;
mod connect_waiters;
mod eviction;
mod growth;
mod growth_backoff;
mod load_meter;
mod load_spread;
mod pool_context;
mod reservation;
mod selection;
mod send_terms;
mod sending;
mod shard_health;
mod shard_list;
mod shard_pool;
mod snapshot;
mod stream_slots;
mod sweep;
mod sync;
mod wait_queue;

pub use crate::options::sharding_options::ShardingConfig;
pub use pool_context::{PoolContext, PoolKind};
pub(super) use reservation::ReservedStream;
pub use send_terms::SendTerms;
pub use shard_health::{EvictionReason, ShardHealthStatus, ShardStats, check_shard_health};
pub use shard_pool::EndpointShardPool;
pub use snapshot::{PoolSnapshot, ShardSnapshot};
