//! What administrators ask for: lists, metrics, deletion, pruning.

mod deletion;
pub(crate) mod deletion_plan;
mod finishing;
mod inspection;
mod outbox_metrics;
mod pruning;
mod search;
mod sweep;

pub(crate) use deletion_plan::SWEEP_LEASE_MS;
pub(crate) use finishing::FinishedDeletions;
pub use outbox_metrics::{OutboxMetrics, UndeliverableMessage};
pub use search::{InstanceSearch, InstanceSummary};
