//! Activities that this process knows to wait, without asking.

mod held_sessions;
mod hint;
mod lanes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) use hint::ItemHint;

use super::turns::MAX_HINTS;
use crate::activity_filter::ActivityDemand;
use crate::documents::SessionDocument;
use held_sessions::HeldSessions;
use hint::Order;
use lanes::{Lanes, oldest};

/// The most bytes of activities that are kept whole; of the others only the address is known.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Activities that are ready, or at a time to come.
#[derive(Debug, Default)]
pub(crate) struct ItemHints {
    /// Without a session.
    plain: Lanes,
    /// Of sessions that no worker is known to have.
    free: Lanes,
    /// Of sessions that a worker has.
    held: HeldSessions,
    places: HashMap<Arc<str>, Place>,
    later: BTreeSet<(i64, LaterItem)>,
    /// Those that workers of this process have, and until when.
    taken: HashMap<String, i64>,
    kept_bytes: usize,
}

/// Where an activity waits.
#[derive(Clone, Debug)]
struct Place {
    session: Option<String>,
    tag: Option<String>,
    order: Order,
}

impl Place {
    fn of(hint: &ItemHint) -> Self {
        Self { session: hint.session.clone(), tag: hint.tag.clone(), order: hint.order() }
    }
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
        let known = self.places.get(hint.id.as_str()).cloned();
        if let Some(place) = &known {
            let there = self.get(place);
            // The same version without the whole says nothing new.
            if hint.document.is_none() && there.is_some_and(|there| there.etag == hint.etag) {
                return false;
            }
            self.remove(place);
        } else if self.places.len() >= MAX_HINTS && !self.make_room(&hint) {
            return false;
        }
        if self.kept_bytes + hint.bytes() > MAX_KEPT_BYTES {
            hint.document = None;
        }
        self.kept_bytes += hint.bytes();
        let place = Place::of(&hint);
        self.places.insert(Arc::clone(&place.order.2), place);
        self.insert(hint);
        known.is_none()
    }

    fn insert(&mut self, hint: ItemHint) {
        if hint.session.is_none() {
            return self.plain.insert(hint);
        }
        if let Err(hint) = self.held.insert(hint) {
            self.free.insert(*hint);
        }
    }

    /// Leaves out the youngest of the activities that most others wait beside, so that they do not keep others from being
    /// known; false if the one that is to be kept is such a one itself.
    fn make_room(&mut self, hint: &ItemHint) -> bool {
        let tag = hint.tag.as_deref();
        let beside = match hint.session.as_deref() {
            None => self.plain.len_of(tag),
            Some(session) if self.held.owner(session).is_some() => self.held.len_of(session, tag),
            Some(_) => self.free.len_of(tag),
        };
        let longest = [&self.plain, &self.free].into_iter().map(Lanes::youngest_of_longest);
        let longest = longest.chain([self.held.youngest_of_longest()]).flatten();
        let Some((length, youngest)) = longest.max_by_key(|(length, _)| *length) else {
            return false;
        };
        if length <= beside && youngest.age() <= hint.age() {
            return false;
        }
        let place = Place::of(youngest);
        self.remove(&place).is_some()
    }

    /// Notes that an activity waits from a time on.
    pub(crate) fn push_later(&mut self, mut hint: ItemHint, at: i64) {
        if self.later.len() < MAX_HINTS {
            hint.document = None;
            self.later.insert((at, LaterItem(hint)));
        }
    }

    /// When the next activity becomes visible, or the lock of a session ends.
    pub(crate) fn next_later(&self) -> Option<i64> {
        let visible = self.later.first().map(|(at, _)| *at);
        visible.into_iter().chain(self.held.next_end()).min()
    }

    /// Makes those ready whose time has come. Says whether workers can be woken.
    pub(crate) fn fire(&mut self, now: i64) -> bool {
        let free = self.held.ended(now);
        let mut is_ready = !free.is_empty();
        free.into_iter().for_each(|hint| self.free.insert(hint));
        while let Some((at, item)) = self.later.pop_first() {
            if at > now {
                self.later.insert((at, item));
                break;
            }
            is_ready |= self.push(item.0, now);
        }
        is_ready
    }

    /// Notes that a worker has a session until a time, of this process or of another: its activities are for that one.
    /// Says whether it is noted: there is a most of sessions.
    pub(crate) fn session_held(&mut self, session: &SessionDocument) -> bool {
        self.held.note(session)
    }

    /// Frees the sessions of processes that are gone. Returns how many activities waited for them.
    pub(crate) fn free_sessions_of(&mut self, gone: &BTreeSet<String>) -> usize {
        let free = self.held.end_of_processes(gone);
        let freed = free.len();
        free.into_iter().for_each(|hint| self.free.insert(hint));
        freed
    }

    /// The worker that has the session of an activity.
    pub(crate) fn session_owner(&self, hint: &ItemHint) -> Option<&str> {
        self.held.owner(hint.session.as_deref()?)
    }

    /// Sessions whose workers do not wait, at most so many.
    pub(crate) fn sessions_of_busy_workers(
        &self,
        is_waiting: impl Fn(&str) -> bool,
        most: usize,
    ) -> Vec<Arc<str>> {
        self.held.of_busy_workers(is_waiting, most)
    }

    /// The activity that waits longest, of those that a worker takes.
    pub(crate) fn pop(&mut self, wanted: ActivityDemand<'_>) -> Option<ItemHint> {
        self.pop_if(wanted, |_| true)
    }

    /// Takes the activity that waits longest, if it is of a kind; `None` if it is another.
    pub(crate) fn pop_if(
        &mut self,
        wanted: ActivityDemand<'_>,
        is_meant: impl Fn(&ItemHint) -> bool,
    ) -> Option<ItemHint> {
        let place = self.first(wanted).filter(|hint| is_meant(hint)).map(Place::of)?;
        self.remove(&place)
    }

    /// Whether there is an activity that a worker takes.
    pub(crate) fn has(&mut self, wanted: ActivityDemand<'_>) -> bool {
        self.first(wanted).is_some()
    }

    fn first(&mut self, wanted: ActivityDemand<'_>) -> Option<&ItemHint> {
        let Some(owner) = wanted.owner else { return self.plain.first(wanted.tags) };
        // Activities of a session that a worker has claimed since they came are moved lazily.
        while let Some(hint) = self.free.first(wanted.tags)
            && self.held.owner(hint.session.as_deref().unwrap_or_default()).is_some()
        {
            let Place { tag, order, .. } = Place::of(hint);
            let Some(hint) = self.free.remove(tag.as_deref(), &order) else { break };
            self.insert(hint);
        }
        let of_sessions = [self.free.first(wanted.tags), self.held.first(owner, wanted.tags)];
        oldest(self.plain.first(wanted.tags).into_iter().chain(of_sessions.into_iter().flatten()))
    }

    /// How many are known, ready or at a time to come.
    pub(crate) fn len(&self) -> usize {
        self.places.len() + self.later.len()
    }

    /// How many are ready.
    #[cfg(feature = "otel")]
    pub(crate) fn ready(&self) -> usize {
        self.places.len()
    }

    fn get(&self, place: &Place) -> Option<&ItemHint> {
        let (tag, order) = (place.tag.as_deref(), &place.order);
        match place.session.as_deref() {
            None => self.plain.get(tag, order),
            Some(session) => {
                self.held.get(session, tag, order).or_else(|| self.free.get(tag, order))
            }
        }
    }

    fn remove(&mut self, place: &Place) -> Option<ItemHint> {
        let (tag, order) = (place.tag.as_deref(), &place.order);
        let hint = match place.session.as_deref() {
            None => self.plain.remove(tag, order),
            Some(session) => {
                let held = self.held.remove(session, tag, order);
                held.or_else(|| self.free.remove(tag, order))
            }
        }?;
        self.places.remove(&order.2);
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
        if let Some(place) = self.places.get(id).cloned() {
            self.remove(&place);
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
    use duroxide::providers::TagFilter;

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
        hints.pop(ActivityDemand { tags, owner: sessions.then_some("w") }).map(|hint| hint.id)
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
        let wanted = ActivityDemand { tags: plain, owner: Some("w") };
        let without_session = hints.pop_if(wanted, |hint| hint.session.is_none());
        assert!(without_session.is_none(), "the session's waits longer, and is not passed over");
        assert_eq!(pop(&mut hints, plain, false).as_deref(), Some("first"));
        assert_eq!(pop(&mut hints, plain, true).as_deref(), Some("session's"));
        assert_eq!(pop(&mut hints, plain, true).as_deref(), Some("second"));
        assert_eq!(pop(&mut hints, plain, true), None);
        assert_eq!(pop(&mut hints, &gpu, true).as_deref(), Some("tagged"));
    }

    #[test]
    fn a_locked_activity_is_not_a_hint_until_it_is_released_or_expires() {
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
        let etag: Option<sidereal_protocol::Etag> = Some("1".parse().unwrap());
        let work_item = duroxide::providers::WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            name: "A".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let enqueued = crate::work_items::Enqueued {
            now: 1,
            seq: 0,
            visible_at: 1,
            is_fenced: true,
            is_start: false,
        };
        let (document, _) = crate::work_items::worker_item("test", &work_item, enqueued).unwrap();
        hints.push(ItemHint::of(&document, etag.clone()), 1);
        let found = ItemHint { etag, ..hint(&document.id, 1) };
        assert!(!hints.push(found, 2));
        let all = ActivityDemand { tags: &TagFilter::Any, owner: None };
        assert!(hints.first(all).unwrap().document.is_some());
        let changed = ItemHint { etag: Some("2".parse().unwrap()), ..hint(&document.id, 1) };
        assert!(!hints.push(changed, 3));
        assert!(hints.first(all).unwrap().document.is_none(), "it has changed since");
    }

    #[test]
    fn activities_become_ready_at_their_time_and_are_there_once() {
        let mut hints = ItemHints::default();
        hints.push_later(hint("a", 1), 100);
        assert_eq!((hints.next_later(), hints.fire(99)), (Some(100), false));
        assert!(hints.fire(100));
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
        assert_eq!((hints.places.len(), hints.later.len()), (MAX_HINTS, MAX_HINTS));
    }

    fn tagged(id: &str, tag: &str, enqueued_at: i64) -> ItemHint {
        ItemHint { tag: Some(tag.to_owned()), ..hint(id, enqueued_at) }
    }

    fn of_session(id: &str, session: &str, enqueued_at: i64) -> ItemHint {
        ItemHint { session: Some(session.to_owned()), ..hint(id, enqueued_at) }
    }

    fn held(session: &str, owner: &str, until: i64) -> SessionDocument {
        let free = SessionDocument::claimed(session, owner, 0);
        SessionDocument { locked_until: until, ..free }
    }

    #[test]
    fn activities_that_no_worker_takes_do_not_crowd_out_others() {
        let mut hints = ItemHints::default();
        hints.session_held(&held("s", "elsewhere", 1_000));
        for number in 0..MAX_HINTS {
            let hint = match number % 2 {
                0 => tagged(&number.to_string(), "gpu", 1),
                _ => of_session(&number.to_string(), "s", 1),
            };
            assert!(hints.push(hint, 1));
        }
        assert!(hints.push(hint("plain", 9), 9), "the youngest of another lane is left out for it");
        assert!(hints.push(of_session("free", "t", 9), 9));
        assert_eq!(hints.places.len(), MAX_HINTS);
        assert!(!hints.push(tagged("one more", "gpu", 9), 9));
        assert!(hints.push(tagged("older", "gpu", 0), 9), "a younger one is left out for it");
        assert_eq!(pop(&mut hints, &TagFilter::DefaultOnly, true).as_deref(), Some("free"));
        assert_eq!(pop(&mut hints, &TagFilter::DefaultOnly, true).as_deref(), Some("plain"));
        assert_eq!(pop(&mut hints, &TagFilter::DefaultOnly, true), None);
        assert_eq!(pop(&mut hints, &TagFilter::Any, true).as_deref(), Some("older"));
    }

    #[test]
    fn activities_of_a_session_are_for_its_owner_until_its_lock_ends() {
        let mut hints = ItemHints::default();
        let all = &TagFilter::DefaultOnly;
        let popped = |hints: &mut ItemHints, owner| {
            hints.pop(ActivityDemand { tags: all, owner: Some(owner) }).map(|hint| hint.id)
        };
        hints.push(of_session("1", "s", 1), 1);
        hints.session_held(&held("s", "one", 100));
        hints.push(of_session("2", "s", 2), 2);
        hints.push(hint("3", 3), 3);
        assert_eq!(popped(&mut hints, "other").as_deref(), Some("3"));
        assert_eq!(popped(&mut hints, "other"), None);
        assert_eq!(popped(&mut hints, "one").as_deref(), Some("1"));
        hints.push(of_session("1", "s", 1), 3);
        hints.session_held(&held("s", "one", 200));
        assert_eq!(hints.next_later(), Some(200), "its lock was extended");
        assert!(!hints.fire(199) && popped(&mut hints, "other").is_none());
        hints.session_held(&held("s", "third", 300));
        assert_eq!(popped(&mut hints, "one"), None, "it has another owner");
        assert_eq!(popped(&mut hints, "third").as_deref(), Some("1"));
        assert!(hints.fire(300));
        assert_eq!(popped(&mut hints, "other").as_deref(), Some("2"));
        assert_eq!((hints.next_later(), hints.places.len()), (None, 0));
    }

    #[test]
    fn activities_of_a_session_are_for_any_worker_once_its_process_is_gone() {
        let mut hints = ItemHints::default();
        let of = |process: &str, session: &str| SessionDocument {
            lock_owner: Some(process.to_owned()),
            ..held(session, session, 100)
        };
        hints.session_held(&of("dead", "s"));
        hints.session_held(&of("alive", "t"));
        hints.push(of_session("1", "s", 1), 1);
        hints.push(of_session("2", "t", 2), 2);
        let wanted = ActivityDemand { tags: &TagFilter::Any, owner: Some("other") };
        assert!(!hints.has(wanted));
        let gone = BTreeSet::from(["dead".to_owned()]);
        assert_eq!((hints.free_sessions_of(&gone), hints.free_sessions_of(&gone)), (1, 0));
        assert_eq!(hints.pop(wanted).map(|hint| hint.id).as_deref(), Some("1"));
        assert!(!hints.has(wanted), "the other process has its lease");
    }

    #[test]
    fn there_is_a_most_of_held_sessions() {
        let mut hints = ItemHints::default();
        for number in 0..MAX_HINTS {
            assert!(hints.session_held(&held(&number.to_string(), "one", 100)));
        }
        assert!(!hints.session_held(&held("one more", "one", 100)));
        assert!(hints.session_held(&held("0", "other", 200)), "it is known");
        hints.fire(100);
        assert!(hints.session_held(&held("one more", "one", 300)));
    }

    #[test]
    fn an_activity_of_a_held_session_is_known_by_its_id() {
        let mut hints = ItemHints::default();
        hints.push(of_session("1", "s", 1), 1);
        hints.session_held(&held("s", "one", 100));
        assert!(!hints.push(of_session("1", "s", 1), 2), "there is no other version");
        hints.took("1", 50, 2);
        hints.push(of_session("2", "s", 1), 2);
        hints.took("2", 50, 2);
        let wanted = ActivityDemand { tags: &TagFilter::Any, owner: Some("one") };
        assert!(!hints.has(wanted) && hints.places.is_empty());
        assert!(!hints.fire(100), "nothing waits for the session");
    }
}
