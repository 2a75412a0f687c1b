//! Activities that are locked for a worker.

use duroxide::providers::WorkItem;

use crate::cache::Version;

/// The lock of an activity that its turn schedules for a waiting worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandOff {
    pub(crate) token: String,
    pub(crate) locked_until: i64,
    /// The process of the worker.
    pub(crate) owner: Option<String>,
}

/// An activity that is locked for a worker.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) work_item: WorkItem,
    pub(crate) token: String,
    /// The number of attempts, this one included.
    pub(crate) attempts: u32,
    pub(crate) locked_until: i64,
    pub(crate) instance: String,
    /// The instance as it was when the activity was locked, if that is known.
    pub(crate) seen: Option<Version>,
}
