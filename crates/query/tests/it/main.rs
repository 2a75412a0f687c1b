//! Laws of the query language as a whole. One binary, because each one links every dependency.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    unreachable_pub,
    reason = "fuzz bodies are shared with the fuzz crate, where they are public"
)]

mod fuzz_replay;
mod partitions;
mod reference;
mod round_trip;
