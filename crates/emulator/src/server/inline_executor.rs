//! An executor that polls a future once where it is given, and spawns it only if it is pending.
//!
//! hyper gives the executor a future for every HTTP/2 stream. A task for each costs more than a point read
//! does, and wakes the connection once for every response. Most responses are ready at the first poll: they
//! are made in the connection's own task, and many go out in one write.

use std::pin::Pin;
use std::task::{Context, Waker};

use hyper::rt::Executor;

/// Polls a future inline, and spawns it only if it is pending.
#[derive(Clone, Copy, Debug)]
pub(super) struct InlineExecutor;

impl<F> Executor<F> for InlineExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future: Pin<Box<F>> = Box::pin(future);
        // No wakeup is lost by the no-op waker: a spawned task polls the future again at once, with its own.
        let mut context = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_ready_is_done_on_return() {
        let done = Arc::new(AtomicBool::new(false));
        let setter = Arc::clone(&done);
        InlineExecutor.execute(async move { setter.store(true, Ordering::SeqCst) });
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn what_waits_is_finished_later() {
        let (release, released) = oneshot::channel::<()>();
        let (report, reported) = oneshot::channel();
        InlineExecutor.execute(async move {
            released.await.unwrap();
            report.send(()).unwrap();
        });
        release.send(()).unwrap();
        reported.await.unwrap();
    }
}
