//! Everything that committing a turn writes, as values. Pure: nothing here sends, waits or reads a clock.

use duroxide::providers::{
    ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem,
};
use duroxide::{Event, EventKind};

use super::key_values;
use crate::dispatch::HandOff;
use crate::documents::{
    Cleanup, ExecutionDocument, HistoryDocument, InstanceDocument, IntentDocument,
    KeyValueDocument, MessageDocument, PartDocument, Payload, PinnedVersion, WorkerDocument,
    delivery, kinds,
};
use crate::fetch::consume;
use crate::ids;
use crate::work_items::{Enqueued, addressee, encode, message, visible_at, worker_item};
use crate::write::{self, Write};

const OPERATION: &str = "ack_orchestration_item";

/// A turn that its dispatcher has finished.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) token: &'a str,
    /// As it was locked.
    pub(crate) instance: &'a InstanceDocument,
    /// What the turn handled.
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

/// What committing a turn takes: batches that stage its documents if they do not fit into one, then the batch that
/// commits. The instance is the first of each batch, and is added where its etag is known.
#[derive(Debug)]
pub(crate) struct AckPlan {
    /// Batches before the commit: nobody sees their documents until it.
    pub(crate) staged: Vec<Vec<Write>>,
    /// What is committed with the instance.
    pub(crate) commit: Vec<Write>,
    /// The instance after the commit.
    pub(crate) instance: InstanceDocument,
    /// What is to be delivered to other instances then.
    pub(crate) intents: Vec<(IntentDocument, Vec<PartDocument>)>,
    /// The activities that wait then, in the order of the turn's; none where one was cancelled at once.
    pub(crate) workers: Vec<Option<WorkerDocument>>,
    /// When messages to the instance itself become visible.
    pub(crate) own_messages: Vec<i64>,
    /// How long the turn's events are as text.
    pub(crate) history_bytes: usize,
    /// All keys of the instance then.
    pub(crate) key_values: Vec<KeyValueDocument>,
}

/// Plans the commit of a turn.
pub(crate) fn plan(turn: &Turn<'_>) -> Result<AckPlan, ProviderError> {
    let planned = plan_with(turn, turn.handed)?;
    match planned.staged.is_empty() {
        true => Ok(planned),
        // The lock of a worker would begin before the turn is committed.
        false => plan_with(turn, &[]),
    }
}

fn plan_with(turn: &Turn<'_>, handed: &[Option<HandOff>]) -> Result<AckPlan, ProviderError> {
    let mut documents = Documents::default();
    let mut instance = turn.instance.clone();
    instance.commit(turn.token, turn.now);
    history(turn, &mut documents)?;
    let workers = worker_items(turn, handed, &mut documents)?;
    let intents = orchestrator_items(turn, &instance, &mut documents)?;
    let key_values = key_values::after(turn);
    instance.key_values = u32::try_from(key_values.all.len()).unwrap_or(u32::MAX);
    let execution = execution(turn, &mut instance, &mut documents);
    let removed: Vec<Write> =
        turn.messages.iter().map(consume).chain(cancellations(turn)).collect();

    // The order of a batch is that of its words, so what must be there before something else comes first.
    let mut commit = removed.clone();
    commit.extend(documents.writes(None));
    commit.extend(key_values.writes());
    commit.extend(execution.clone());
    let whole: Vec<Write> = std::iter::once(replaced(&instance)).chain(commit.clone()).collect();
    let mut plan = AckPlan {
        staged: Vec::new(),
        commit,
        instance,
        intents,
        workers,
        own_messages: documents.messages.iter().map(|message| message.visible_at).collect(),
        history_bytes: documents.history_bytes,
        key_values: key_values.all.clone(),
    };
    if write::fits(&whole) {
        return Ok(plan);
    }

    let staged_turn = plan.instance.turn;
    let mut staged = documents.writes(Some(staged_turn));
    staged.extend(key_values.staged(staged_turn));
    let beside = replaced(&plan.instance).bytes();
    let mut commit: Vec<Write> = execution.into_iter().collect();
    let left = removed.len().min(write::MAX_BATCH_WRITES - 1 - commit.len());
    plan.instance.cleanup.extend(removed[left..].iter().map(later));
    commit.extend_from_slice(&removed[..left]);
    (plan.staged, plan.commit) = (write::chunks(staged, beside), commit);
    Ok(plan)
}

