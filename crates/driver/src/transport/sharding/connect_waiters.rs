//! The requests that hold a stream of a connection that is still being made, and take another's instead
//! if one becomes free.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;

use crate::transport::count_guard::CountGuard;

/// Requests that wait for a connection.
#[derive(Debug, Default)]
pub(super) struct ConnectWaiters {
    count: AtomicU32,
    stream_freed: Notify,
}

impl ConnectWaiters {
    /// Counts one more waiter, for as long as the guard lives.
    pub(super) fn enter(&self) -> CountGuard<'_> {
        CountGuard::new(&self.count)
    }

    /// Waits until a stream of a ready connection may be free.
    pub(super) async fn stream_freed(&self) {
        self.stream_freed.notified().await;
    }

    /// Wakes one waiter: a stream became free, and the queue is empty.
    pub(super) fn notify_stream_freed(&self) {
        // Relaxed: saves the notification while there are no waiters, which is nearly always. A waiter that is
        // missed here keeps its own stream and goes on when that one's connection is made.
        if self.count.load(Ordering::Relaxed) > 0 {
            self.stream_freed.notify_one();
        }
    }
}
