//! Background tasks: their owner, and how they end.
//!
//! One [`BackgroundTaskManager`] owns them all; its end is theirs (structured concurrency). A caller that only
//! starts tasks holds a [`TaskSpawner`], which keeps nothing alive. Join handles are not collected: a task
//! counts itself in and out, and is told to end through a cancellation token, so that a driver that starts
//! one per connection does not grow with its age.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::task_names::TaskNames;

/// How long aborted tasks are waited for. One that blocks its thread cannot be ended from outside, and
/// must not keep a shutdown from returning.
const ABORT_WAIT: Duration = Duration::from_secs(1);

/// Owns every background task of a driver. Dropping it aborts them all, wherever they were started from.
pub struct BackgroundTaskManager(TaskSpawner);

impl BackgroundTaskManager {
    /// An owner whose tasks run on the current runtime.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime; [`on`](Self::on) takes one there.
    #[must_use]
    pub fn new() -> Self {
        Self::on(Handle::current())
    }

    /// An owner whose tasks run on a given runtime.
    #[must_use]
    pub fn on(runtime: Handle) -> Self {
        Self(TaskSpawner(Arc::new(TaskState {
            runtime,
            parent: None,
            running: TaskTracker::new(),
            names: TaskNames::default(),
            shutdown: CancellationToken::new(),
            abort: CancellationToken::new(),
        })))
    }

    /// Starts a task; see [`TaskSpawner::spawn`].
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        self.0.spawn(name, task)
    }

    /// A handle for code that starts tasks without owning them.
    #[must_use]
    pub fn spawner(&self) -> TaskSpawner {
        self.0.clone()
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.0.running.len()
    }

    /// Asks all tasks to end, waits for them, and aborts those that are left after the grace.
    ///
    /// No task is started from here on.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownOutcome {
        let shared = &self.0.0;
        // Closed before it is waited for: `wait` returns once the tracker is closed and empty.
        shared.running.close();
        shared.shutdown.cancel();
        if tokio::time::timeout(grace, shared.running.wait()).await.is_ok() {
            return ShutdownOutcome::AllEnded;
        }
        let tasks = self.running();
        shared.abort.cancel();
        if tokio::time::timeout(ABORT_WAIT, shared.running.wait()).await.is_err() {
            let (tasks, waited) = (self.running(), grace + ABORT_WAIT);
            let names = shared.names.running().join(", ");
            tracing::warn!(
                "{tasks} background tasks still running {waited:?} after shutdown: {names}"
            );
        }
        ShutdownOutcome::Aborted { tasks }
    }
}

impl Default for BackgroundTaskManager {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for BackgroundTaskManager {
    fn drop(&mut self) {
        let shared = &self.0.0;
        shared.running.close();
        shared.shutdown.cancel();
        shared.abort.cancel();
    }
}

impl fmt::Debug for BackgroundTaskManager {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "BackgroundTaskManager({} running)", self.running())
    }
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ShutdownOutcome {
    /// Every task ended by itself.
    AllEnded,
    /// Some had to be aborted.
    Aborted {
        /// How many were still running when the grace was over.
        tasks: usize,
    },
}

/// Starts tasks that a [`BackgroundTaskManager`] owns.
#[derive(Clone)]
pub struct TaskSpawner(Arc<TaskState>);

struct TaskState {
    runtime: Handle,
    /// The owner around this one, which waits for these tasks too.
    parent: Option<TaskSpawner>,
    running: TaskTracker,
    names: TaskNames,
    shutdown: CancellationToken,
    abort: CancellationToken,
}

impl TaskSpawner {
    /// Starts a task. Returns `false` if the owner is shutting down or gone: then nothing is started.
    ///
    /// A panic ends the task alone, and is logged under its name.
    pub fn spawn(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> bool {
        // Counted first, then looked: a shutdown that begins in between waits for this task. The other way
        // round it could return while the task starts (check-then-act).
        let counted = self.count_in();
        if self.is_closed() {
            return false;
        }
        let named = self.0.names.enter(name);
        let shared = Arc::clone(&self.0);
        let mut task = Box::pin(task);
        self.0.runtime.spawn(async move {
            tokio::select! {
                // The abort first: a task that is always ready must not outrun it.
                biased;
                () = shared.abort.cancelled() => {}
                ended = catching_panics(task.as_mut()) => log_panic(name, ended),
            }
            // Destructors of what the task held may panic too.
            log_panic(name, catch_unwind(AssertUnwindSafe(|| drop(task))));
            // Last: a shutdown may return as soon as the count is zero.
            drop((named, counted));
        });
        true
    }

    /// An owner within the owner: its tasks end with it or with the outer one, whichever is first, and the
    /// outer one's shutdown waits for them.
    #[must_use]
    pub fn scope(&self) -> BackgroundTaskManager {
        BackgroundTaskManager(TaskSpawner(Arc::new(TaskState {
            runtime: self.0.runtime.clone(),
            parent: Some(self.clone()),
            running: TaskTracker::new(),
            names: TaskNames::default(),
            shutdown: self.0.shutdown.child_token(),
            abort: self.0.abort.child_token(),
        })))
    }

    /// Counts a task, here and with the owners around.
    fn count_in(&self) -> SmallVec<[TaskTrackerToken; 2]> {
        let mut counted = SmallVec::new();
        let mut owner = Some(self);
        while let Some(TaskSpawner(shared)) = owner {
            counted.push(shared.running.token());
            owner = shared.parent.as_ref();
        }
        counted
    }

    /// Whether nothing is started any more, by this owner or one around it.
    fn is_closed(&self) -> bool {
        self.0.running.is_closed() || self.0.parent.as_ref().is_some_and(Self::is_closed)
    }

    /// Waits until the owner shuts down or is gone.
    pub async fn shutdown_requested(&self) {
        self.0.shutdown.cancelled().await;
    }

    /// Whether the owner shuts down or is gone.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.shutdown.is_cancelled()
    }
}

impl fmt::Debug for TaskSpawner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "TaskSpawner({} running)", self.0.running.len())
    }
}

async fn catching_panics<F: Future>(future: F) -> Result<F::Output, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        // A future that panicked is not polled again, so its broken state is never seen.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(progress) => progress.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn log_panic(task: &'static str, ended: Result<(), Box<dyn Any + Send>>) {
    if let Err(panic) = ended {
        tracing::error!(task, panic = panic_message(&*panic), "a background task panicked");
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a message",
    }
}

#[cfg(test)]
mod tests;
