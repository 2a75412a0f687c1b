//! Answering the streams of an HTTP/2 connection where they arrive.
//!
//! A task for every stream costs more than a point read does, and wakes the connection once for every
//! answer. Most answers are ready when they are asked for: they are given in the connection's own task,
//! and go out together in one write. What has to wait gets a task of its own.

use std::pin::Pin;
use std::task::{Context, Waker};

use hyper::rt::Executor;

/// Runs a future at once, and spawns it only if it has to wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtOnce;

impl<F> Executor<F> for AtOnce
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future: Pin<Box<F>> = Box::pin(future);
        // Nobody is woken by this poll; a future that waits is polled again by the task it is given.
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
        AtOnce.execute(async move { setter.store(true, Ordering::SeqCst) });
        assert!(done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn what_waits_is_finished_later() {
        let (release, released) = oneshot::channel::<()>();
        let (report, reported) = oneshot::channel();
        AtOnce.execute(async move {
            released.await.unwrap();
            report.send(()).unwrap();
        });
        release.send(()).unwrap();
        reported.await.unwrap();
    }
}
