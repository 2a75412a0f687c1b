//! What the driver needs of the process it lives in: tasks that run beside requests.

mod tasks;

pub use tasks::{BackgroundTaskManager, ShutdownOutcome, TaskSpawner};