/// The instance as the first change of a batch; its etag is added where it is sent.
pub(crate) fn replaced(instance: &InstanceDocument) -> Write {
    Write::replace(&instance.id, instance, instance.etag.clone())
}

/// A removal that the commit has no room for: the instance remembers it.
fn later(write: &Write) -> Cleanup {
    match write.change {
        write::Change::Delete { .. } => Cleanup::Delete { id: write.id.clone() },
        _ => Cleanup::Bury { id: write.id.clone() },
    }
}

/// The documents that a turn creates.
#[derive(Debug, Default)]
struct Documents {
    history: Vec<HistoryDocument>,
    workers: Vec<WorkerDocument>,
    messages: Vec<MessageDocument>,
    intents: Vec<IntentDocument>,
    parts: Vec<PartDocument>,
    history_bytes: usize,
}

impl Documents {
    /// Their creation, at once or as part of a turn that is not committed yet.
    fn writes(&self, staged_turn: Option<u64>) -> Vec<Write> {
        let mut writes = Vec::new();
        macro_rules! create {
            ($documents:expr) => {
                for document in $documents {
                    let mut document = document.clone();
                    document.staged_turn = staged_turn;
                    writes.push(Write::create(&document.id, &document));
                }
            };
        }
        // An earlier attempt may have left some; they are seen only through their owner.
        for part in &self.parts {
            writes.push(Write::upsert(&part.id, &PartDocument { staged_turn, ..part.clone() }));
        }
        create!(&self.history);
        create!(&self.workers);
        create!(&self.messages);
        create!(&self.intents);
        writes
    }
}

fn history(turn: &Turn<'_>, documents: &mut Documents) -> Result<(), ProviderError> {
    for event in turn.history {
        let (document, parts) =
            event_document(&turn.instance.instance_id, turn.execution_id, event)
                .map_err(|sentence| ProviderError::permanent(OPERATION, sentence))?;
        documents.history_bytes +=
            document.event_data.bytes() + parts.iter().map(|part| part.data.len()).sum::<usize>();
        documents.history.push(document);
        documents.parts.extend(parts);
    }
    Ok(())
}

/// An event as it is stored.
pub(crate) fn event_document(
    instance: &str,
    execution: u64,
    event: &Event,
) -> Result<(HistoryDocument, Vec<PartDocument>), String> {
    if event.event_id() == 0 {
        return Err("an event has no id: the runtime gives them".to_owned());
    }
    let id = ids::history(instance, execution, event.event_id());
    let text =
        serde_json::to_string(event).map_err(|error| format!("an event is no JSON: {error}"))?;
    let (event_data, parts) = Payload::of(instance, &id, text);
    let document = HistoryDocument {
        id,
        instance_id: instance.to_owned(),
        kind: kinds::HISTORY.to_owned(),
        execution_id: execution,
        event_id: event.event_id(),
        event_data,
        staged_turn: None,
    };
    Ok((document, parts))
}

fn enqueued(turn: &Turn<'_>, position: usize) -> Enqueued {
    let seq = turn.first_seq + position as u64;
    Enqueued { now: turn.now, seq, visible_at: turn.now, is_fenced: true }
}

/// The activities of the turn. One that a worker waits for is locked for it from the start.
fn worker_items(
    turn: &Turn<'_>,
    handed: &[Option<HandOff>],
    documents: &mut Documents,
) -> Result<Vec<Option<WorkerDocument>>, ProviderError> {
    let mut workers = Vec::with_capacity(turn.worker_items.len());
    for (position, item) in turn.worker_items.iter().enumerate() {
        let (mut worker, parts) = worker_item(OPERATION, item, enqueued(turn, position))?;
        if worker.instance_id != turn.instance.instance_id {
            let sentence = "an orchestration schedules activities of its own instance alone";
            return Err(ProviderError::permanent(OPERATION, sentence));
        }
        // Scheduled and cancelled in one turn: it never was.
        if is_cancelled(turn, item) {
            workers.push(None);
            continue;
        }
        if let Some(Some(handed)) = handed.get(position) {
            worker.lock_token = Some(handed.token.clone());
            (worker.locked_until, worker.attempt_count) = (Some(handed.locked_until), 1);
        }
        workers.push(Some(worker.clone()));
        documents.workers.push(worker);
        documents.parts.extend(parts);
    }
    Ok(workers)
}

