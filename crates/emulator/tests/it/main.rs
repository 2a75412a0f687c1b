//! The emulator's integration tests: one binary, one module per behaviour.
//!
//! One binary links the crate once. Modules share the client of `common`; each test starts an account or
//! an emulator of its own, so they run side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod advertising;
mod answers;
mod attacks;
mod authorization;
mod batches;
mod change_feed;
mod common;
mod containers;
mod continuations;
mod counters;
mod definitions;
mod encodings;
mod endpoint;
mod expiry;
mod faults;
mod fuzz_replay;
mod grease;
mod indexes;
mod items;
mod model;
mod multi_write;
mod numbers;
mod partition_counts;
mod persistence;
mod plans;
mod queries;
mod regions;
mod renames;
mod response_headers;
mod server;
mod splits;
mod time;
