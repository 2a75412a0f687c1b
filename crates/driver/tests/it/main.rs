//! The integration tests of the driver, in one binary: it links once, and what the tests share
//! (`sidereal-testing`) is compiled once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_types, reason = "what a test shares may be locked")]

#[cfg(feature = "fault_injection")]
mod fault_injection;
mod operations;
mod options_environment;
mod options_resolution;
mod specifications;
mod stream_reservation_model;
mod transport;
