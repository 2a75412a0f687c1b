//! Which messages of an instance make its next turn, and how they are locked. Pure: what was read comes in, what is
//! to be written comes out.

use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};

use crate::documents::{Cleanup, InstanceDocument, MessageDocument, PinnedVersion};
use crate::ids;
use crate::locks::LockView;
use crate::work_items::is_start;
use crate::write::{Change, Write};

/// The most messages of one turn: as many as fit into the batch that locks them, beside the instance.
pub(crate) const MAX_MESSAGES: usize = 99;

/// How long an instance is left alone that cannot be fetched for another reason than a lock.
const LEFT_ALONE_MS: i64 = 5_000;

/// An instance and its messages, as they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceView {
    pub(crate) instance: Option<InstanceDocument>,
    /// Those that are visible.
    pub(crate) messages: Vec<ReadMessage>,
    /// There are others that are visible and cannot be read.
    pub(crate) has_unreadable: bool,
}

/// A message with its payload.
#[derive(Clone, Debug)]
pub(crate) struct ReadMessage {
    pub(crate) document: MessageDocument,
    pub(crate) item: WorkItem,
}

/// The terms of a fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchTerms<'a> {
    pub(crate) now: i64,
    /// How locks of others are judged.
    pub(crate) locks: &'a LockView,
    /// The name by which the locks of this process are known.
    pub(crate) owner: Option<&'a str>,
    pub(crate) locked_until: i64,
    pub(crate) token: &'a str,
    /// The incarnation of the instance, if it is created by this lock.
    pub(crate) incarnation: &'a str,
    pub(crate) filter: Option<&'a DispatcherCapabilityFilter>,
}

/// Why an instance that has messages cannot be fetched now, and until when at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// A dispatcher has it. Its turn may end long before its lock.
    Locked { until: i64 },
    /// It is being deleted.
    LeftAlone { until: i64 },
    /// It is of a version that the dispatcher cannot replay.
    Incompatible,
    /// None of its messages can be handled: its start has not come, or they cannot be read.
    Unready,
}

impl Blocked {
    pub(crate) fn left_alone(now: i64) -> Self {
        Self::LeftAlone { until: now.saturating_add(LEFT_ALONE_MS) }
    }
}

/// The next step for an instance with messages.
#[derive(Debug)]
pub(crate) enum FetchPlan {
    /// Nothing now: it is blocked, or has no message that can be handled.
    Skip(Option<Blocked>),
    /// Remove documents that an earlier turn left; then the instance is read again.
    CleanUp(Vec<Write>),
    /// Remove messages that no turn will ever handle.
    Drop(Vec<Write>),
    /// The next turn.
    Lock(Box<LockPlan>),
}

/// A turn to be locked.
#[derive(Debug)]
pub(crate) struct LockPlan {
    /// Of one batch, the instance's first.
    pub(crate) writes: Vec<Write>,
    /// As it will be.
    pub(crate) instance: InstanceDocument,
    pub(crate) messages: Vec<ReadMessage>,
    /// The most that one of the messages was tried, this time included.
    pub(crate) attempts: u32,
    /// Whether messages are left for another turn.
    pub(crate) has_more: bool,
}

