//! A finished turn, as its commit is planned from.

use duroxide::Event;
use duroxide::providers::{ExecutionMetadata, ScheduledActivityIdentifier, WorkItem};

use crate::dispatch::HandOff;
use crate::documents::{ExecutionDocument, InstanceDocument, KeyValueDocument, MessageDocument};

/// A turn that its dispatcher has finished.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) token: &'a str,
    /// As it was locked.
    pub(crate) instance: &'a InstanceDocument,
    /// The messages that the turn handled.
    pub(crate) messages: &'a [MessageDocument],
    pub(crate) key_values: &'a [KeyValueDocument],
    /// The execution, if it is not the instance's current one and was there before.
    pub(crate) execution: Option<ExecutionDocument>,
    pub(crate) execution_id: u64,
    pub(crate) history: &'a [Event],
    pub(crate) worker_items: &'a [WorkItem],
    pub(crate) orchestrator_items: &'a [WorkItem],
    pub(crate) metadata: &'a ExecutionMetadata,
    pub(crate) cancelled: &'a [ScheduledActivityIdentifier],
    /// For each activity, the waiting worker that it is given to, if there is one.
    pub(crate) handed: &'a [Option<HandOff>],
    pub(crate) now: i64,
    /// Orders what the turn enqueues among what the process does.
    pub(crate) first_seq: u64,
}
