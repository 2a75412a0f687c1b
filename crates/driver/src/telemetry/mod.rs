//! Metrics of operations and connections, and spans of operations, through the application's OpenTelemetry.
//!
//! Instruments are made once for a runtime. An operation is measured when it ends, from its diagnostics, so
//! nothing on the way of a request knows of metrics; connections are counted when a reader collects. No attribute
//! holds the id of an item, a partition key or an activity id: what there is of them is bounded by the account's
//! databases, containers and regions.

mod attributes;
mod instances;
mod instruments;
mod shards;
mod spans;

pub(crate) use instances::ActiveInstance;
pub(crate) use instruments::Metrics;
pub(crate) use spans::Spans;
