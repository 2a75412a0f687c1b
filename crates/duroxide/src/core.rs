//! What every call of the provider works with.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cache::ReplayCache;
use crate::call::metered;
use crate::deletions::Deletions;
use crate::dispatch::Dispatch;
use crate::fetch::Strays;
use crate::held::{HeldItems, HeldTurns};
use crate::last_fetch::LastFetches;
use crate::last_read::LastReads;
use crate::leases::LeaseProvider;
use crate::locks::{LockView, Processes};
use crate::outbox::Undelivered;
use crate::sessions::OwnSessions;
use crate::store::Store;

/// The state of a provider. Calls are in the modules named after them.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) turns: HeldTurns,
    pub(crate) items: HeldItems,
    /// What workers of this process fetched last.
    pub(crate) fetches: LastFetches,
    /// What clients of this process have read last.
    pub(crate) reads: LastReads,
    /// What is ready within this process, and who waits for it.
    pub(crate) dispatch: Arc<Dispatch>,
    /// Which slots the process and its dispatchers look after.
    pub(crate) leases: Arc<dyn LeaseProvider>,
    pub(crate) worker_leases: Arc<dyn LeaseProvider>,
    pub(crate) processes: Processes,
    /// Histories and keys that were read or written last.
    pub(crate) replays: ReplayCache,
    /// Sessions that workers of this process have.
    pub(crate) sessions: OwnSessions,
    /// Messages to other instances that could not be delivered yet.
    pub(crate) undelivered: Undelivered,
    /// Instances with messages and without a start.
    pub(crate) strays: Strays,
    /// Interrupted deletions that this process is finishing.
    pub(crate) deletions: Deletions,
    /// A fetch looks once, whatever time it is given.
    pub(crate) is_short_poll: bool,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

impl Core {
    /// How locks of others are judged now.
    pub(crate) fn lock_view(&self) -> LockView {
        LockView { time: self.store.lock_time(), gone: self.processes.gone() }
    }

    /// Learns from the leases which processes are gone, and by which name this one is known.
    pub(crate) async fn learn_processes(&self) {
        let (name, gone) = (self.leases.process_name().await, self.leases.gone_processes().await);
        if let Some(gone) = self.processes.set(name, gone, self.leases.has_others().await) {
            self.dispatch.processes_gone(&gone);
        }
    }

    /// Keeps the lease of this process while it may hold locks, until the provider is shut down.
    pub(crate) async fn keep_lease(self: Arc<Self>, interval: Duration) {
        loop {
            tokio::time::sleep(self.store.clock().jittered(interval)).await;
            if self.dispatch.is_active() || self.holds_locks() {
                self.leases.extend_lease().await;
                self.learn_processes().await;
            }
        }
    }

    pub(crate) fn holds_locks(&self) -> bool {
        let now = self.store.now();
        self.turns.has_live(now) || self.items.has_live(now)
    }

    /// Runs what a call leaves to be done after it, and measures it.
    pub(crate) fn spawn_metered(
        self: &Arc<Self>,
        operation: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let telemetry = self.store.telemetry.clone();
        self.spawn(async move { metered(&telemetry, operation, task).await });
    }

    /// The same, and a shutdown waits for it.
    pub(crate) fn spawn_to_the_end(
        self: &Arc<Self>,
        operation: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let telemetry = self.store.telemetry.clone();
        self.tasks.spawn(async move { metered(&telemetry, operation, task).await });
    }

    /// Runs something beside the calls, until it is done or the provider is shut down.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }
}
