//! Histories and keys of instances, as of a turn: what has not changed is not read again.
//!
//! An entry is found by the instance, and counts only for the incarnation, the turn and the execution that it was
//! made for: whatever changes a history advances the turn, or the revision.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use duroxide::Event;

use crate::documents::{InstanceDocument, KeyValueDocument};

/// The history and keys that an instance is replayed from, as of a turn.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(crate) history: Arc<Vec<Event>>,
    /// How long the events are as text.
    history_bytes: usize,
    /// All keys; none if they were not read.
    pub(crate) key_values: Option<Arc<Vec<KeyValueDocument>>>,
}

impl Replay {
    pub(crate) fn new(
        history: Vec<Event>,
        history_bytes: usize,
        key_values: Option<Arc<Vec<KeyValueDocument>>>,
    ) -> Self {
        Self { history: Arc::new(history), history_bytes, key_values }
    }

    /// The bytes of the events as text.
    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// Sets the keys: all of the instance.
    pub(crate) fn with_keys(self, key_values: Vec<KeyValueDocument>) -> Self {
        Self { key_values: Some(Arc::new(key_values)), ..self }
    }

    /// Its approximate size in memory: events are texts with fields around them.
    fn bytes(&self) -> usize {
        let events = self.history_bytes + self.history.len() * size_of::<Event>();
        let keys = self.key_values.iter().flat_map(|all| all.iter()).map(KeyValueDocument::bytes);
        OVERHEAD_BYTES + events + keys.sum::<usize>()
    }

    /// The replay after a turn that added events to the execution.
    pub(crate) fn with_events(mut self, added: &[Event], added_bytes: usize) -> Self {
        // In place, unless another task still reads it.
        Arc::make_mut(&mut self.history).extend_from_slice(added);
        self.history_bytes += added_bytes;
        self
    }
}

/// The state that a replay belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    incarnation: String,
    turn: u64,
    revision: u64,
    execution: u64,
}

impl Version {
    pub(crate) fn of(instance: &InstanceDocument) -> Self {
        Self {
            incarnation: instance.incarnation.clone(),
            turn: instance.turn,
            revision: instance.revision,
            execution: instance.current_execution_id,
        }
    }

    /// Whether it is the same instance, then or later.
    fn is_at_least(&self, other: &Self) -> bool {
        self.incarnation == other.incarnation
            && (self.turn, self.revision) >= (other.turn, other.revision)
    }
}

/// The history of the current execution of an instance.
#[derive(Debug)]
pub(crate) struct Latest {
    pub(crate) history: Arc<Vec<Event>>,
    /// The instance, if it is another than the one that was read.
    pub(crate) instance: Option<InstanceDocument>,
}

/// An LRU cache of replays, bounded in bytes.
#[derive(Debug)]
pub(crate) struct ReplayCache {
    limit_bytes: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_instance: HashMap<Arc<str>, Entry>,
    /// By when they were used.
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    version: Version,
    /// As it was last written or read, if its etag is known.
    instance: Option<Box<InstanceDocument>>,
    replay: Replay,
    used: u64,
    bytes: usize,
}

/// The bytes of an entry beside its events and keys.
const OVERHEAD_BYTES: usize = 512;

impl ReplayCache {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, entries: Mutex::default() }
    }

    /// The replay of an instance as it is.
    pub(crate) fn get(&self, instance: &InstanceDocument) -> Option<Replay> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_instance.get(instance.instance_id.as_str())?;
        if entry.version != Version::of(instance) {
            return None;
        }
        let (replay, used) = (entry.replay.clone(), entry.used);
        entries.touch(&instance.instance_id, used);
        Some(replay)
    }

    /// The history of an instance's current execution, as it was when the instance was seen, or later.
    pub(crate) fn history_since(&self, instance: &str, seen: &Version) -> Option<Arc<Vec<Event>>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_instance.get(instance)?;
        entry.version.is_at_least(seen).then(|| Arc::clone(&entry.replay.history))
    }

    /// The history of an instance that was read, and the instance, as they are or as this process has changed them since.
    pub(crate) fn latest(&self, read: &InstanceDocument) -> Option<Latest> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_instance.get(read.instance_id.as_str())?;
        if !entry.version.is_at_least(&Version::of(read)) {
            return None;
        }
        let history = Arc::clone(&entry.replay.history);
        let is_later = entry.version != Version::of(read);
        let instance = is_later.then(|| entry.instance.as_deref().cloned()).flatten();
        // What is later and not known whole is read.
        (!is_later || instance.is_some()).then_some(Latest { history, instance })
    }

    /// Whether anything is known of an instance.
    pub(crate) fn contains(&self, instance: &str) -> bool {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_instance.contains_key(instance)
    }

    /// Keeps the replay of an instance as it is, in the place of an earlier one.
    pub(crate) fn put(&self, instance: &InstanceDocument, replay: Replay) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&instance.instance_id);
        // One that would leave no room for others is read again.
        if replay.bytes() > self.limit_bytes / 4 {
            return;
        }
        entries.insert(instance, replay);
        while entries.bytes > self.limit_bytes {
            let Some((_, oldest)) = entries.by_use.pop_first() else { break };
            entries.remove(&oldest);
        }
    }

    /// An instance as this process last saw it: as good as a read of it where the etag is a condition.
    pub(crate) fn instance(&self, instance: &str) -> Option<InstanceDocument> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.by_instance.get(instance)?.instance.as_deref().cloned()
    }

    /// Forgets an instance.
    pub(crate) fn forget(&self, instance: &str) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).remove(instance);
    }
}

