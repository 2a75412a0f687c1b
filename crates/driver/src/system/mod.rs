//! What the driver needs of the process and the machine it lives in: tasks that run beside requests,
//! and how busy the machine is.

mod cpu_memory;
#[cfg(feature = "internals")]
pub mod internals;
mod task_names;
mod tasks;

pub(crate) use cpu_memory::{CpuLoad, CpuMemoryMonitor};
pub use cpu_memory::{MachineHistory, MachineReading};
pub use tasks::ShutdownOutcome;
pub(crate) use tasks::{BackgroundTaskManager, TaskSpawner};
