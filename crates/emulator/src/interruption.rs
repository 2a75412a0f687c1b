//! How work that was begun for a client ends early: the client is gone, the server shuts down, or the time of a
//! page is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sidereal_query::Signal;

/// How long a page may take: as on the service, where it is then cut, with a continuation.
const PAGE_TIME: Duration = Duration::from_secs(5);

/// Shared by the work and the caller that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct Interruption(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    cancelled: AtomicBool,
    deadline: Instant,
}

/// Cancels the work when it is dropped: with the future that waits for it.
#[derive(Debug)]
pub(crate) struct CancelOnDrop(Interruption);

impl Interruption {
    /// For work that begins now.
    pub(crate) fn new() -> Self {
        let deadline = Instant::now() + PAGE_TIME;
        Self(Arc::new(Shared { cancelled: AtomicBool::new(false), deadline }))
    }

    pub(crate) fn cancel(&self) {
        // Relaxed: the flag is all that is told, and it guards no other memory.
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// Whether nobody waits for the work any more. Unlike [`signal`](Self::signal) it does not look at the time.
    pub(crate) fn is_cancelled(&self) -> bool {
        // Relaxed: seen a few steps later is soon enough, and the flag publishes nothing.
        self.0.cancelled.load(Ordering::Relaxed)
    }

    /// Whether the work should go on.
    pub(crate) fn signal(&self) -> Signal {
        if self.is_cancelled() {
            return Signal::Cancel;
        }
        if Instant::now() >= self.0.deadline { Signal::Pause } else { Signal::Continue }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_cancelled_with_whoever_waits_for_it() {
        let interruption = Interruption::new();
        let waiting = interruption.cancel_on_drop();
        assert_eq!(interruption.signal(), Signal::Continue);
        drop(waiting);
        assert_eq!(interruption.signal(), Signal::Cancel);
    }
}