impl Entries {
    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    fn touch(&mut self, instance: &str, used: u64) {
        let Some(name) = self.by_use.remove(&used) else { return };
        let next = self.next_use();
        self.by_use.insert(next, name);
        if let Some(entry) = self.by_instance.get_mut(instance) {
            entry.used = next;
        }
    }

    fn insert(&mut self, instance: &InstanceDocument, replay: Replay) {
        let (name, used) = (Arc::<str>::from(instance.instance_id.as_str()), self.next_use());
        let version = Version::of(instance);
        let bytes = replay.bytes() + instance.bytes();
        let instance = instance.etag.is_some().then(|| Box::new(instance.clone()));
        self.bytes += bytes;
        self.by_use.insert(used, Arc::clone(&name));
        self.by_instance.insert(name, Entry { version, instance, replay, used, bytes });
    }

    fn remove(&mut self, instance: &str) {
        if let Some(entry) = self.by_instance.remove(instance) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use duroxide::EventKind;

    use super::*;

    fn instance(id: &str, turn: u64) -> InstanceDocument {
        InstanceDocument { turn, ..InstanceDocument::provisional(id, "x".to_owned(), 0) }
    }

    fn replay(bytes: usize) -> Replay {
        let event = Event::with_event_id(1, "i", 1, None, EventKind::KeyValuesCleared);
        Replay::new(vec![event], bytes, None)
    }

    #[test]
    fn a_replay_is_valid_for_its_turn_execution_and_incarnation() {
        let cache = ReplayCache::new(1 << 20);
        cache.put(&instance("i", 1), replay(10));
        assert!(cache.get(&instance("i", 1)).is_some());
        assert!(cache.get(&instance("i", 2)).is_none());
        let recreated = InstanceDocument { incarnation: "y".to_owned(), ..instance("i", 1) };
        assert!(cache.get(&recreated).is_none());
        let appended = InstanceDocument { revision: 1, ..instance("i", 1) };
        assert!(cache.get(&appended).is_none());
        let continued = InstanceDocument { current_execution_id: 2, ..instance("i", 1) };
        assert!(cache.get(&continued).is_none());
        cache.forget("i");
        assert!(cache.get(&instance("i", 1)).is_none());
    }

    #[test]
    fn a_history_counts_for_those_who_saw_the_instance_then_or_before() {
        let cache = ReplayCache::new(1 << 20);
        cache.put(&instance("i", 2), replay(10));
        assert!(cache.contains("i") && !cache.contains("j"));
        let since = |seen: &InstanceDocument| {
            cache.history_since("i", &Version::of(seen)).map(|history| history.len())
        };
        assert_eq!(since(&instance("i", 1)), Some(1));
        assert_eq!(since(&instance("i", 2)), Some(1));
        assert_eq!(since(&instance("i", 3)), None);
        assert_eq!(since(&InstanceDocument { revision: 1, ..instance("i", 2) }), None);
        let recreated = InstanceDocument { incarnation: "y".to_owned(), ..instance("i", 1) };
        assert_eq!(since(&recreated), None);
    }

    #[test]
    fn a_read_overtaken_by_a_commit_returns_the_committed_history() {
        let cache = ReplayCache::new(1 << 20);
        cache.put(&instance("i", 2), replay(10));
        let is_other = |read: &InstanceDocument| {
            cache.latest(read).map(|latest| latest.instance.map(|instance| instance.turn))
        };
        assert_eq!(is_other(&instance("i", 2)), Some(None));
        assert_eq!(is_other(&instance("i", 3)), None, "another process has committed");
        assert_eq!(is_other(&instance("i", 1)), None, "what was committed is not known whole");
        let etag = serde_json::from_str("\"e\"").unwrap();
        cache.put(&InstanceDocument { etag: Some(etag), ..instance("i", 2) }, replay(10));
        assert_eq!(is_other(&instance("i", 1)), Some(Some(2)));
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let limit = 4 * replay(2_000).bytes() - 1;
        let cache = ReplayCache::new(limit);
        for id in ["a", "b", "c"] {
            cache.put(&instance(id, 1), replay(1_500));
        }
        assert!(cache.get(&instance("a", 1)).is_some());
        cache.put(&instance("d", 1), replay(1_900));
        cache.put(&instance("e", 1), replay(1_900));
        assert!(cache.get(&instance("b", 1)).is_none());
        assert!(cache.get(&instance("a", 1)).is_some());
        cache.put(&instance("large", 1), replay(5_000));
        assert!(cache.get(&instance("large", 1)).is_none(), "it would leave no room");
        let entries = cache.entries.lock().unwrap();
        assert!(entries.bytes <= limit);
        assert_eq!(entries.by_use.len(), entries.by_instance.len());
    }

    #[test]
    fn a_turn_adds_its_events() {
        let event = Event::with_event_id(2, "i", 1, None, EventKind::KeyValuesCleared);
        let before = replay(10);
        let after = before.clone().with_events(&[event], 5);
        assert_eq!((before.history.len(), after.history.len()), (1, 2));
        assert_eq!(after.history_bytes, 15);
    }
}
