//! Long polls: a caller takes work that is ready, or waits until some is handed to it or may be ready.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::dispatch::Parked;
use crate::locks::is_late;
use crate::store::Store;

/// The work that a caller polls for: turns of a dispatcher, activities of a worker.
pub(crate) trait Polled: Sync {
    /// Work that is ready to be locked.
    type Ready: Send;
    /// The address of ready work, to try it again.
    type Address: Send;
    /// The terms by which callers wait.
    type Terms: Send + Sync;
    /// Locked work.
    type Locked: Send + Sync + 'static;
    type Error: Send;

    /// Takes ready work, or a place in the queue.
    fn next(&self) -> Result<Self::Ready, Parked<Self::Terms, Self::Locked>>;

    fn address(ready: &Self::Ready) -> Self::Address;

    /// Locks ready work, to its end even if the caller is dropped. `None` if another caller was faster.
    fn lock(
        &self,
        ready: Self::Ready,
    ) -> impl Future<Output = Result<Option<Self::Locked>, Self::Error>> + Send;

    /// Whether work that could not be locked is worth another try within this poll.
    fn is_transient(error: &Self::Error) -> bool;

    /// Marks work as ready again.
    fn try_again(&self, address: Self::Address);

    /// When the lock of handed-over work ends.
    fn locked_until(locked: &Self::Locked) -> i64;

    /// Gives locked work back, beside the calls.
    fn give_back(&self, locked: Box<Self::Locked>);
}

/// Polls until there is work or the time is over.
pub(crate) async fn long_poll<P: Polled>(
    polled: &P,
    store: &Store,
    lock_timeout: Duration,
    poll_timeout: Duration,
) -> Result<Option<P::Locked>, P::Error> {
    let end = Instant::now() + poll_timeout;
    let mut pauses = store.pauses();
    loop {
        match polled.next() {
            Ok(ready) => {
                let address = P::address(&ready);
                match polled.lock(ready).await {
                    Ok(Some(locked)) => return Ok(Some(locked)),
                    // Another caller was faster, which says nothing against the account: the back-off starts again.
                    Ok(None) => pauses = store.pauses(),
                    // After an error the runtime would wait for seconds.
                    Err(error) if P::is_transient(&error) && Instant::now() < end => {
                        polled.try_again(address);
                        pauses.pause().await;
                    }
                    Err(error) => return Err(error),
                }
            }
            Err(parked) => {
                let mut waiting = Waiting { polled, parked: Some(parked) };
                let is_over = timeout_at(end, waiting.wait()).await.is_err();
                if let Some(locked) = waiting.leave() {
                    // The caller may have been paused since it was handed over.
                    if !is_late(P::locked_until(&locked), lock_timeout, store.now()) {
                        return Ok(Some(*locked));
                    }
                    polled.give_back(locked);
                }
                if is_over {
                    return Ok(None);
                }
            }
        }
    }
}

/// A caller that waits, until it leaves or is dropped: by its runtime, perhaps, just when work is handed to it.
struct Waiting<'a, P: Polled> {
    polled: &'a P,
    parked: Option<Parked<P::Terms, P::Locked>>,
}

impl<P: Polled> Waiting<'_, P> {
    async fn wait(&self) {
        if let Some(parked) = &self.parked {
            parked.wait().await;
        }
    }

    fn leave(&mut self) -> Option<Box<P::Locked>> {
        self.parked.take()?.leave()
    }
}

impl<P: Polled> Drop for Waiting<'_, P> {
    fn drop(&mut self) {
        if let Some(locked) = self.leave() {
            self.polled.give_back(locked);
        }
    }
}