fn is_cancelled(turn: &Turn<'_>, item: &WorkItem) -> bool {
    let WorkItem::ActivityExecute { instance, execution_id, id, .. } = item else { return false };
    turn.cancelled.iter().any(|cancelled| {
        (&cancelled.instance, cancelled.execution_id, cancelled.activity_id)
            == (instance, *execution_id, *id)
    })
}

/// A tombstone in the place of each activity that is cancelled: a worker that has it finds its lock gone, and there
/// may be none, which a deletion would fail by.
fn cancellations<'a>(turn: &'a Turn<'_>) -> impl Iterator<Item = Write> + 'a {
    let is_ours =
        |cancelled: &&ScheduledActivityIdentifier| cancelled.instance == turn.instance.instance_id;
    turn.cancelled.iter().filter(is_ours).map(|cancelled| {
        let id =
            ids::worker_item(&cancelled.instance, cancelled.execution_id, cancelled.activity_id);
        Write::bury(&cancelled.instance, &id)
    })
}

/// Messages to the instance itself are committed with the turn; those to others are remembered and delivered then.
fn orchestrator_items(
    turn: &Turn<'_>,
    instance: &InstanceDocument,
    documents: &mut Documents,
) -> Result<Vec<(IntentDocument, Vec<PartDocument>)>, ProviderError> {
    let mut intents = Vec::new();
    for (position, item) in turn.orchestrator_items.iter().enumerate() {
        let Some(target) = addressee(item) else {
            return Err(ProviderError::permanent(
                OPERATION,
                "an activity is no message to an instance",
            ));
        };
        let mut enqueued = enqueued(turn, turn.worker_items.len() + position);
        enqueued.visible_at = visible_at(item, turn.now);
        let text = encode(OPERATION, item)?;
        if target == instance.instance_id {
            let id = format!("{}:message:{}:{position}", ids::part(target), instance.turn);
            let (message, parts) = message(id, target, text, enqueued);
            documents.messages.push(message);
            documents.parts.extend(parts);
            continue;
        }
        let intent = intent(instance, target, text, position, enqueued);
        documents.intents.push(intent.0.clone());
        documents.parts.extend(intent.1.clone());
        intents.push(intent);
    }
    Ok(intents)
}

fn intent(
    instance: &InstanceDocument,
    target: &str,
    text: String,
    position: usize,
    enqueued: Enqueued,
) -> (IntentDocument, Vec<PartDocument>) {
    let source = &instance.instance_id;
    let key = ids::delivery_key(source, &instance.incarnation, instance.turn, position);
    let id = ids::intent(&key);
    let (payload, parts) = Payload::of(source, &id, text);
    let intent = IntentDocument {
        id,
        instance_id: source.clone(),
        kind: kinds::INTENT.to_owned(),
        target_instance_id: target.to_owned(),
        target_document_type: kinds::MESSAGE.to_owned(),
        payload,
        visible_at: enqueued.visible_at,
        idempotency_key: key,
        status: delivery::PENDING.to_owned(),
        created_at: enqueued.now,
        attempt_count: 0,
        last_attempt_at: None,
        last_error: None,
        seq: enqueued.seq,
        enqueued_at: enqueued.now,
        dispatch_slot: ids::dispatch_slot(source),
        staged_turn: None,
        etag: None,
    };
    (intent, parts)
}

/// What the turn makes of the instance and of its execution; the execution's document if it has changed.
fn execution(
    turn: &Turn<'_>,
    instance: &mut InstanceDocument,
    documents: &mut Documents,
) -> Option<Write> {
    let (metadata, id) = (turn.metadata, turn.execution_id);
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
            .map(|output| Payload::of(&instance.instance_id, &execution.id, output));
        let (output, parts) = output.unzip();
        execution.output = output;
        documents.parts.extend(parts.into_iter().flatten());
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
    is_changed.then(|| Write::upsert(&execution.id, &execution))
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
