//! The instance and its execution after a turn.

use duroxide::EventKind;

use super::turn::Turn;
use crate::documents::{ExecutionDocument, InstanceDocument, PartDocument, Payload, PinnedVersion};
use crate::write::Write;

/// Applies a turn to its instance and its execution. Returns the execution's document, if it has changed, and the parts of its
/// output.
pub(super) fn after(
    turn: &Turn<'_>,
    instance: &mut InstanceDocument,
) -> (Option<Write>, Vec<PartDocument>) {
    let (metadata, id) = (turn.metadata, turn.execution_id);
    let mut output_parts = Vec::new();
    let is_first = turn.instance.turn == 0 || instance.is_provisional;
    name(turn, instance);
    let is_newer = id > instance.current_execution_id;
    if is_newer || (is_first && turn.instance.turn == 0) {
        instance.current_execution_id = if is_first { id.max(1) } else { id };
        (instance.status, instance.output) = ("Running".to_owned(), None);
        (instance.execution_started_at, instance.completed_at) = (turn.now, None);
        instance.pinned_duroxide_version = None;
    }
    let is_current = id == instance.current_execution_id;
    let mut execution = match (&turn.execution, is_current) {
        (Some(execution), _) => execution.clone(),
        (None, true) => current_execution(instance),
        (None, false) => ExecutionDocument::started(&instance.instance_id, id, turn.now),
    };
    if let Some(pinned) = &metadata.pinned_duroxide_version {
        execution.pinned_duroxide_version = Some(PinnedVersion::from(pinned));
    }
    if let Some(status) = &metadata.status {
        execution.status.clone_from(status);
        execution.completed_at = Some(turn.now);
        let output = metadata
            .output
            .clone()
            .map(|output| Payload::of_output(&instance.instance_id, &execution.id, output));
        let (output, parts) = output.unzip();
        execution.output = output;
        output_parts = parts.unwrap_or_default();
    }
    if is_current {
        instance.status.clone_from(&execution.status);
        instance.output.clone_from(&execution.output);
        instance.completed_at = execution.completed_at;
        instance.pinned_duroxide_version = execution.pinned_duroxide_version;
    }
    status_of(turn, instance);
    let is_changed = is_newer
        || turn.instance.turn == 0
        || metadata.status.is_some()
        || metadata.pinned_duroxide_version.is_some()
        || (!is_current && turn.execution.is_none());
    (is_changed.then(|| Write::upsert(&execution.id, &execution)), output_parts)
}

/// The current execution, as the instance knows it.
fn current_execution(instance: &InstanceDocument) -> ExecutionDocument {
    let (id, started) = (instance.current_execution_id, instance.execution_started_at);
    ExecutionDocument {
        status: instance.status.clone(),
        output: instance.output.clone(),
        pinned_duroxide_version: instance.pinned_duroxide_version,
        completed_at: instance.completed_at,
        ..ExecutionDocument::started(&instance.instance_id, id, started)
    }
}

/// An instance is there for all to see once a turn has named its orchestration.
fn name(turn: &Turn<'_>, instance: &mut InstanceDocument) {
    let metadata = turn.metadata;
    if let (Some(name), Some(version)) =
        (&metadata.orchestration_name, &metadata.orchestration_version)
    {
        if instance.is_provisional {
            instance.parent_instance_id.clone_from(&metadata.parent_instance_id);
            instance.created_at = turn.now;
        }
        instance.is_provisional = false;
        instance.orchestration_name = Some(name.clone());
        instance.orchestration_version = Some(version.clone());
    }
}

/// The custom status is the last that the turn's events set.
fn status_of(turn: &Turn<'_>, instance: &mut InstanceDocument) {
    let last = turn.history.iter().rev().find_map(|event| match &event.kind {
        EventKind::CustomStatusUpdated { status } => Some(status.clone()),
        _ => None,
    });
    if let Some(status) = last {
        instance.custom_status = status;
        instance.custom_status_version += 1;
    }
}
