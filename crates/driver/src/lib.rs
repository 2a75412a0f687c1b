//! The Cosmos DB driver: operations that survive partitions and regions failing.
//!
//! What is here: [`options`], every setting of the driver, declared once per setting and resolved
//! through layers (environment, runtime, account, operation); [`transport`], which brings one request to
//! one endpoint; and [`diagnostics`], which tell what happened to it.

// The derive names this crate by its path, also from within.
extern crate self as sidereal_driver;

pub mod diagnostics;
#[cfg(feature = "fault_injection")]
pub mod fault_injection;
pub mod options;
pub mod system;
pub mod transport;

pub use sidereal_macros::CosmosOptions;
