//! The workload: orchestrations of four shapes, and plain reads and writes beside them.

mod flow;
mod orchestrations;
mod orders;
mod steps;
mod traffic;

pub(crate) use flow::Flow;
pub(crate) use orders::Expected;
pub(crate) use traffic::{PLAIN_PER_ORCHESTRATION, Traffic};
