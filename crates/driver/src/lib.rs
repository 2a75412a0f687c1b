//! The Cosmos DB driver: operations that survive partitions and regions failing.
//!
//! What is here: [`options`], every setting of the driver, declared once per setting and resolved
//! through layers (environment, runtime, account, operation).

// The derive names this crate by its path, also from within.
extern crate self as sidereal_driver;

pub mod options;

pub use sidereal_macros::CosmosOptions;
