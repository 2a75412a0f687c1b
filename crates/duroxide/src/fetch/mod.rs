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
    pub(crate) store: Store,
    pub(crate) dispatch: Arc<Dispatch>,
    pub(crate) replays: Arc<ReplayCache>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) leases: Arc<dyn LeaseProvider>,
    pub(crate) locks: Arc<TurnLocks>,
    pub(crate) deletions: Arc<Deletions>,
    pub(crate) tasks: Tasks,
    pub(crate) strays: Strays,
    /// A fetch looks once, whatever time it is given.
    pub(crate) is_short_poll: bool,
}
