//! Everything that committing a turn writes, as values. Pure: nothing here sends, waits or reads a clock.

use std::collections::BTreeMap;

use duroxide::providers::{ProviderError, ScheduledActivityIdentifier, WorkItem};

use super::turn::Turn;
use super::{executions, key_values};
use crate::dispatch::HandOff;
use crate::documents::{
    Cleanup, HistoryDocument, InstanceDocument, IntentDocument, KeyValueDocument, MessageDocument,
    PartDocument, Payload, WorkerDocument, delivery, kinds,
};
use crate::ids;
use crate::turn::consume;
use crate::work_items::{Enqueued, addressee, encode, is_start, message, visible_at, worker_item};
use crate::write::{self, Write};

const OPERATION: &str = "ack_orchestration_item";

/// The batches of a commit: those that stage its documents if they do not fit into one, then the batch that
/// commits. The instance is the first of each batch, and is added where its etag is known.
#[derive(Debug)]
pub(crate) struct AckPlan {
    /// Batches before the commit: their documents are not seen until then.
    pub(crate) staged: Vec<Vec<Write>>,
    /// The changes that are committed with the instance.
    pub(crate) commit: Vec<Write>,
    /// The instance after the commit.
    pub(crate) instance: InstanceDocument,
    /// Messages to be delivered to other instances then.
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
    let (execution, parts) = executions::after(turn, &mut instance);
    documents.parts.extend(parts);
    let consumed = turn.messages.iter().map(consume).chain(cancellations(turn));
    let removed: Vec<Write> = consumed.chain(consumed_parts(turn)).collect();

    // The order of a batch is that of its words, so what must be there before something else comes first.
    let mut commit = removed.clone();
    commit.extend(documents.writes(None));
    commit.extend(key_values.writes());
    commit.extend(execution.clone());
    let whole: Vec<Write> =
        std::iter::once(Write::replace_instance(&instance)).chain(commit.clone()).collect();
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
    let beside = Write::replace_instance(&plan.instance).bytes();
    let mut commit: Vec<Write> = execution.into_iter().collect();
    let left = removed.len().min(write::MAX_BATCH_WRITES - 1 - commit.len());
    plan.instance.cleanup.extend(later(turn, left));
    commit.extend_from_slice(&removed[..left]);
    (plan.staged, plan.commit) = (write::chunks(staged, beside), commit);
    check_size(&plan)?;
    Ok(plan)
}

/// Refuses a turn of which a batch cannot be sent: the limits of duroxide on statuses and keys keep it from happening.
fn check_size(plan: &AckPlan) -> Result<(), ProviderError> {
    let instance = Write::replace_instance(&plan.instance).bytes();
    let last: usize = plan.commit.iter().map(Write::bytes).sum();
    let staged = plan.staged.iter().map(|batch| batch.iter().map(Write::bytes).sum());
    let largest = instance + staged.chain([last]).max().unwrap_or_default();
    if largest <= write::MAX_BATCH_BYTES {
        return Ok(());
    }
    let sentence = format!(
        "{}: the turn writes {largest} bytes at once, and the service takes 2 MB: shorten the custom status or the values",
        plan.instance.instance_id
    );
    Err(ProviderError::permanent(OPERATION, sentence))
}

/// The removals that the commit has no room for, after so many: the instance remembers them.
fn later(turn: &Turn<'_>, removed: usize) -> Vec<Cleanup> {
    let message = |message: &MessageDocument| match message.is_fenced {
        true => Cleanup::Delete { id: message.id.clone() },
        false => Cleanup::Bury { id: message.id.clone() },
    };
    let messages = turn.messages.iter().skip(removed).map(message);
    let mut cancelled: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let before = turn.messages.len();
    for it in own_cancelled(turn).skip(removed.saturating_sub(before)) {
        cancelled.entry(it.execution_id).or_default().push(it.activity_id);
    }
    let before = before + own_cancelled(turn).count();
    let parts = consumed_parts(turn).skip(removed.saturating_sub(before));
    let parts = parts.map(|write| Cleanup::Bury { id: write.id });
    let cancelled = cancelled.into_iter();
    let cancelled =
        cancelled.map(|(execution, activities)| Cleanup::Cancel { execution, activities });
    messages.chain(cancelled).chain(parts).collect()
}

