//! What administrators ask for: lists, metrics, deletion, pruning, undeliverable messages.

mod deletion;
pub(crate) mod deletion_plan;
mod inspection;
mod outbox_metrics;
mod pruning;
mod search;
mod sweep;
mod undeliverable;

use std::sync::Arc;

use crate::cache::ReplayCache;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::outbox::Outbox;
use crate::reader::Reader;
use crate::store::Store;
use crate::tasks::Tasks;

pub use outbox_metrics::{OutboxMetrics, UndeliverableMessage};
pub use search::{InstanceSearch, InstanceSummary};
pub use undeliverable::RetriedMessages;

/// Serves administrators.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) store: Store,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) replays: Arc<ReplayCache>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) deletions: Arc<Deletions>,
    pub(crate) tasks: Tasks,
}
