//! What administrators ask for: lists, metrics, deletion, pruning, undeliverable messages.

mod deletion;
pub(crate) mod deletion_plan;
mod inspection;
mod outbox_metrics;
mod pruning;
mod search;
mod sweep;
mod undeliverable;

pub use outbox_metrics::{OutboxMetrics, UndeliverableMessage};
pub use search::{InstanceSearch, InstanceSummary};
pub use undeliverable::RetriedMessages;
