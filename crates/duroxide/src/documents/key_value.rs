//! The values that an orchestration keeps under keys of its own.

use serde::{Deserialize, Serialize};
use sidereal_protocol::Etag;

use super::{Unknown, kinds};
use crate::ids;

/// One key of an instance: its value after the last execution, and what the current execution has done to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyValueDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) key: String,
    /// As of the end of the last execution; what the current one was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stored: Option<KeyValueChange>,
    /// The value set by the current execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delta: Option<KeyValueChange>,
    /// The value set by a turn that is not committed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged: Option<StagedChange>,
    #[serde(flatten)]
    pub(crate) unknown: Unknown,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

/// A value and when it was set; no value if the key was cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyValueChange {
    // Up to four copies are in one document.
    #[serde(default, with = "super::compact")]
    pub(crate) value: Option<String>,
    pub(crate) last_updated_at: u64,
}

/// The state of a key after a turn that is written in several batches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StagedChange {
    pub(crate) turn: u64,
    pub(crate) stored: Option<KeyValueChange>,
    pub(crate) delta: Option<KeyValueChange>,
}

impl KeyValueDocument {
    /// A key that was never set.
    pub(crate) fn new(instance: &str, key: &str) -> Self {
        Self {
            id: ids::key_value(instance, key),
            instance_id: instance.to_owned(),
            kind: kinds::KEY_VALUE.to_owned(),
            key: key.to_owned(),
            stored: None,
            delta: None,
            staged: None,
            unknown: Unknown::default(),
            etag: None,
        }
    }

    /// The document as of the last committed turn.
    pub(crate) fn committed_by(mut self, committed_turn: u64) -> Self {
        if let Some(staged) = self.staged.take()
            && staged.turn <= committed_turn
        {
            (self.stored, self.delta) = (staged.stored, staged.delta);
        }
        self
    }

    /// The value that a reader sees.
    pub(crate) fn current(&self) -> Option<&KeyValueChange> {
        self.delta.as_ref().or(self.stored.as_ref()).filter(|change| change.value.is_some())
    }

    /// The value that the current execution was started with.
    pub(crate) fn at_start(&self) -> Option<&KeyValueChange> {
        self.stored.as_ref().filter(|change| change.value.is_some())
    }

    /// Merges the changes of the execution into the value that the next one starts with.
    pub(crate) fn merge(&mut self) {
        if let Some(delta) = self.delta.take() {
            self.stored = delta.value.is_some().then_some(delta);
        }
    }

    /// How large it is, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let value = |change: &Option<KeyValueChange>| {
            change.as_ref().and_then(|change| change.value.as_ref()).map_or(0, String::len)
        };
        self.id.len() + self.key.len() + value(&self.stored) + value(&self.delta)
    }

    /// Whether nothing is left of the key.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored.is_none() && self.delta.is_none()
    }
}
