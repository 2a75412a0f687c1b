//! The tasks of a provider: work beside the calls, which a shutdown cancels or waits for.

use std::time::Duration;

use duroxide::providers::ProviderError;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::metered;
use crate::telemetry::Telemetry;

/// How long prefetched work is kept for a caller that has not asked. It asks immediately, unless its runtime ends.
const PREFETCH_TIMEOUT: Duration = Duration::from_secs(1);

/// Locks something; `None` if there is nothing to lock.
type Locking<T, E> = BoxFuture<'static, Result<Option<T>, E>>;

/// Spawns tasks and ends them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    shutdown: CancellationToken,
    telemetry: Telemetry,
}

impl Tasks {
    pub(crate) fn new(telemetry: Telemetry) -> Self {
        Self { telemetry, ..Self::default() }
    }

    /// Spawns a task that a shutdown cancels.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Spawns a measured task that a shutdown cancels.
    pub(crate) fn spawn_metered(
        &self,
        operation: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let telemetry = self.telemetry.clone();
        self.spawn(async move { metered(&telemetry, operation, task).await });
    }

    /// Spawns a measured task that a shutdown waits for.
    pub(crate) fn spawn_tracked(
        &self,
        operation: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let telemetry = self.telemetry.clone();
        self.tracker.spawn(async move { metered(&telemetry, operation, task).await });
    }

    /// Runs a lock request to its end, even if the caller is dropped: a runtime that stops drops its fetches anywhere, and only
    /// the answer tells what was locked. `give_back` gets it then, so that no other process waits for the end of the lock.
    pub(crate) async fn run_detached<T: Send + 'static, E: Send + 'static>(
        &self,
        give_back: impl FnOnce(T) + Send + 'static,
        locking: Locking<T, E>,
    ) -> Result<Option<T>, E> {
        let mut running =
            Detached { tasks: self, locking: Some(locking), give_back: Some(give_back) };
        running.run().await
    }

    /// Waits until prefetched work is taken. Returns also if it was not taken in time, or at a shutdown.
    pub(crate) async fn until_taken(
        &self,
        taken: impl Future<Output = ()>,
        lock_timeout: Duration,
    ) {
        tokio::select! {
            () = taken => {}
            () = tokio::time::sleep(PREFETCH_TIMEOUT.min(lock_timeout / 4)) => {}
            () = self.shutdown.cancelled() => {}
        }
    }

    /// Gives an unused lock back. A shutdown does not wait long for it: a lock ends by itself.
    pub(crate) async fn release(&self, release: impl Future<Output = Result<(), ProviderError>>) {
        let too_long = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(PREFETCH_TIMEOUT).await;
        };
        tokio::select! {
            released = release => if let Err(error) = released {
                tracing::debug!(%error, "an unused lock is not given back: it ends by itself");
            },
            () = too_long => {}
        }
    }

    /// Cancels the tasks that a shutdown cancels.
    pub(crate) fn cancel(&self) {
        self.shutdown.cancel();
    }

    /// Cancels tasks and waits for the others.
    pub(crate) async fn shut_down(&self) {
        self.shutdown.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// A lock request, until it is dropped: perhaps before its end.
struct Detached<'a, T: Send + 'static, E: Send + 'static, G: FnOnce(T) + Send + 'static> {
    tasks: &'a Tasks,
    /// `None` once it has ended.
    locking: Option<Locking<T, E>>,
    give_back: Option<G>,
}

impl<T: Send + 'static, E: Send + 'static, G: FnOnce(T) + Send + 'static> Detached<'_, T, E, G> {
    async fn run(&mut self) -> Result<Option<T>, E> {
        let Some(locking) = &mut self.locking else { return Ok(None) };
        let locked = locking.await;
        self.locking = None;
        locked
    }
}

impl<T: Send + 'static, E: Send + 'static, G: FnOnce(T) + Send + 'static> Drop
    for Detached<'_, T, E, G>
{
    fn drop(&mut self) {
        let (Some(locking), Some(give_back)) = (self.locking.take(), self.give_back.take()) else {
            return;
        };
        // A future that has panicked cannot go on; and without a runtime, which may end first, nothing can.
        if std::thread::panicking() || Handle::try_current().is_err() {
            return;
        }
        self.tasks.spawn_tracked("give_back", async move {
            if let Ok(Some(locked)) = locking.await {
                give_back(locked);
            }
        });
    }
}