/// Tombstones in the place of the parts of the payloads that the turn has handled. A process that ends right after the commit
/// leaves none of them, and a tombstone cannot fail by a part that is missing.
fn consumed_parts<'a>(turn: &'a Turn<'_>) -> impl Iterator<Item = Write> + 'a {
    let parts = |message: &'a MessageDocument| {
        let part = |number| Write::bury_part(&message.instance_id, &message.id, number);
        (0..message.work_item.parts()).map(part)
    };
    turn.messages.iter().flat_map(parts)
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
            HistoryDocument::of(&turn.instance.instance_id, turn.execution_id, event)
                .map_err(|sentence| ProviderError::permanent(OPERATION, sentence))?;
        documents.history_bytes +=
            document.event_data.bytes() + parts.iter().map(|part| part.data.len()).sum::<usize>();
        documents.history.push(document);
        documents.parts.extend(parts);
    }
    Ok(())
}

fn enqueued(turn: &Turn<'_>, position: usize) -> Enqueued {
    let seq = turn.first_seq + position as u64;
    Enqueued { now: turn.now, seq, visible_at: 0, is_fenced: true, is_start: false }
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
            worker.lock_owner.clone_from(&handed.owner);
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
    own_cancelled(turn).map(|cancelled| {
        let id =
            ids::worker_item(&cancelled.instance, cancelled.execution_id, cancelled.activity_id);
        Write::bury(&cancelled.instance, &id)
    })
}

fn own_cancelled<'a>(
    turn: &'a Turn<'_>,
) -> impl Iterator<Item = &'a ScheduledActivityIdentifier> + 'a {
    turn.cancelled.iter().filter(|cancelled| cancelled.instance == turn.instance.instance_id)
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
        enqueued.visible_at = visible_at(item);
        enqueued.is_start = is_start(item);
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
        unknown: Default::default(),
        etag: None,
    };
    (intent, parts)
}

#[cfg(test)]
mod tests {
    use duroxide::providers::ExecutionMetadata;
    use duroxide::{Event, EventKind};

    use super::*;
    use crate::turn::clean_up;
    use crate::write::Change;

    fn instance() -> InstanceDocument {
        let new = InstanceDocument::provisional("i", "x".to_owned(), 0);
        InstanceDocument { lock_token: Some("t".to_owned()), locked_until: Some(9), ..new }
    }

