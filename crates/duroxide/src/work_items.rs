//! From duroxide's work items to the documents that wait for a dispatcher.

use duroxide::providers::{ProviderError, WorkItem};

use crate::documents::{MessageDocument, PartDocument, Payload, WorkerDocument, kinds};
use crate::ids;

/// The instance whose dispatcher a work item is for; none if it is for a worker.
pub(crate) fn addressee(item: &WorkItem) -> Option<&str> {
    match item {
        WorkItem::StartOrchestration { instance, .. }
        | WorkItem::ActivityCompleted { instance, .. }
        | WorkItem::ActivityFailed { instance, .. }
        | WorkItem::TimerFired { instance, .. }
        | WorkItem::ExternalRaised { instance, .. }
        | WorkItem::CancelInstance { instance, .. }
        | WorkItem::ContinueAsNew { instance, .. }
        | WorkItem::QueueMessage { instance, .. } => Some(instance),
        WorkItem::SubOrchCompleted { parent_instance, .. }
        | WorkItem::SubOrchFailed { parent_instance, .. } => Some(parent_instance),
        WorkItem::ActivityExecute { .. } => None,
    }
}

/// Whether it begins an execution.
pub(crate) fn is_start(item: &WorkItem) -> bool {
    matches!(item, WorkItem::StartOrchestration { .. } | WorkItem::ContinueAsNew { .. })
}

/// Whether a client sends it, who may name an instance that does not exist. Completions are for those that sent for them.
pub(crate) fn is_of_client(item: &WorkItem) -> bool {
    matches!(
        item,
        WorkItem::ExternalRaised { .. }
            | WorkItem::CancelInstance { .. }
            | WorkItem::QueueMessage { .. }
    )
}

/// When a message becomes visible: a timer's when it fires, any other at once, whatever the clocks of the machines say.
pub(crate) fn visible_at(item: &WorkItem) -> i64 {
    match item {
        WorkItem::TimerFired { fire_at_ms, .. } => i64::try_from(*fire_at_ms).unwrap_or(i64::MAX),
        _ => 0,
    }
}

/// A work item as text.
pub(crate) fn encode(operation: &str, item: &WorkItem) -> Result<String, ProviderError> {
    serde_json::to_string(item).map_err(|error| {
        ProviderError::permanent(operation, format!("a work item is no JSON: {error}"))
    })
}

/// When something was enqueued, and in which order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enqueued {
    pub(crate) now: i64,
    pub(crate) seq: u64,
    pub(crate) visible_at: i64,
    /// Whether the batch that creates it cannot happen twice.
    pub(crate) is_fenced: bool,
    /// Whether it begins an execution.
    pub(crate) is_start: bool,
}

/// A message to an instance, with the parts of its payload.
pub(crate) fn message(
    id: String,
    instance: &str,
    text: String,
    enqueued: Enqueued,
) -> (MessageDocument, Vec<PartDocument>) {
    let (work_item, parts) = Payload::of(instance, &id, text);
    let message = MessageDocument {
        id,
        instance_id: instance.to_owned(),
        kind: kinds::MESSAGE.to_owned(),
        work_item,
        dispatch_slot: ids::dispatch_slot(instance),
        visible_at: enqueued.visible_at,
        enqueued_at: enqueued.now,
        seq: enqueued.seq,
        lock_token: None,
        locked_until: None,
        lock_owner: None,
        attempt_count: 0,
        is_fenced: enqueued.is_fenced,
        is_start: Some(enqueued.is_start),
        retry_at: None,
        staged_turn: None,
        etag: None,
    };
    (message, parts)
}

/// An activity for a worker, with the parts of its payload; an error if the work item is no activity.
pub(crate) fn worker_item(
    operation: &str,
    item: &WorkItem,
    enqueued: Enqueued,
) -> Result<(WorkerDocument, Vec<PartDocument>), ProviderError> {
    let WorkItem::ActivityExecute { instance, execution_id, id, session_id, tag, .. } = item else {
        let sentence = "only an activity can wait for a worker";
        return Err(ProviderError::permanent(operation, sentence));
    };
    let document_id = ids::worker_item(instance, *execution_id, *id);
    let (work_item, parts) = Payload::of(instance, &document_id, encode(operation, item)?);
    let document = WorkerDocument {
        id: document_id,
        instance_id: instance.clone(),
        kind: kinds::WORKER_ITEM.to_owned(),
        work_item,
        dispatch_slot: ids::dispatch_slot(instance),
        visible_at: enqueued.visible_at,
        enqueued_at: enqueued.now,
        seq: enqueued.seq,
        lock_token: None,
        locked_until: None,
        lock_owner: None,
        attempt_count: 0,
        execution_id: Some(*execution_id),
        activity_id: Some(*id),
        session_id: session_id.clone(),
        tag: tag.clone(),
        is_fenced: enqueued.is_fenced,
        staged_turn: None,
        etag: None,
    };
    Ok((document, parts))
}
