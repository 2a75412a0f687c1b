//! Metrics of operations and connections, through the application's OpenTelemetry. Spans are `tracing`'s.
//!
//! Instruments are made once for a runtime. An operation is measured when it ends, from its diagnostics, so
//! nothing on the way of a request knows of metrics; connections are counted when somebody collects. No attribute
//! holds the id of an item, a partition key or an activity id: what there is of them is bounded by the account's
//! databases, containers and regions.

mod attributes;
mod instruments;
mod shards;

pub(crate) use instruments::Metrics;
