//! Claims that outlive whoever asked for them.
//!
//! A runtime that stops drops its fetches wherever they are. A request that is under way then is carried out or not, and
//! only its answer tells. So the claim goes on in a task of its own, and what it locks for nobody is given back: no other
//! process has to wait for the end of a lock that nobody works with.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

use crate::core::Core;

/// Locks something; none if there is nothing to lock.
type Locking<T, E> = BoxFuture<'static, Result<Option<T>, E>>;

/// Gives a lock back, beside the calls.
type GiveBack<T> = fn(&Arc<Core>, T);

impl Core {
    /// Runs a claim to its end, also if the caller is dropped meanwhile. What it has locked is given back then.
    pub(crate) async fn claim_to_the_end<T: Send + 'static, E: Send + 'static>(
        self: &Arc<Self>,
        give_back: GiveBack<T>,
        locking: Locking<T, E>,
    ) -> Result<Option<T>, E> {
        let mut claiming = Claiming { core: self, locking: Some(locking), give_back };
        claiming.run().await
    }
}

/// A claim, until it is dropped: perhaps before its end.
struct Claiming<'a, T: Send + 'static, E: Send + 'static> {
    core: &'a Arc<Core>,
    /// None once it has ended.
    locking: Option<Locking<T, E>>,
    give_back: GiveBack<T>,
}

impl<T: Send + 'static, E: Send + 'static> Claiming<'_, T, E> {
    async fn run(&mut self) -> Result<Option<T>, E> {
        let Some(locking) = &mut self.locking else { return Ok(None) };
        let claimed = locking.await;
        self.locking = None;
        claimed
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for Claiming<'_, T, E> {
    fn drop(&mut self) {
        let Some(locking) = self.locking.take() else { return };
        // A future that has panicked cannot go on; and without a runtime, which may end first, nothing can.
        if std::thread::panicking() || Handle::try_current().is_err() {
            return;
        }
        let (core, give_back) = (Arc::clone(self.core), self.give_back);
        self.core.spawn_to_the_end("give_back", async move {
            if let Ok(Some(locked)) = locking.await {
                give_back(&core, locked);
            }
        });
    }
}
