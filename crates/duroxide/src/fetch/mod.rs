//! Fetching the next turn of an instance: look, decide, lock, read the history.
//!
//! `run.rs` is a fetch from its call to the locked turn; `long_poll.rs` waits for one; `prefetch.rs` locks turns before they are
//! asked for; `offer.rs` locks the turn of a message while it is created.

mod candidates;
mod history;
mod item;
mod long_poll;
mod offer;
mod prefetch;
mod run;
mod states;
mod strays;

use std::sync::Arc;

use crate::cache::ReplayCache;
use crate::context::Context;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::leases::LeaseProvider;
use crate::locks::Processes;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::turn_locks::TurnLocks;

pub(crate) use offer::TurnOffer;
pub(crate) use strays::{STRAY_AFTER_MS, Strays};

/// Fetches turns: finds an instance with messages, locks it with them, and reads its history.
#[derive(Debug)]
pub(crate) struct TurnFetcher {
    store: Store,
    dispatch: Arc<Dispatch>,
    replays: Arc<ReplayCache>,
    processes: Arc<Processes>,
    leases: Arc<dyn LeaseProvider>,
    locks: Arc<TurnLocks>,
    deletions: Arc<Deletions>,
    tasks: Tasks,
    strays: Strays,
    /// A fetch looks once, whatever time it is given.
    is_short_poll: bool,
}

impl TurnFetcher {
    pub(crate) fn new(
        context: &Context,
        leases: Arc<dyn LeaseProvider>,
        locks: Arc<TurnLocks>,
        deletions: Arc<Deletions>,
        is_short_poll: bool,
    ) -> Self {
        let Context { store, dispatch, processes, replays, tasks } = context.clone();
        Self {
            store,
            dispatch,
            replays,
            processes,
            leases,
            locks,
            deletions,
            tasks,
            strays: Strays::default(),
            is_short_poll,
        }
    }
}