    fn activity(id: u64) -> WorkItem {
        WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        }
    }

    fn event(id: u64, data: String) -> Event {
        let kind = EventKind::ExternalEvent { name: "go".to_owned(), data };
        Event::with_event_id(id, "i", 1, None, kind)
    }

    /// Plans a turn with some parts of it.
    fn planned(
        instance: &InstanceDocument,
        change: impl for<'a> FnOnce(&mut Turn<'a>, &'a Parts),
        parts: &Parts,
    ) -> Result<AckPlan, ProviderError> {
        let mut turn = Turn {
            token: "t",
            instance,
            messages: &[],
            key_values: &[],
            execution: None,
            execution_id: 1,
            history: &[],
            worker_items: &[],
            orchestrator_items: &[],
            metadata: &parts.metadata,
            cancelled: &[],
            handed: &[],
            now: 5,
            first_seq: 40,
        };
        change(&mut turn, parts);
        plan(&turn)
    }

    #[derive(Default)]
    struct Parts {
        history: Vec<Event>,
        worker_items: Vec<WorkItem>,
        orchestrator_items: Vec<WorkItem>,
        cancelled: Vec<ScheduledActivityIdentifier>,
        handed: Vec<Option<HandOff>>,
        metadata: ExecutionMetadata,
    }

    fn ids(writes: &[Write]) -> Vec<&str> {
        writes.iter().map(|write| write.id.as_str()).collect()
    }

    #[test]
    fn a_turn_is_committed_by_one_batch_that_releases_the_lock() {
        let parts = Parts {
            history: vec![event(1, String::new())],
            worker_items: vec![activity(2)],
            ..Parts::default()
        };
        let plan = planned(
            &instance(),
            |turn, parts| {
                (turn.history, turn.worker_items) = (&parts.history, &parts.worker_items);
            },
            &parts,
        )
        .unwrap();
        assert!(plan.staged.is_empty());
        assert_eq!(ids(&plan.commit), ["i:history:1:1", "i:worker:1:2", "i:execution:1"]);
        assert_eq!((plan.instance.turn, &plan.instance.lock_token), (1, &None));
        assert_eq!(plan.instance.recent_acks, ["t"]);
        assert_eq!(plan.workers[0].as_ref().unwrap().seq, 40);
    }

    #[test]
    fn an_activity_is_created_locked_for_a_waiting_worker_unless_staged() {
        let handed = Some(HandOff { token: "w".to_owned(), locked_until: 99, owner: None });
        let mut parts =
            Parts { worker_items: vec![activity(2)], handed: vec![handed], ..Parts::default() };
        let plan = planned(
            &instance(),
            |turn, parts| {
                (turn.worker_items, turn.handed) = (&parts.worker_items, &parts.handed);
            },
            &parts,
        )
        .unwrap();
        let worker = plan.workers[0].as_ref().unwrap();
        assert_eq!((worker.lock_token.as_deref(), worker.attempt_count), (Some("w"), 1));
        parts.history = (1..200).map(|id| event(id, String::new())).collect();
        let plan = planned(
            &instance(),
            |turn, parts| {
                (turn.worker_items, turn.handed) = (&parts.worker_items, &parts.handed);
                turn.history = &parts.history;
            },
            &parts,
        )
        .unwrap();
        assert!(!plan.staged.is_empty());
        assert_eq!(plan.workers[0].as_ref().unwrap().lock_token, None);
    }

    #[test]
    fn a_cancelled_activity_leaves_a_tombstone_and_an_unwritten_one_nothing() {
        let cancel = |activity_id| ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id,
        };
        let parts = Parts {
            worker_items: vec![activity(2)],
            cancelled: vec![cancel(2), cancel(7)],
            ..Parts::default()
        };
        let plan = planned(
            &instance(),
            |turn, parts| {
                (turn.worker_items, turn.cancelled) = (&parts.worker_items, &parts.cancelled);
            },
            &parts,
        )
        .unwrap();
        assert_eq!(ids(&plan.commit[..2]), ["i:worker:1:2", "i:worker:1:7"]);
        assert!(plan.commit[..2].iter().all(|write| matches!(write.change, Change::Upsert(_))));
        assert_eq!(plan.workers, [None]);
    }

    /// The ids of what the commit has no room to remove were more than a document holds.
    #[test]
    fn a_turn_may_cancel_a_hundred_thousand_activities() {
        let cancel = |activity_id| ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id,
        };
        let parts = Parts { cancelled: (0..100_000).map(cancel).collect(), ..Parts::default() };
        let plan =
            planned(&instance(), |turn, parts| turn.cancelled = &parts.cancelled, &parts).unwrap();
        let commit = [&[Write::replace_instance(&plan.instance)], plan.commit.as_slice()].concat();
        assert!(write::fits(&commit), "{}", commit[0].bytes());
        let later = clean_up(&plan.instance);
        assert_eq!(later.len() + ids(&plan.commit).len() - 1, 100_000, "beside the execution");
        assert_eq!(later.last().unwrap().id, "i:worker:1:99999");
    }

    #[test]
    fn a_turn_that_does_not_fit_is_staged_and_the_commit_makes_it_count() {
        let parts = Parts {
            history: (1..=3).map(|id| event(id, "x".repeat(900_000))).collect(),
            ..Parts::default()
        };
        let plan =
            planned(&instance(), |turn, parts| turn.history = &parts.history, &parts).unwrap();
        assert_eq!(plan.staged.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
        let staged = |write: &Write| match &write.change {
            Change::Create(document) => document.contains("\"stagedTurn\":1"),
            _ => false,
        };
        assert!(plan.staged.concat().iter().all(staged));
        assert_eq!(ids(&plan.commit), ["i:execution:1"]);
    }

    #[test]
    fn messages_to_others_are_remembered_and_those_to_itself_committed() {
        let raised = |instance: &str| WorkItem::ExternalRaised {
            instance: instance.to_owned(),
            name: "go".to_owned(),
            data: String::new(),
        };
        let parts =
            Parts { orchestrator_items: vec![raised("i"), raised("other")], ..Parts::default() };
        let plan = planned(
            &instance(),
            |turn, parts| {
                turn.orchestrator_items = &parts.orchestrator_items;
            },
            &parts,
        )
        .unwrap();
        assert_eq!(plan.own_messages, [0], "visible at once, whatever another clock says");
        assert_eq!(plan.intents.len(), 1);
        let intent = &plan.intents[0].0;
        assert_eq!(
            (intent.target_instance_id.as_str(), intent.status.as_str()),
            ("other", "pending")
        );
        assert_eq!(intent.idempotency_key, "i:x:1:1", "incarnation, turn and position");
    }

    #[test]
    fn an_event_without_an_id_and_an_activity_of_another_instance_are_refused() {
        let parts = Parts { history: vec![event(0, String::new())], ..Parts::default() };
        assert!(planned(&instance(), |turn, parts| turn.history = &parts.history, &parts).is_err());
        let mut foreign = activity(2);
        if let WorkItem::ActivityExecute { instance, .. } = &mut foreign {
            *instance = "other".to_owned();
        }
        let parts = Parts { worker_items: vec![foreign], ..Parts::default() };
        let refused =
            planned(&instance(), |turn, parts| turn.worker_items = &parts.worker_items, &parts);
        assert!(!refused.unwrap_err().is_retryable());
    }
}
