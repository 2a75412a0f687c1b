//! The Cosmos DB driver: operations that survive partitions and regions failing.
//!
//! [`CosmosDriver::execute_operation`] takes one [`CosmosOperation`] to its end, in whichever of the account's
//! regions serves it.
//!
//! Public modules: [`options`], every setting of the driver, declared once per setting and resolved
//! through layers (environment, runtime, account, operation); [`transport`], which brings one request to
//! one endpoint; and [`diagnostics`], which tell what happened to it.
//!
//! # Features
//!
//! - `azure-core`: any `HttpClient` of the Azure SDK below sharding.
//! - `entra`: credentials of Entra ID from the Azure SDK.
//! - `fault-injection`: faults on command between sharding and the HTTP client.
//! - `internals`: the layers of the transport, for tests and benchmarks. Unstable: no version keeps what is
//!   in it.
//! - `otel`: metrics of operations and connections, and spans of operations, through the meter provider and the tracer
//!   provider of OpenTelemetry that the runtime is given.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "a test may read a clock, and lock what it shares: it sends nothing"
    )
)]

// The derive names this crate by its path, also from within.
extern crate self as sidereal_driver;

mod brief_duration;
mod cosmos_driver;
pub mod diagnostics;
mod driver_core;
mod error;
mod error_kind;
mod exchange;
#[cfg(feature = "fault-injection")]
pub mod fault_injection;
mod hedging;
mod operation;
mod operation_executor;
mod operation_options;
pub mod options;
mod pipeline;
mod planes;
mod response;
#[cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, unused_imports, reason = "used under `internals` alone")
)]
mod retry;
mod routing;
mod runtime;
mod session;
mod slow_operations;
#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "used under `internals` alone")
)]
pub mod system;
#[cfg(feature = "otel")]
mod telemetry;
#[cfg_attr(
    not(feature = "internals"),
    allow(dead_code, unreachable_pub, unused_imports, reason = "used under `internals` alone")
)]
pub mod transport;

pub use cosmos_driver::CosmosDriver;
pub use error::Error;
pub use error_kind::ErrorKind;
pub use operation::{CosmosOperation, OperationTarget, Precondition};
pub use operation_options::OperationOptions;
pub use response::CosmosResponse;
pub use routing::ContainerMetadata;
pub use runtime::{CosmosDriverRuntime, CosmosDriverRuntimeBuilder, DriverError, RuntimeError};
pub use sidereal_macros::CosmosOptions;

/// Fault injection is compiled only under its feature.
///
/// ```compile_fail
/// use sidereal_driver::fault_injection::FaultInjectionRule;
/// ```
#[cfg(all(doctest, not(feature = "fault-injection")))]
struct FaultsNeedTheirFeature;

/// The example of this crate's own page compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