/// Plans the next turn of an instance.
pub(crate) fn plan(view: InstanceView, terms: FetchTerms<'_>) -> FetchPlan {
    let InstanceView { instance, mut messages, has_unreadable } = view;
    let has_messages = has_unreadable || !messages.is_empty();
    if let Some(instance) = &instance {
        if instance.lock().holds(terms.locks) {
            return FetchPlan::Skip(instance.locked_until.map(|until| Blocked::Locked { until }));
        }
        if instance.is_deleting {
            return FetchPlan::Skip(Some(Blocked::left_alone(terms.now)));
        }
        if !is_compatible(instance, terms) {
            return FetchPlan::Skip(Some(Blocked::Incompatible));
        }
        if !instance.cleanup.is_empty() {
            return FetchPlan::CleanUp(clean_up(instance));
        }
        messages.retain(|message| instance.has_committed(message.document.staged_turn));
    }
    messages.sort_by(|one, other| one.document.order().cmp(&other.document.order()));
    let is_new = instance.as_ref().is_none_or(|it| it.is_provisional && it.turn == 0);
    if messages.is_empty() {
        return FetchPlan::Skip(has_messages.then_some(Blocked::Unready));
    }
    if is_new {
        let Some(start) = messages.iter().position(|message| is_start(&message.item)) else {
            return without_start(&messages);
        };
        // An instance cannot begin without its start, however many messages came before.
        let place = start.min(MAX_MESSAGES - 1);
        messages.swap(start, place);
    }
    let has_more = messages.len() > MAX_MESSAGES;
    messages.truncate(MAX_MESSAGES);
    let plan = LockPlan { has_more, ..lock(instance, messages, terms) };
    FetchPlan::Lock(Box::new(plan))
}

/// Whether the dispatcher can replay the current execution. What is not pinned, it can; and of a filter the first
/// range counts.
fn is_compatible(instance: &InstanceDocument, terms: FetchTerms<'_>) -> bool {
    is_supported(terms.filter, instance.pinned_duroxide_version)
}

/// Whether a version is among those that a dispatcher can replay.
pub(crate) fn is_supported(
    filter: Option<&DispatcherCapabilityFilter>,
    pinned: Option<PinnedVersion>,
) -> bool {
    let Some(filter) = filter else { return true };
    let Some(range) = filter.supported_duroxide_versions.first() else { return false };
    pinned.is_none_or(|pinned| range.contains(&pinned.into()))
}

/// Events that were enqueued before their orchestration are dropped; anything else may have overtaken its start.
fn without_start(messages: &[ReadMessage]) -> FetchPlan {
    if !messages.iter().all(|message| matches!(message.item, WorkItem::QueueMessage { .. })) {
        return FetchPlan::Skip(Some(Blocked::Unready));
    }
    let drop = |message: &ReadMessage| consume(&message.document);
    FetchPlan::Drop(messages.iter().map(drop).collect())
}

/// Removes a message that was handled. What could be created a second time leaves a tombstone.
pub(crate) fn consume(message: &MessageDocument) -> Write {
    match message.is_fenced {
        true => Write::delete(&message.id, None),
        false => Write::bury(&message.instance_id, &message.id),
    }
}

/// Removes what a committed turn had no room for.
pub(crate) fn clean_up(instance: &InstanceDocument) -> Vec<Write> {
    let (mut writes, name) = (Vec::new(), &instance.instance_id);
    for cleanup in &instance.cleanup {
        match cleanup {
            Cleanup::Delete { id } => writes.push(Write::delete(id, None)),
            Cleanup::Bury { id } => writes.push(Write::bury(name, id)),
            Cleanup::Cancel { execution, activities } => {
                let ids = activities.iter().map(|id| ids::worker_item(name, *execution, *id));
                writes.extend(ids.map(|id| Write::bury(name, &id)));
            }
        }
    }
    writes
}

fn lock(
    instance: Option<InstanceDocument>,
    messages: Vec<ReadMessage>,
    terms: FetchTerms<'_>,
) -> LockPlan {
    let is_there = instance.is_some();
    let id = &messages[0].document.instance_id;
    let mut instance = instance.unwrap_or_else(|| {
        InstanceDocument::provisional(id, terms.incarnation.to_owned(), terms.now)
    });
    instance.lock_token = Some(terms.token.to_owned());
    instance.locked_until = Some(terms.locked_until);
    instance.lock_owner = terms.owner.map(str::to_owned);
    let first = match is_there {
        true => Write::replace(&instance.id, &instance, instance.etag.clone()),
        false => Write::create(&instance.id, &instance),
    };
    let lock = |message: &ReadMessage| Write {
        id: message.document.id.clone(),
        change: Change::Lock {
            token: Some(terms.token.to_owned()),
            until: Some(terms.locked_until),
            owner: terms.owner.map(str::to_owned),
            attempts: 1,
            visible_at: None,
            if_match: message.document.etag.clone(),
        },
    };
    let writes = std::iter::once(first).chain(messages.iter().map(lock)).collect();
    let tried = |message: &ReadMessage| message.document.attempt_count + 1;
    let attempts = messages.iter().map(tried).max().unwrap_or(1);
    LockPlan { writes, instance, messages, attempts, has_more: false }
}

