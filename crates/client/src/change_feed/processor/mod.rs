//! A change feed that several workers follow together, each a part of it.
//!
//! Who follows which part is kept in *leases*, items of a container of their own: a lease covers a range of the key
//! space, names its owner and how far it was handled. Every write of a lease has the lease's etag as a condition, so of
//! two workers that want it one gets it, and a worker that lost it cannot move it. `balance` decides, as a pure
//! function, which leases a worker should take; `worker` applies that; `partition_processor` follows the range of one lease.
//!
//! Workers do not compare clocks: a lease is expired for a worker that has seen it unchanged for its duration.

mod balance;
mod builder;
mod config;
mod handler;
mod lag;
mod lease;
mod lease_store;
mod partition_processor;
mod progress;
mod worker;

pub use builder::{ChangeFeedProcessor, ChangeFeedProcessorBuilder};
pub use handler::{Changes, HandlerError};
pub use progress::{RangeLag, RangeProgress};
