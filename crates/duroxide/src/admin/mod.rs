//! Administration: lists, metrics, deletion, pruning, undeliverable messages.

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
use crate::context::Context;
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
    store: Store,
    dispatch: Arc<Dispatch>,
    replays: Arc<ReplayCache>,
    reader: Arc<Reader>,
    outbox: Arc<Outbox>,
    deletions: Arc<Deletions>,
    tasks: Tasks,
}

impl Admin {
    pub(crate) fn new(
        context: &Context,
        reader: Arc<Reader>,
        outbox: Arc<Outbox>,
        deletions: Arc<Deletions>,
    ) -> Self {
        let Context { store, dispatch, replays, tasks, .. } = context.clone();
        Self { store, dispatch, replays, reader, outbox, deletions, tasks }
    }
}
