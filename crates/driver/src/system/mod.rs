//! Services of the process and the machine: a clock, tasks that run beside
//! requests, and how busy the machine is.

mod cgroup;
mod clock;
mod cpu_memory;
#[cfg(feature = "internals")]
pub mod internals;
mod recency;
mod task_names;
mod tasks;

pub use clock::Clock;
pub use cpu_memory::{CpuLoad, CpuMemoryMonitor, MachineHistory, MachineReading};
pub(crate) use recency::{Epoch, LastUse, evict_least_recent};
pub use tasks::ShutdownOutcome;
pub(crate) use tasks::{BackgroundTaskManager, TaskSpawner};
