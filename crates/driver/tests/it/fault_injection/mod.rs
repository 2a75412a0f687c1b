//! The transport with faults injected into its clients, over real loopback sockets.
//!
//! Faults that a peer cannot apply to one connection alone are injected between the shards and their
//! connections: each scenario of shards that fail, of pools that grow and shrink because of it, and of
//! requests that are repeated or must not be. Time is made up: a sweep is told what time it is.

mod account;
mod connecting;
mod eviction;
mod fixture;
mod pipeline;
mod scaling;
