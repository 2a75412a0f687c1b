//! Sessions that a worker has, of this process or of another, and the activities that wait for it alone.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use duroxide::providers::TagFilter;

use super::hint::{ItemHint, Order};
use super::lanes::{Lanes, oldest};
use crate::dispatch::turns::MAX_HINTS;
use crate::documents::SessionDocument;

/// Sessions by the worker that has them, until its lock ends.
#[derive(Debug, Default)]
pub(super) struct HeldSessions {
    by_name: HashMap<Arc<str>, Held>,
    /// Those of a worker that activities wait for.
    by_owner: HashMap<Arc<str>, HashSet<Arc<str>>>,
    ends: BTreeSet<(i64, Arc<str>)>,
}

#[derive(Debug)]
struct Held {
    owner: Arc<str>,
    /// The process of the worker, if it is known.
    process: Option<String>,
    until: i64,
    waiting: Lanes,
}

impl HeldSessions {
    /// Notes that a worker has a session until a time. What waits for the session waits for that worker then. There is a
    /// most of sessions: one too many is not noted, which is said.
    pub(super) fn note(&mut self, session: &SessionDocument) -> bool {
        let (until, process) = (session.locked_until, session.lock_owner.clone());
        let (session, owner) = (session.session_id.as_str(), session.owner_id.as_str());
        let waiting = match self.end(session) {
            Some(held) => held.waiting,
            None if self.by_name.len() >= MAX_HINTS => return false,
            None => Lanes::default(),
        };
        let (name, owner) = (Arc::<str>::from(session), Arc::<str>::from(owner));
        if !waiting.is_empty() {
            self.by_owner.entry(Arc::clone(&owner)).or_default().insert(Arc::clone(&name));
        }
        self.ends.insert((until, Arc::clone(&name)));
        self.by_name.insert(name, Held { owner, process, until, waiting });
        true
    }

    fn end(&mut self, session: &str) -> Option<Held> {
        let (name, held) = self.by_name.remove_entry(session)?;
        self.ends.remove(&(held.until, Arc::clone(&name)));
        self.nothing_waits(&name, &held.owner);
        Some(held)
    }

    fn nothing_waits(&mut self, session: &str, owner: &str) {
        let Some(of_owner) = self.by_owner.get_mut(owner) else { return };
        of_owner.remove(session);
        if of_owner.is_empty() {
            self.by_owner.remove(owner);
        }
    }

    /// The worker that has a session.
    pub(super) fn owner(&self, session: &str) -> Option<&str> {
        self.by_name.get(session).map(|held| &*held.owner)
    }

    /// Has an activity wait for the worker that has its session. It comes back if none has.
    pub(super) fn insert(&mut self, hint: ItemHint) -> Result<(), Box<ItemHint>> {
        let session = hint.session.as_deref().unwrap_or_default();
        let Some((name, held)) = self.by_name.get_key_value(session) else {
            return Err(Box::new(hint));
        };
        let (name, owner) = (Arc::clone(name), Arc::clone(&held.owner));
        if let Some(held) = self.by_name.get_mut(&name) {
            held.waiting.insert(hint);
        }
        self.by_owner.entry(owner).or_default().insert(name);
        Ok(())
    }

    pub(super) fn remove(
        &mut self,
        session: &str,
        tag: Option<&str>,
        order: &Order,
    ) -> Option<ItemHint> {
        let held = self.by_name.get_mut(session)?;
        let hint = held.waiting.remove(tag, order)?;
        if held.waiting.is_empty() {
            let owner = Arc::clone(&held.owner);
            self.nothing_waits(session, &owner);
        }
        Some(hint)
    }

    pub(super) fn get(&self, session: &str, tag: Option<&str>, order: &Order) -> Option<&ItemHint> {
        self.by_name.get(session)?.waiting.get(tag, order)
    }

    /// The activity that waits longest for a worker, of those with tags that it takes.
    pub(super) fn first(&self, owner: &str, tags: &TagFilter) -> Option<&ItemHint> {
        let sessions = self.by_owner.get(owner)?.iter();
        oldest(sessions.filter_map(|session| self.by_name.get(session)?.waiting.first(tags)))
    }

    /// How many wait for a session, with a tag.
    pub(super) fn len_of(&self, session: &str, tag: Option<&str>) -> usize {
        self.by_name.get(session).map_or(0, |held| held.waiting.len_of(tag))
    }

    /// The youngest activity of the longest lane, and how many wait there.
    pub(super) fn youngest_of_longest(&self) -> Option<(usize, &ItemHint)> {
        let lanes = self.by_name.values().filter_map(|held| held.waiting.youngest_of_longest());
        lanes.max_by_key(|(length, _)| *length)
    }

    /// When the next lock ends.
    pub(super) fn next_end(&self) -> Option<i64> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// The activities of sessions whose lock has ended: any worker may try to have those.
    pub(super) fn ended(&mut self, now: i64) -> Vec<ItemHint> {
        let mut free = Vec::new();
        while let Some((until, session)) = self.ends.first().cloned()
            && until <= now
        {
            let held = self.end(&session);
            free.extend(held.into_iter().flat_map(|held| held.waiting.into_hints()));
        }
        free
    }

    /// Ends the sessions of processes that are gone. Returns the activities that waited for them.
    pub(super) fn end_of_processes(&mut self, gone: &BTreeSet<String>) -> Vec<ItemHint> {
        let is_gone = |held: &Held| held.process.as_ref().is_some_and(|it| gone.contains(it));
        let ended = self.by_name.iter().filter(|(_, held)| is_gone(held));
        let ended: Vec<Arc<str>> = ended.map(|(name, _)| Arc::clone(name)).collect();
        let held = ended.into_iter().filter_map(|name| self.end(&name));
        held.flat_map(|held| held.waiting.into_hints()).collect()
    }

    /// Sessions whose workers do not wait, those first that most activities wait for.
    pub(super) fn of_busy_workers(
        &self,
        is_waiting: impl Fn(&str) -> bool,
        most: usize,
    ) -> Vec<Arc<str>> {
        let busy = self.by_name.iter().filter(|(_, held)| !is_waiting(&held.owner));
        let mut busy: Vec<_> = busy.map(|(name, held)| (held.waiting.len(), name)).collect();
        busy.sort_unstable_by(|one, other| other.cmp(one));
        busy.into_iter().take(most).map(|(_, name)| Arc::clone(name)).collect()
    }
}
