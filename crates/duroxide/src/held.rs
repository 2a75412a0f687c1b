//! The locks that this process holds: what it knows of them saves reading it again. A lock that is not here is
//! found by its token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cache::Replay;
use crate::documents::{InstanceDocument, KeyValueDocument, MessageDocument, WorkerDocument};
use crate::fetch::TurnTerms;

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
    /// What it is replayed from; none if that is not known or cannot be read.
    pub(crate) replay: Option<Replay>,
    /// How long the lock was asked for.
    pub(crate) lock_timeout: Duration,
    /// What its dispatcher asks for next.
    pub(crate) terms: Option<TurnTerms>,
    /// Its commit may have happened: nothing may be committed with it any more.
    pub(crate) is_dead: bool,
}

/// Locks by their tokens. Whoever uses one has it to itself: a renewal and a commit must not overtake each other.
#[derive(Debug)]
pub(crate) struct Held<T>(Mutex<HashMap<String, Entry<T>>>);

#[derive(Debug)]
struct Entry<T> {
    expires: i64,
    lock: Arc<tokio::sync::Mutex<T>>,
}

pub(crate) type HeldTurns = Held<HeldTurn>;
pub(crate) type HeldItems = Held<WorkerDocument>;

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Mutex::default())
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
        let lock = Arc::new(tokio::sync::Mutex::new(held));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_HELD {
            all.retain(|_, entry| entry.expires > now);
        }
        if all.len() < MAX_HELD {
            all.insert(token.to_owned(), Entry { expires, lock: Arc::clone(&lock) });
        }
        lock
    }

    /// A lock that is remembered.
    pub(crate) fn get(&self, token: &str) -> Option<Arc<tokio::sync::Mutex<T>>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(token).map(|entry| Arc::clone(&entry.lock))
    }

    /// Notes that a lock was extended.
    pub(crate) fn extend(&self, token: &str, expires: i64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = all.get_mut(token) {
            entry.expires = expires;
        }
    }

    /// Forgets a lock that was released.
    pub(crate) fn remove(&self, token: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(token);
    }
}
