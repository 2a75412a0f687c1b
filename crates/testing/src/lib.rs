//! Fixtures that the workspace's tests share; never part of a release.
//!
//! - [`peers`]: scripted HTTP/1.1 and HTTP/2 peers on loopback, driven down to the single frame, with a
//!   proxy and certificates.
//! - [`in_process`]: driver and account in one process, over a simulated network, on a paused clock.
//! - [`outages`]: what an application notices of each outage, measured on a paused clock.
//! - [`at_once`]: an account without a network, for benchmarks.
//! - [`fixture`]: the driver's transport set up over any `HttpClientFactory`.
//! - `spans`, `metrics` (feature `otel`): a tracer provider and a metric exporter that keep what they get in memory.
//! - `sdk` (feature `azure-core`): clients of the Azure SDK behind the driver's adapter.
//!
//! This crate turns on the driver's feature `internals`, so the fixture and the tests see the layers of
//! the transport. The driver's unit tests must not use it: Cargo would hand them a second copy of the
//! driver, whose types are not theirs.

#![allow(clippy::unwrap_used, reason = "a fixture that cannot go on fails its test")]

pub mod at_once;
pub mod fixture;
pub mod in_process;
#[cfg(feature = "otel")]
pub mod metrics;
pub mod outages;
pub mod peers;
#[cfg(feature = "azure-core")]
pub mod sdk;
#[cfg(feature = "otel")]
pub mod spans;
mod timeout;

pub use timeout::{TEST_TIMEOUT, within_timeout};

/// The example of this crate's page compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
