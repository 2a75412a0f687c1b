//! The integration tests of the driver, in one binary: it links once, and what the tests share
//! (`sidereal-testing`) is compiled once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test may read a clock, and lock what it shares"
)]

mod availability;
#[cfg(feature = "fault_injection")]
mod fault_injection;
mod locations;
mod operations;
mod options_environment;
mod options_resolution;
#[cfg(feature = "otel")]
mod otel;
mod simulated;
mod specifications;
mod stream_reservation_model;
mod transport;
