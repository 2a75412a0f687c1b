//! Several clients per endpoint: who gets the next request, when there are more, and when one is given up.
//!
//! [`EndpointShardPool`] carries out what the pure files beside it decide: `selection.rs` (which shard),
//! `shard_health.rs` (which is sick), `load_spread.rs` (how many take new requests). Its own files are what
//! it does: `reservation.rs` (a stream for a request), `growth.rs`, `retirement.rs` and `sweep.rs`. `stream_slots.rs` and
//! `waiting_line.rs` are the two structures that many threads change at once; they know no runtime, and a
//! model (`tests/stream_reservation_model.rs`) tries all their interleavings.

mod client_shard;
mod config;
mod growth;
mod load_spread;
mod reservation;
mod retirement;
mod selection;
mod shard_health;
mod shard_pool;
mod snapshot;
mod stream_slots;
mod sweep;
mod sync;
mod waiting_line;

pub use config::ShardingConfig;
pub use reservation::SendTerms;
pub use shard_health::{EvictionReason, ShardHealthStatus, ShardStats, check_shard_health};
pub use shard_pool::{EndpointShardPool, PoolContext, PoolKind};
pub use snapshot::{PoolSnapshot, ShardSnapshot};
