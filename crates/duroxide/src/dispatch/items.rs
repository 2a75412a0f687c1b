//! Activities that this process knows to wait, without asking.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use duroxide::providers::TagFilter;
use sidereal_protocol::Etag;

use super::turns::MAX_HINTS;
use crate::documents::WorkerDocument;

/// The most bytes of activities that are kept whole; of the others only the address is known.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// A payload that is larger is read when the activity is claimed.
const MAX_KEPT_PAYLOAD: usize = 64 << 10;

/// An activity that waits.
#[derive(Clone, Debug)]
pub(crate) struct ItemHint {
    pub(crate) instance: String,
    pub(crate) id: String,
    pub(crate) enqueued_at: i64,
    pub(crate) seq: u64,
    pub(crate) tag: Option<String>,
    pub(crate) session: Option<String>,
    /// The version that is to be locked; none if it has to be read before.
    pub(crate) etag: Option<Etag>,
    /// The whole, if it is known.
    pub(crate) document: Option<Box<WorkerDocument>>,
}

impl ItemHint {
    /// An activity that this process has written, of the version that the service answered with.
    pub(crate) fn of(document: &WorkerDocument, etag: Option<Etag>) -> Self {
        let is_small = document.work_item.bytes() <= MAX_KEPT_PAYLOAD;
        let whole = || {
            let mut document = document.clone();
            document.etag.clone_from(&etag);
            Box::new(document)
        };
        Self {
            instance: document.instance_id.clone(),
            id: document.id.clone(),
            enqueued_at: document.enqueued_at,
            seq: document.seq,
            tag: document.tag.clone(),
            session: document.session_id.clone(),
            document: (is_small && etag.is_some()).then(whole),
            etag,
        }
    }

    /// The same without what is known of it, to be read again.
    pub(crate) fn address(&self) -> Self {
        Self {
            instance: self.instance.clone(),
            id: self.id.clone(),
            enqueued_at: self.enqueued_at,
            seq: self.seq,
            tag: self.tag.clone(),
            session: self.session.clone(),
            etag: None,
            document: None,
        }
    }

    /// Whether both can be claimed by one batch: they are of one instance, and known whole.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.instance == other.instance && self.document.is_some() && other.document.is_some()
    }

    fn order(&self) -> Order {
        (self.enqueued_at, self.seq, Arc::from(self.id.as_str()))
    }

    fn bytes(&self) -> usize {
        self.document.as_ref().map_or(0, |document| document.work_item.bytes())
    }
}

type Order = (i64, u64, Arc<str>);

/// Which activities a worker takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) tags: &'a TagFilter,
    /// Whether it takes activities of sessions.
    pub(crate) sessions: bool,
}

impl Wanted<'_> {
    fn takes(&self, hint: &ItemHint) -> bool {
        (self.sessions || hint.session.is_none()) && self.tags.matches(hint.tag.as_deref())
    }
}

/// Activities that are ready, or at a time to come.
#[derive(Debug, Default)]
pub(crate) struct ItemHints {
    ready: BTreeMap<Order, ItemHint>,
    orders: HashMap<Arc<str>, Order>,
    later: BTreeSet<(i64, LaterItem)>,
    /// Those that workers of this process have, and until when.
    taken: HashMap<String, i64>,
    kept_bytes: usize,
}

/// An activity that becomes visible later; ordered by its address alone.
#[derive(Clone, Debug)]
struct LaterItem(ItemHint);

impl ItemHints {
    /// Notes that an activity waits. Says whether a worker can be woken for it.
    pub(crate) fn push(&mut self, mut hint: ItemHint, now: i64) -> bool {
        if self.taken.get(&hint.id).is_some_and(|until| *until > now) {
            return false;
        }
        let known = self.orders.get(hint.id.as_str()).cloned();
        if let Some(order) = &known {
            let there = self.ready.get(order);
            // The same version without the whole says nothing new.
            if hint.document.is_none() && there.is_some_and(|there| there.etag == hint.etag) {
                return false;
            }
            self.remove(order);
        } else if self.ready.len() >= MAX_HINTS {
            return false;
        }
        if self.kept_bytes + hint.bytes() > MAX_KEPT_BYTES {
            hint.document = None;
        }
        self.kept_bytes += hint.bytes();
        let order = hint.order();
        self.orders.insert(Arc::clone(&order.2), order.clone());
        self.ready.insert(order, hint);
        known.is_none()
    }

    /// Notes that an activity waits from a time on.
    pub(crate) fn push_later(&mut self, mut hint: ItemHint, at: i64) {
        if self.later.len() < MAX_HINTS {
            hint.document = None;
            self.later.insert((at, LaterItem(hint)));
        }
    }

    /// When the next activity becomes visible.
    pub(crate) fn next_later(&self) -> Option<i64> {
        self.later.first().map(|(at, _)| *at)
    }

    /// Makes those ready whose time has come. Says how many workers can be woken.
    pub(crate) fn fire(&mut self, now: i64) -> usize {
        let mut woken = 0;
        while let Some((at, item)) = self.later.pop_first() {
            if at > now {
                self.later.insert((at, item));
                break;
            }
            woken += usize::from(self.push(item.0, now));
        }
        woken
    }

    /// The activity that waits longest, of those that a worker takes.
    pub(crate) fn pop(&mut self, wanted: Wanted<'_>) -> Option<ItemHint> {
        self.pop_if(wanted, |_| true)
    }

    /// The same, if it is one of a kind; none if that which waits longest is another.
    pub(crate) fn pop_if(
        &mut self,
        wanted: Wanted<'_>,
        is_meant: impl Fn(&ItemHint) -> bool,
    ) -> Option<ItemHint> {
        let (order, hint) = self.ready.iter().find(|(_, hint)| wanted.takes(hint))?;
        let order = is_meant(hint).then(|| order.clone())?;
        self.remove(&order)
    }

