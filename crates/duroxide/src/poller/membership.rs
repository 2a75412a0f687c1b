//! The lease of this process, and which other processes are gone.

use std::sync::Arc;
use std::time::Duration;

use super::Poller;

impl Poller {
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

    pub(super) fn holds_locks(&self) -> bool {
        let now = self.store.now();
        self.locks.held.has_live(now) || self.activities.items.has_live(now)
    }
}
