//! The run-time half of `#[derive(CosmosOptions)]`: layers, environment values, and the table that
//! tells where a value came from.
//!
//! Generated code is the main caller. Nothing here knows a particular setting, and nothing but the
//! generated `from_env` reads the process environment: everything takes a lookup.

mod environment;
mod group;
pub mod parse;
mod settings;

pub use environment::{EnvironmentError, EnvironmentReader, MalformedVariable};
pub use group::{Layer, Merge, OptionGroup, same_layers};
pub use settings::{Declaration, Setting, SettingsTable, Source};
