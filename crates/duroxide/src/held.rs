//! The locks that this process holds: what it knows of them saves reading it again. A lock that is not here is
//! found by its token.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cache::Replay;
use crate::clock::millis;
use crate::documents::{InstanceDocument, KeyValueDocument, MessageDocument, WorkerDocument};
use crate::turn::TurnTerms;

/// The most locks that are remembered. A process that holds more reads again what it forgot.
const MAX_HELD: usize = 10_000;

/// A turn that a dispatcher works on.
#[derive(Debug)]
pub(crate) struct HeldTurn {
    /// With the etag of its last change.
    pub(crate) instance: InstanceDocument,
    /// The execution whose history the dispatcher was given.
    pub(crate) execution_id: u64,
    pub(crate) messages: Vec<MessageDocument>,
    pub(crate) key_values: Arc<Vec<KeyValueDocument>>,
    /// The history it is replayed from; `None` if that is not known or cannot be read.
    pub(crate) replay: Option<Replay>,
    /// How long the lock was asked for.
    pub(crate) lock_timeout: Duration,
    /// The terms on which its dispatcher asks for the next turn.
    pub(crate) terms: Option<TurnTerms>,
}

impl HeldTurn {
    /// The instance with its lock extended.
    pub(crate) fn extended(&self, now: i64) -> InstanceDocument {
        let until = now.saturating_add(millis(self.lock_timeout));
        let mut instance = self.instance.clone();
        // A renewal never shortens.
        instance.locked_until = instance.locked_until.max(Some(until));
        instance
    }
}

/// The most tokens that are remembered as dead. The runtime uses one that failed once more, and at once.
const MAX_DEAD: usize = 1_000;

/// Locks by their tokens. Each is used by one call at a time: a renewal and a commit must not overtake each other.
#[derive(Debug)]
pub(crate) struct Held<T> {
    live: Mutex<HashMap<String, Entry<T>>>,
    /// Tokens whose commit may have happened: nothing may be committed with them any more.
    dead: Mutex<VecDeque<String>>,
}

#[derive(Debug)]
struct Entry<T> {
    expires: i64,
    /// When the provider extends the lock itself.
    extend_at: Option<i64>,
    lock: Arc<tokio::sync::Mutex<T>>,
}

pub(crate) type HeldTurns = Held<HeldTurn>;
pub(crate) type HeldItems = Held<WorkerDocument>;

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { live: Mutex::default(), dead: Mutex::default() }
    }
}

impl<T> Held<T> {
    /// Remembers a lock.
    pub(crate) fn insert(
        &self,
        token: &str,
        held: T,
        expires: i64,
        now: i64,
    ) -> Arc<tokio::sync::Mutex<T>> {
        // Held across the requests of a call, hence an asynchronous mutex.
        let lock = Arc::new(tokio::sync::Mutex::new(held));
        let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_HELD {
            all.retain(|_, entry| entry.expires > now);
        }
        if all.len() < MAX_HELD {
            all.insert(
                token.to_owned(),
                Entry { expires, extend_at: None, lock: Arc::clone(&lock) },
            );
        }
        lock
    }

    /// A lock that is remembered.
    pub(crate) fn get(&self, token: &str) -> Option<Arc<tokio::sync::Mutex<T>>> {
        let all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(token).map(|entry| Arc::clone(&entry.lock))
    }

    /// Notes that a lock was extended.
    pub(crate) fn extend(&self, token: &str, expires: i64) {
        let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.get_mut(token) {
            entry.expires = expires;
        }
    }

    /// Whether a lock is held that has not expired.
    pub(crate) fn has_live(&self, now: i64) -> bool {
        let all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().any(|entry| entry.expires > now)
    }

    /// Has the provider extend a lock once at a time.
    pub(crate) fn extend_at(&self, token: &str, at: i64) {
        let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.get_mut(token) {
            entry.extend_at = Some(at);
        }
    }

    /// The locks that the provider is to extend now. Each is returned once.
    pub(crate) fn take_due(&self, now: i64) -> Vec<(String, Arc<tokio::sync::Mutex<T>>)> {
        let mut all = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = |entry: &Entry<T>| entry.extend_at.is_some_and(|at| at <= now);
        let due = all.iter_mut().filter(|(_, entry)| is_due(entry));
        due.map(|(token, entry)| {
            entry.extend_at = None;
            (token.clone(), Arc::clone(&entry.lock))
        })
        .collect()
    }

    /// Forgets a lock that was released.
    pub(crate) fn remove(&self, token: &str) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }

    /// Has nothing committed with a token any more.
    pub(crate) fn kill(&self, token: &str) {
        let mut dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        if dead.len() >= MAX_DEAD {
            dead.pop_front();
        }
        dead.push_back(token.to_owned());
    }

    /// Whether nothing may be committed with a token.
    pub(crate) fn is_dead(&self, token: &str) -> bool {
        let dead = self.dead.lock().unwrap_or_else(PoisonError::into_inner);
        dead.iter().any(|it| it == token)
    }
}
