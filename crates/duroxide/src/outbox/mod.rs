//! The outbox: messages to other instances are stored with the turn that sends them and delivered afterwards, as often as it
//! takes.
//!
//! A delivery creates a document whose id follows from the turn, so a second delivery has no effect: it meets the message, or
//! the tombstone that its consumption left.

mod delivery;
mod pending;
mod reconciler;

use std::sync::Arc;

use crate::context::Context;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::documents::IntentDocument;
use crate::fetch::TurnFetcher;
use crate::store::Store;
use crate::tasks::Tasks;

use pending::Undelivered;

pub(crate) use delivery::is_too_old;
#[cfg(test)]
pub(crate) use delivery::plan_delivery;
pub(crate) use pending::FoundIntent;
pub(crate) use reconciler::{RECONCILER, ReconcilerSettings};

/// Delivers messages to other instances.
#[derive(Debug)]
pub(crate) struct Outbox {
    store: Store,
    dispatch: Arc<Dispatch>,
    turns: Arc<TurnFetcher>,
    deletions: Arc<Deletions>,
    tasks: Tasks,
    /// Messages that could not be delivered yet.
    undelivered: Undelivered,
}

impl Outbox {
    pub(crate) fn new(
        context: &Context,
        turns: Arc<TurnFetcher>,
        deletions: Arc<Deletions>,
    ) -> Self {
        let Context { store, dispatch, tasks, .. } = context.clone();
        Self { store, dispatch, turns, deletions, tasks, undelivered: Undelivered::default() }
    }

    /// Delivers a message by the next tick, whenever it was to be tried again.
    pub(crate) fn retry_now(&self, intent: &IntentDocument) {
        self.undelivered.retry_now(intent, self.store.now());
    }

    /// The number of messages whose delivery has failed so far, and when the oldest of them was sent.
    #[cfg(feature = "otel")]
    pub(crate) fn waiting(&self) -> (usize, Option<i64>) {
        self.undelivered.waiting()
    }
}