/// Plans a turn together with its message, which is created as locked; none if the instance cannot be locked so.
pub(crate) fn plan_created(
    instance: Option<InstanceDocument>,
    message: ReadMessage,
    terms: FetchTerms<'_>,
) -> Option<LockPlan> {
    let view = InstanceView { instance, messages: vec![message], has_unreadable: false };
    let FetchPlan::Lock(mut plan) = plan(view, terms) else { return None };
    let mut locked = plan.messages.first()?.document.clone();
    locked.lock_token = Some(terms.token.to_owned());
    (locked.locked_until, locked.attempt_count) = (Some(terms.locked_until), plan.attempts);
    locked.lock_owner = terms.owner.map(str::to_owned);
    plan.writes.truncate(1);
    plan.writes.push(Write::create(&locked.id, &locked));
    Some(*plan)
}

#[cfg(test)]
mod tests {
    use duroxide::providers::SemverRange;
    use semver::Version;

    use super::*;
    use crate::work_items::{Enqueued, message};

    fn read(id: &str, item: WorkItem, enqueued_at: i64) -> ReadMessage {
        let enqueued = Enqueued {
            now: enqueued_at,
            seq: 0,
            visible_at: 0,
            is_fenced: false,
            is_start: is_start(&item),
        };
        let text = serde_json::to_string(&item).unwrap();
        let (document, _) = message(id.to_owned(), "i", text, enqueued);
        ReadMessage { document, item }
    }

    fn raised(id: &str, enqueued_at: i64) -> ReadMessage {
        let (instance, name) = ("i".to_owned(), "go".to_owned());
        read(id, WorkItem::ExternalRaised { instance, name, data: String::new() }, enqueued_at)
    }

    fn start(enqueued_at: i64) -> ReadMessage {
        let item = WorkItem::StartOrchestration {
            instance: "i".to_owned(),
            orchestration: "Test".to_owned(),
            input: String::new(),
            version: None,
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            execution_id: 1,
        };
        read("start", item, enqueued_at)
    }

    fn instance() -> InstanceDocument {
        let new = InstanceDocument::provisional("i", "x".to_owned(), 0);
        InstanceDocument { is_provisional: false, turn: 1, ..new }
    }

