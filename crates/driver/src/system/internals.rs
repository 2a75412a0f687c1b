//! Task ownership and machine readings, for tests and benchmarks.
//!
//! Unstable: what is here changes with any version. An application needs none of it.

pub use super::cpu_memory::{CpuLoad, CpuMemoryMonitor};
pub use super::tasks::{BackgroundTaskManager, TaskSpawner};
