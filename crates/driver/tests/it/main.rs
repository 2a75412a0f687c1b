//! The integration tests of the driver, in one binary: it links once, and what the tests share
//! (`sidereal-testing`) is compiled once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may read a clock, and lock what it shares"
)]

mod ambiguous_writes;
mod availability;
mod burst;
#[cfg(feature = "fault-injection")]
mod fault_injection;
mod hedging;
mod in_process;
mod locations;
mod operations;
mod options_environment;
mod options_resolution;
#[cfg(feature = "otel")]
mod otel;
mod outages;
mod partition_failover;
mod partition_ranges;
mod peers;
mod regions;
mod sessions;
mod settings;
mod simulated;
mod simulation;
mod specifications;
mod stream_reservation_model;
mod three_regions;
mod transport;
mod write_region;
