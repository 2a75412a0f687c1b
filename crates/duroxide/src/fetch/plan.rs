//! Which messages of an instance make its next turn, and how they are locked. Pure: what was read comes in, what is
//! to be written comes out.

use duroxide::providers::{DispatcherCapabilityFilter, WorkItem};

use crate::documents::{Cleanup, InstanceDocument, MessageDocument, PinnedVersion};
use crate::work_items::is_start;
use crate::write::{Change, Write};

/// The most messages of one turn: as many as fit into the batch that locks them, beside the instance.
pub(crate) const MAX_MESSAGES: usize = 99;

/// How long an instance is left alone that cannot be fetched for another reason than a lock.
pub(crate) const LEFT_ALONE_MS: i64 = 5_000;

/// What was read of an instance's partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct InstanceView {
    pub(crate) instance: Option<InstanceDocument>,
    /// Those that are visible.
    pub(crate) messages: Vec<ReadMessage>,
}

/// A message with its payload.
#[derive(Clone, Debug)]
pub(crate) struct ReadMessage {
    pub(crate) document: MessageDocument,
    pub(crate) item: WorkItem,
}

/// What a fetch brings with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchTerms<'a> {
    pub(crate) now: i64,
    pub(crate) locked_until: i64,
    pub(crate) token: &'a str,
    /// The incarnation of the instance, if it is created by this lock.
    pub(crate) incarnation: &'a str,
    pub(crate) filter: Option<&'a DispatcherCapabilityFilter>,
}

/// What is to be done with an instance.
#[derive(Debug)]
pub(crate) enum FetchPlan {
    /// Nothing now: it is locked, incompatible, being deleted, or has no message that can be handled. If it may be
    /// worth another look, from when on.
    Skip(Option<i64>),
    /// What an earlier turn left has to be removed first; then it is looked at again.
    CleanUp(Vec<Write>),
    /// Messages that nobody will ever handle.
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
    let InstanceView { instance, mut messages } = view;
    if let Some(instance) = &instance {
        if instance.is_locked(terms.now) {
            return FetchPlan::Skip(instance.locked_until);
        }
        if instance.is_deleting || !is_compatible(instance, terms) {
            return FetchPlan::Skip(Some(terms.now.saturating_add(LEFT_ALONE_MS)));
        }
        if !instance.cleanup.is_empty() {
            return FetchPlan::CleanUp(clean_up(instance));
        }
        messages.retain(|message| instance.has_committed(message.document.staged_turn));
    }
    messages.sort_by(|one, other| one.document.order().cmp(&other.document.order()));
    let is_new = instance.as_ref().is_none_or(|it| it.is_provisional && it.turn == 0);
    if messages.is_empty() {
        return FetchPlan::Skip(None);
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
        return FetchPlan::Skip(None);
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

fn clean_up(instance: &InstanceDocument) -> Vec<Write> {
    let write = |cleanup: &Cleanup| match cleanup {
        Cleanup::Delete { id } => Write::delete(id, None),
        Cleanup::Bury { id } => Write::bury(&instance.instance_id, id),
    };
    instance.cleanup.iter().map(write).collect()
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
    let first = match is_there {
        true => Write::replace(&instance.id, &instance, instance.etag.clone()),
        false => Write::create(&instance.id, &instance),
    };
    let lock = |message: &ReadMessage| Write {
        id: message.document.id.clone(),
        change: Change::Lock {
            token: Some(terms.token.to_owned()),
            until: Some(terms.locked_until),
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
