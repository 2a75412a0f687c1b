//! The item that the runtime is given for a locked turn.

use std::collections::HashMap;

use duroxide::providers::{KvEntry, OrchestrationItem, WorkItem};
use duroxide::{Event, EventKind};

use crate::documents::{InstanceDocument, KeyValueDocument};

/// Builds the item of a turn.
pub(super) fn orchestration_item(
    instance: &InstanceDocument,
    messages: Vec<WorkItem>,
    history: Result<Vec<Event>, String>,
    key_values: &[KeyValueDocument],
) -> OrchestrationItem {
    let (history, history_error) = match history {
        Ok(history) => (history, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let (name, version) = named(instance, &messages, &history);
    let snapshot = |document: &KeyValueDocument| {
        let change = document.at_start()?;
        let (value, last_updated_at_ms) = (change.value.clone()?, change.last_updated_at);
        Some((document.key.clone(), KvEntry { value, last_updated_at_ms }))
    };
    let kv_snapshot = match history_error {
        Some(_) => HashMap::new(),
        None => key_values.iter().filter_map(snapshot).collect(),
    };
    OrchestrationItem {
        instance: instance.instance_id.clone(),
        orchestration_name: name,
        execution_id: instance.current_execution_id,
        version,
        history,
        messages,
        history_error,
        kv_snapshot,
    }
}

/// The orchestration that an instance runs: as a turn named it, as its history says, or as its start asks for.
fn named(
    instance: &InstanceDocument,
    messages: &[WorkItem],
    history: &[Event],
) -> (String, String) {
    const UNKNOWN: &str = "unknown";
    if let Some(name) = &instance.orchestration_name {
        let version = instance.orchestration_version.clone();
        return (name.clone(), version.unwrap_or_else(|| UNKNOWN.to_owned()));
    }
    let started = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => {
            Some((name.clone(), version.clone()))
        }
        _ => None,
    });
    let asked = || {
        messages.iter().find_map(|message| match message {
            WorkItem::StartOrchestration { orchestration, version, .. }
            | WorkItem::ContinueAsNew { orchestration, version, .. } => {
                let version = version.clone().unwrap_or_else(|| UNKNOWN.to_owned());
                Some((orchestration.clone(), version))
            }
            _ => None,
        })
    };
    started.or_else(asked).unwrap_or_else(|| (UNKNOWN.to_owned(), UNKNOWN.to_owned()))
}
