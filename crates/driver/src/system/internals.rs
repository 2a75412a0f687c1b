//! Task ownership, for tests and benchmarks.
//!
//! Unstable: what is here changes with any version. An application needs none of it.

pub use super::tasks::{BackgroundTaskManager, TaskSpawner};
