//! The outcome of a turn, as the runtime hands it over to be committed.

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

/// The outcome of a turn.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) execution_id: u64,
    pub(crate) history: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}
