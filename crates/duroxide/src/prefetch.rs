//! What prefetching of activities and prefetching of turns have in common: when a lock is too old to be handed over, how
//! long it is kept for somebody who does not ask, and how it is given back.

use std::time::Duration;

use duroxide::providers::ProviderError;

use crate::core::Core;
use crate::store::millis;

/// How long something is kept for a worker or a dispatcher that has not asked. It asks at once, unless its runtime ends.
const LONGEST_HOLD: Duration = Duration::from_secs(1);

/// Whether locking took so long that the lock might end before the work does: a runtime renews a lock by the time at
/// which it was given it.
pub(crate) fn is_late(locked_until: i64, lock_timeout: Duration, now: i64) -> bool {
    locked_until.saturating_sub(now) < millis(lock_timeout) / 2
}

impl Core {
    /// Waits until what was locked has been taken. Returns also if it was not in time, or at a shutdown.
    pub(crate) async fn keep(&self, taken: impl Future<Output = ()>, lock_timeout: Duration) {
        tokio::select! {
            () = taken => {}
            () = tokio::time::sleep(LONGEST_HOLD.min(lock_timeout / 4)) => {}
            () = self.shutdown.cancelled() => {}
        }
    }

    /// Gives a lock back that nobody took. A shutdown does not wait long for it: a lock ends by itself.
    pub(crate) async fn release_lock(
        &self,
        release: impl Future<Output = Result<(), ProviderError>>,
    ) {
        let too_long = async {
            self.shutdown.cancelled().await;
            tokio::time::sleep(LONGEST_HOLD).await;
        };
        tokio::select! {
            released = release => if let Err(error) = released {
                tracing::debug!(%error, "what nobody took waits for its lock to end");
            },
            () = too_long => {}
        }
    }
}
