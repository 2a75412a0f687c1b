//! Threads for work that would keep an async worker from its other requests: long evaluations, and waiting for
//! a disk.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::interruption::Interruption;

/// Requests of one endpoint that are worked on at once; more wait their turn (FIFO). Enough that short ones pass
/// those that take long, and few enough that tokio's blocking threads are never all taken.
const MAX_CONCURRENT_WORK: usize = 16;

/// Runs blocking work on threads of its own, so many at once.
#[derive(Clone, Debug)]
pub(crate) struct BlockingPool {
    permits: Arc<Semaphore>,
}

impl BlockingPool {
    pub(crate) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CONCURRENT_WORK)) }
    }

    /// Runs `work` on a blocking thread and waits for it. Dropping the future, and `closed`, cancel the work
    /// through the interruption that it gets; it should look at it often.
    ///
    /// # Panics
    ///
    /// If the work does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        closed: &CancellationToken,
        work: impl FnOnce(Interruption) -> T + Send + 'static,
    ) -> T {
        // Fails only where the semaphore was closed, which nobody does.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let interruption = Interruption::new();
        let _cancel = interruption.cancel_on_drop();
        let given = interruption.clone();
        let mut working = tokio::task::spawn_blocking(move || {
            // Held by the work rather than by who waits for it: a client that goes away does not make room
            // before its work has noticed.
            let _permit = permit;
            work(given)
        });
        let finished = tokio::select! {
            biased;
            finished = &mut working => finished,
            () = closed.cancelled() => {
                interruption.cancel();
                working.await
            }
        };
        match finished {
            Ok(result) => result,
            // Passed on, so that the server answers a panic in a handler alike wherever it ran.
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going down and cancelled what had not begun; nothing polls this again.
                Err(_) => std::future::pending().await,
            },
        }
    }
}