    fn planned(
        instance: Option<InstanceDocument>,
        messages: Vec<ReadMessage>,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> FetchPlan {
        let locks = LockView { time: 100, ..LockView::default() };
        let terms = FetchTerms {
            now: 100,
            locks: &locks,
            owner: None,
            locked_until: 200,
            token: "t",
            incarnation: "y",
            filter,
        };
        plan(InstanceView { instance, messages, has_unreadable: false }, terms)
    }

    #[test]
    fn an_instance_that_is_locked_or_being_deleted_is_left_alone() {
        let locked = InstanceDocument {
            lock_token: Some("another".to_owned()),
            locked_until: Some(150),
            ..instance()
        };
        let skipped = planned(Some(locked.clone()), vec![raised("m", 1)], None);
        assert!(matches!(skipped, FetchPlan::Skip(Some(Blocked::Locked { until: 150 }))));
        let expired = InstanceDocument { locked_until: Some(100), ..locked };
        assert!(matches!(planned(Some(expired), vec![raised("m", 1)], None), FetchPlan::Lock(_)));
        let deleting = InstanceDocument { is_deleting: true, ..instance() };
        assert!(matches!(planned(Some(deleting), vec![raised("m", 1)], None), FetchPlan::Skip(_)));
        assert!(matches!(planned(Some(instance()), vec![], None), FetchPlan::Skip(None)));
    }

    #[test]
    fn a_version_that_the_dispatcher_cannot_replay_is_left_to_others() {
        let pinned = PinnedVersion { major: 9, minor: 0, patch: 0 };
        let pinned = InstanceDocument { pinned_duroxide_version: Some(pinned), ..instance() };
        let range = SemverRange::new(Version::new(0, 0, 0), Version::new(1, 0, 0));
        let filter = DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] };
        let skipped = planned(Some(pinned.clone()), vec![raised("m", 1)], Some(&filter));
        assert!(matches!(skipped, FetchPlan::Skip(Some(Blocked::Incompatible))));
        assert!(matches!(planned(Some(pinned), vec![raised("m", 1)], None), FetchPlan::Lock(_)));
        assert!(matches!(
            planned(Some(instance()), vec![raised("m", 1)], Some(&filter)),
            FetchPlan::Lock(_)
        ));
    }

    #[test]
    fn a_turn_locks_its_instance_and_its_messages_in_order() {
        let FetchPlan::Lock(lock) =
            planned(Some(instance()), vec![raised("later", 2), raised("first", 1)], None)
        else {
            panic!("it can be locked");
        };
        let ids: Vec<&str> = lock.writes.iter().map(|write| write.id.as_str()).collect();
        assert_eq!(ids, ["i:instance", "first", "later"]);
        assert!(matches!(lock.writes[0].change, Change::Replace { .. }));
        assert_eq!(lock.instance.lock_token.as_deref(), Some("t"));
        assert_eq!((lock.attempts, lock.has_more), (1, false));
    }

    #[test]
    fn an_instance_begins_with_its_start_however_many_messages_came_before() {
        let crowd = (0..150).map(|number| raised(&format!("m{number:03}"), number));
        let FetchPlan::Lock(lock) = planned(None, crowd.chain([start(999)]).collect(), None) else {
            panic!("it can be locked");
        };
        assert!(matches!(lock.writes[0].change, Change::Create(_)), "the instance is new");
        assert_eq!((lock.messages.len(), lock.has_more), (MAX_MESSAGES, true));
        assert!(lock.messages.iter().any(|message| is_start(&message.item)));
    }

    #[test]
    fn a_message_without_a_start_waits_unless_it_is_a_queue_event() {
        let unstarted = planned(None, vec![raised("m", 1)], None);
        assert!(matches!(unstarted, FetchPlan::Skip(Some(Blocked::Unready))));
        let queued = WorkItem::QueueMessage {
            instance: "i".to_owned(),
            name: "q".to_owned(),
            data: String::new(),
        };
        let FetchPlan::Drop(writes) = planned(None, vec![read("q", queued, 1)], None) else {
            panic!("no turn will ever handle it");
        };
        assert_eq!(writes.len(), 1);
    }

    #[test]
    fn leftovers_of_an_earlier_turn_are_removed_and_staged_ones_ignored() {
        let cleanup =
            vec![Cleanup::Delete { id: "d".to_owned() }, Cleanup::Bury { id: "b".to_owned() }];
        let left = InstanceDocument { cleanup, ..instance() };
        let FetchPlan::CleanUp(writes) = planned(Some(left), vec![raised("m", 1)], None) else {
            panic!("there is something to remove");
        };
        assert!(matches!(writes[0].change, Change::Delete { .. }));
        assert!(matches!(writes[1].change, Change::Upsert(_)));
        let mut staged = raised("m", 1);
        staged.document.staged_turn = Some(2);
        let uncommitted = planned(Some(instance()), vec![staged], None);
        assert!(matches!(uncommitted, FetchPlan::Skip(Some(Blocked::Unready))));
    }
}