    /// The activities that are ready, the one that waits longest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &ItemHint> {
        self.ready.values()
    }

    /// How many are ready.
    #[cfg(feature = "otel")]
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The activity that waits longest.
    pub(crate) fn first(&self) -> Option<&ItemHint> {
        self.ready.values().next()
    }

    fn remove(&mut self, order: &Order) -> Option<ItemHint> {
        let hint = self.ready.remove(order)?;
        self.orders.remove(&order.2);
        self.kept_bytes -= hint.bytes();
        Some(hint)
    }

    /// Notes that a worker of this process has an activity: what the container was asked before may say otherwise.
    pub(crate) fn took(&mut self, id: &str, until: i64, now: i64) {
        if self.taken.len() >= MAX_HINTS {
            self.taken.retain(|_, until| *until > now);
        }
        if self.taken.len() < MAX_HINTS {
            self.taken.insert(id.to_owned(), until);
        }
        if let Some(order) = self.orders.get(id).cloned() {
            self.remove(&order);
        }
    }

    /// Notes that a worker gave an activity back.
    pub(crate) fn gave_back(&mut self, id: &str) {
        self.taken.remove(id);
    }
}

impl PartialEq for LaterItem {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for LaterItem {}

impl PartialOrd for LaterItem {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LaterItem {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(id: &str, enqueued_at: i64) -> ItemHint {
        ItemHint {
            instance: "i".to_owned(),
            id: id.to_owned(),
            enqueued_at,
            seq: 0,
            tag: None,
            session: None,
            etag: None,
            document: None,
        }
    }

    fn pop(hints: &mut ItemHints, tags: &TagFilter, sessions: bool) -> Option<String> {
        hints.pop(Wanted { tags, sessions }).map(|hint| hint.id)
    }

    #[test]
    fn a_worker_gets_the_oldest_activity_that_it_takes() {
        let mut hints = ItemHints::default();
        let gpu = TagFilter::tags(["gpu"]);
        hints.push(ItemHint { tag: Some("gpu".to_owned()), ..hint("tagged", 1) }, 1);
        hints.push(ItemHint { session: Some("s".to_owned()), ..hint("session's", 3) }, 3);
        hints.push(hint("second", 5), 5);
        hints.push(hint("first", 4), 5);
        let plain = &TagFilter::DefaultOnly;
        let wanted = Wanted { tags: plain, sessions: true };
        let without_session = hints.pop_if(wanted, |hint| hint.session.is_none());
        assert!(without_session.is_none(), "the session's waits longer, and is not passed over");
        assert_eq!(pop(&mut hints, plain, false).as_deref(), Some("first"));
        assert_eq!(pop(&mut hints, plain, true).as_deref(), Some("session's"));
        assert_eq!(pop(&mut hints, plain, true).as_deref(), Some("second"));
        assert_eq!(pop(&mut hints, plain, true), None);
        assert_eq!(pop(&mut hints, &gpu, true).as_deref(), Some("tagged"));
    }

    #[test]
    fn an_activity_that_a_worker_has_is_no_hint_until_it_is_given_back_or_expires() {
        let mut hints = ItemHints::default();
        hints.push(hint("a", 1), 1);
        hints.took("a", 1_000, 1);
        assert_eq!(pop(&mut hints, &TagFilter::Any, true), None);
        assert!(!hints.push(hint("a", 1), 2), "an answer from before the claim");
        hints.gave_back("a");
        assert!(hints.push(hint("a", 1), 3));
        hints.took("a", 1_000, 4);
        assert!(hints.push(hint("a", 1), 1_000));
    }

    #[test]
    fn what_is_found_of_an_activity_does_not_replace_what_is_known_of_it() {
        let mut hints = ItemHints::default();
        let etag: Option<Etag> = Some("1".parse().unwrap());
        let work_item = duroxide::providers::WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let enqueued =
            crate::work_items::Enqueued { now: 1, seq: 0, visible_at: 1, is_fenced: true };
        let (document, _) = crate::work_items::worker_item("test", &work_item, enqueued).unwrap();
        hints.push(ItemHint::of(&document, etag.clone()), 1);
        let found = ItemHint { etag, ..hint(&document.id, 1) };
        assert!(!hints.push(found, 2));
        assert!(hints.first().unwrap().document.is_some());
        let changed = ItemHint { etag: Some("2".parse().unwrap()), ..hint(&document.id, 1) };
        assert!(!hints.push(changed, 3));
        assert!(hints.first().unwrap().document.is_none(), "it has changed since");
    }

    #[test]
    fn activities_become_ready_at_their_time_and_are_there_once() {
        let mut hints = ItemHints::default();
        hints.push_later(hint("a", 1), 100);
        assert_eq!((hints.next_later(), hints.fire(99)), (Some(100), 0));
        assert_eq!(hints.fire(100), 1);
        assert!(!hints.push(hint("a", 1), 101));
        assert_eq!(pop(&mut hints, &TagFilter::Any, true).as_deref(), Some("a"));
        assert_eq!(pop(&mut hints, &TagFilter::Any, true), None);
        assert_eq!(hints.kept_bytes, 0);
    }

    #[test]
    fn there_is_a_most_of_activities() {
        let mut hints = ItemHints::default();
        for number in 0..=MAX_HINTS {
            hints.push(hint(&number.to_string(), 1), 1);
            hints.push_later(hint(&number.to_string(), 1), 1);
        }
        assert_eq!((hints.ready.len(), hints.later.len()), (MAX_HINTS, MAX_HINTS));
    }
}
