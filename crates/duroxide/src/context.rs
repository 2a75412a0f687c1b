//! The state that the parts of a provider share.

use std::sync::Arc;

use crate::cache::ReplayCache;
use crate::dispatch::Dispatch;
use crate::locks::Processes;
use crate::store::Store;
use crate::tasks::Tasks;

/// The shared state. Each part keeps clones of the fields that it works with.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) store: Store,
    /// Ready work and waiting callers.
    pub(crate) dispatch: Arc<Dispatch>,
    /// The name of this process, and the processes that are gone.
    pub(crate) processes: Arc<Processes>,
    /// Histories and keys that were read or written last.
    pub(crate) replays: Arc<ReplayCache>,
    pub(crate) tasks: Tasks,
}

impl Context {
    pub(crate) fn new(store: Store, dispatch: Arc<Dispatch>, history_cache_bytes: usize) -> Self {
        let tasks = Tasks::new(store.telemetry.clone());
        let replays = Arc::new(ReplayCache::new(history_cache_bytes));
        Self { store, dispatch, processes: Arc::default(), replays, tasks }
    }
}
