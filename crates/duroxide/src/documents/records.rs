//! Events, executions, undelivered messages, sessions and tombstones.

use duroxide::Event;
use serde::{Deserialize, Serialize};
use sidereal_protocol::Etag;

use super::{
    PartDocument, Payload, PinnedVersion, SHORT_TOMBSTONE_SECONDS, TOMBSTONE_SECONDS, Unknown,
    kinds,
};
use crate::ids;
use crate::locks::{Lock, LockView};

/// One event of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistoryDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) execution_id: u64,
    pub(crate) event_id: u64,
    pub(crate) event_data: Payload,
    /// The bytes of the event's text, parts included, so that a query can sum them up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged_turn: Option<u64>,
}

impl HistoryDocument {
    /// An event as it is stored, with the parts of its text if it is large. An error is a sentence about the event.
    pub(crate) fn of(
        instance: &str,
        execution: u64,
        event: &Event,
    ) -> Result<(Self, Vec<PartDocument>), String> {
        if event.event_id() == 0 {
            return Err("an event has no id: the runtime gives them".to_owned());
        }
        let id = ids::history(instance, execution, event.event_id());
        let text = serde_json::to_string(event)
            .map_err(|error| format!("an event cannot be written as JSON: {error}"))?;
        let event_bytes = Some(text.len() as u64);
        let (event_data, parts) = Payload::of(instance, &id, text);
        let document = Self {
            id,
            instance_id: instance.to_owned(),
            kind: kinds::HISTORY.to_owned(),
            execution_id: execution,
            event_id: event.event_id(),
            event_data,
            event_bytes,
            staged_turn: None,
        };
        Ok((document, parts))
    }
}

/// One execution: an instance has another after it continued as new.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExecutionDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) execution_id: u64,
    pub(crate) status: String,
    pub(crate) output: Option<Payload>,
    pub(crate) pinned_duroxide_version: Option<PinnedVersion>,
    pub(crate) started_at: i64,
    pub(crate) completed_at: Option<i64>,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
}

impl ExecutionDocument {
    /// An execution that begins.
    pub(crate) fn started(instance: &str, execution: u64, now: i64) -> Self {
        Self {
            id: ids::execution(instance, execution),
            instance_id: instance.to_owned(),
            kind: kinds::EXECUTION.to_owned(),
            execution_id: execution,
            status: "Running".to_owned(),
            output: None,
            pinned_duroxide_version: None,
            started_at: now,
            completed_at: None,
            etag: None,
            unknown: Unknown::default(),
        }
    }
}

/// A message to another instance, until it is delivered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntentDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) target_instance_id: String,
    pub(crate) target_document_type: String,
    pub(crate) payload: Payload,
    pub(crate) visible_at: i64,
    pub(crate) idempotency_key: String,
    pub(crate) status: String,
    pub(crate) created_at: i64,
    pub(crate) attempt_count: u32,
    pub(crate) last_attempt_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
    /// The order of the messages of one turn.
    #[serde(default)]
    pub(crate) seq: u64,
    /// Equal to `created_at`. With the slot of the sender it lets queries for work find undelivered messages too.
    #[serde(default)]
    pub(crate) enqueued_at: i64,
    #[serde(default)]
    pub(crate) dispatch_slot: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged_turn: Option<u64>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

/// A session, and the worker that holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) session_id: String,
    pub(crate) owner_id: String,
    pub(crate) locked_until: i64,
    pub(crate) last_activity: i64,
    pub(crate) created_at: i64,
    /// The process of the worker: the session is free when its lease has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_owner: Option<String>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

impl SessionDocument {
    /// A session that a worker claims first.
    pub(crate) fn claimed(session: &str, owner: &str, now: i64) -> Self {
        Self {
            id: ids::session(session),
            instance_id: ids::session_partition(session),
            kind: kinds::SESSION.to_owned(),
            session_id: session.to_owned(),
            owner_id: owner.to_owned(),
            locked_until: now,
            last_activity: now,
            created_at: now,
            lock_owner: None,
            unknown: Unknown::default(),
            etag: None,
        }
    }

    /// Whether another worker has it.
    pub(crate) fn is_held_by_another(&self, owner: &str, view: &LockView) -> bool {
        self.owner_id != owner && self.lock().holds(view)
    }

    /// The lock.
    pub(crate) fn lock(&self) -> Lock<'_> {
        Lock { until: Some(self.locked_until), owner: self.lock_owner.as_deref() }
    }
}

/// The tombstone of a removed document, so that it is not created again. It expires by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TombstoneDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) ttl: u32,
}

impl TombstoneDocument {
    /// The tombstone of a document. Only deliveries from an outbox are repeated for days.
    pub(crate) fn of(instance: &str, id: &str) -> Self {
        let is_delivered = ids::is_delivered(id);
        Self {
            id: id.to_owned(),
            instance_id: instance.to_owned(),
            kind: kinds::TOMBSTONE.to_owned(),
            ttl: if is_delivered { TOMBSTONE_SECONDS } else { SHORT_TOMBSTONE_SECONDS },
        }
    }
}
