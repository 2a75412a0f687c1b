//! Activities: fetched, finished, renewed and given back by workers.

mod claim;
mod end;
mod fetch;
mod hold;
mod long_poll;
mod prefetch;

use std::sync::Arc;

use crate::cache::ReplayCache;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::documents::{TombstoneDocument, WorkerDocument};
use crate::fetch::TurnFetcher;
use crate::held::HeldItems;
use crate::last_fetch::LastFetches;
use crate::leases::LeaseProvider;
use crate::locks::Processes;
use crate::sessions::SessionTable;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::write::{Change, Write};

/// Activities: fetched, finished, renewed and given back by workers.
#[derive(Debug)]
pub(crate) struct ActivityQueue {
    store: Store,
    dispatch: Arc<Dispatch>,
    replays: Arc<ReplayCache>,
    processes: Arc<Processes>,
    leases: Arc<dyn LeaseProvider>,
    turns: Arc<TurnFetcher>,
    sessions: Arc<SessionTable>,
    tasks: Tasks,
    /// The activities that workers of this process have locked.
    pub(crate) items: HeldItems,
    /// The activities that workers of this process fetched last.
    fetches: Arc<LastFetches>,
    /// A fetch looks once, whatever time it is given.
    is_short_poll: bool,
}

impl ActivityQueue {
    pub(crate) fn new(
        context: &Context,
        leases: Arc<dyn LeaseProvider>,
        turns: Arc<TurnFetcher>,
        sessions: Arc<SessionTable>,
        fetches: Arc<LastFetches>,
        is_short_poll: bool,
    ) -> Self {
        let Context { store, dispatch, processes, replays, tasks } = context.clone();
        Self {
            store,
            dispatch,
            replays,
            processes,
            leases,
            turns,
            sessions,
            tasks,
            items: HeldItems::default(),
            fetches,
            is_short_poll,
        }
    }
}

/// The write of an activity's lock as the document says it is to be.
pub(crate) fn lock_write(item: &WorkerDocument, attempts: i32, visible_at: Option<i64>) -> Write {
    let change = Change::Lock {
        token: item.lock_token.clone(),
        until: item.locked_until,
        owner: item.lock_owner.clone(),
        attempts,
        visible_at,
        if_match: item.etag.clone(),
    };
    Write { id: item.id.clone(), change }
}

/// Removes a finished activity. What could be created a second time leaves a tombstone.
pub(crate) fn removed(item: &WorkerDocument) -> Write {
    match item.is_fenced {
        true => Write::delete(&item.id, item.etag.clone()),
        false => {
            let tombstone = TombstoneDocument::of(&item.instance_id, &item.id);
            Write::replace(&item.id, &tombstone, item.etag.clone())
        }
    }
}
