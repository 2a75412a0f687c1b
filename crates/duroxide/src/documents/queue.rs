//! Messages and activities: documents that wait for a dispatcher or a worker.

use serde::{Deserialize, Serialize};
use sidereal_protocol::Etag;

use super::Payload;
use crate::locks::Lock;

/// A message to an instance: what has happened, or what it is asked to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) work_item: Payload,
    pub(crate) dispatch_slot: u8,
    pub(crate) visible_at: i64,
    pub(crate) enqueued_at: i64,
    /// Breaks ties of `enqueued_at`: counted within a process.
    #[serde(default)]
    pub(crate) seq: u64,
    pub(crate) lock_token: Option<String>,
    pub(crate) locked_until: Option<i64>,
    /// The process that holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_owner: Option<String>,
    pub(crate) attempt_count: u32,
    /// Whether it was created in a batch that could not happen twice. Any other leaves a tombstone when it is
    /// consumed, so that a repeated creation meets it.
    #[serde(default)]
    pub(crate) is_fenced: bool,
    /// Whether it begins an execution. None if an earlier release wrote it.
    #[serde(default)]
    pub(crate) is_start: Option<bool>,
    /// Polls do not find it before. It is set where the instance was never started; a turn takes the message all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged_turn: Option<u64>,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

impl MessageDocument {
    /// The order in which messages are handled.
    pub(crate) fn order(&self) -> (i64, u64, &str) {
        (self.enqueued_at, self.seq, &self.id)
    }
}

/// An activity that waits for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkerDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) work_item: Payload,
    pub(crate) dispatch_slot: u8,
    pub(crate) visible_at: i64,
    pub(crate) enqueued_at: i64,
    #[serde(default)]
    pub(crate) seq: u64,
    pub(crate) lock_token: Option<String>,
    pub(crate) locked_until: Option<i64>,
    /// The process that holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_owner: Option<String>,
    pub(crate) attempt_count: u32,
    pub(crate) execution_id: Option<u64>,
    pub(crate) activity_id: Option<u64>,
    pub(crate) session_id: Option<String>,
    pub(crate) tag: Option<String>,
    #[serde(default)]
    pub(crate) is_fenced: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged_turn: Option<u64>,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

impl WorkerDocument {
    /// The order in which activities are given out.
    pub(crate) fn order(&self) -> (i64, u64, &str) {
        (self.enqueued_at, self.seq, &self.id)
    }

    /// The lock, which needs a token to count.
    pub(crate) fn lock(&self) -> Lock<'_> {
        let until = self.lock_token.as_ref().and(self.locked_until);
        Lock { until, owner: self.lock_owner.as_deref() }
    }
}
