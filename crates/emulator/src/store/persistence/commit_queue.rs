//! Group commit: what has queued is committed together, with one `fdatasync` for all of it.
//!
//! Nothing here owns a thread. Whoever needs a commit runs it, or has a pool run it: one at a time, and each
//! takes everything that queued while the one before was at work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::mutation::Mutation;
use super::storage::Storage;

/// What is to be committed, and how far commits have come.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    /// Held by the commit in progress; none once the account is closed.
    storage: Mutex<Option<Storage>>,
    queued: Mutex<Vec<Vec<Mutation>>>,
    /// How many groups were queued so far: the number of the last one.
    enqueued: AtomicU64,
    /// The number of the last group that is durable.
    committed: AtomicU64,
    /// Whether somebody has promised to commit what is queued.
    claimed: AtomicBool,
    failure: OnceLock<String>,
}

/// A point in the order of commits: reached when everything queued before it is durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Durability(u64);

impl Durability {
    pub(crate) fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}

impl CommitQueue {
    pub(crate) fn new(storage: Storage) -> Self {
        Self {
            storage: Mutex::new(Some(storage)),
            queued: Mutex::default(),
            enqueued: AtomicU64::new(0),
            committed: AtomicU64::new(0),
            claimed: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Queues mutations that are committed together or not at all.
    ///
    /// The caller holds the lock under which it made them, so that they queue in the order in which they
    /// happened.
    pub(crate) fn enqueue(&self, group: Vec<Mutation>) -> Durability {
        let mut queued = self.lock_queue();
        queued.push(group);
        // Release, under the lock: whoever sees the number finds the group queued or committed.
        Durability(self.enqueued.fetch_add(1, Ordering::Release) + 1)
    }

    /// When everything that was queued by now is durable.
    pub(crate) fn now(&self) -> Durability {
        Durability(self.enqueued.load(Ordering::Acquire))
    }

    pub(crate) fn is_reached(&self, point: Durability) -> bool {
        point.0 <= self.committed.load(Ordering::Acquire)
    }

    /// Why nothing is committed any more, if a commit failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Commits what is queued. On return everything is durable that was queued before the call, or the queue
    /// has failed.
    pub(crate) fn commit(&self) {
        self.commit_to(&self.lock_storage());
    }

    /// Commits what is queued and closes the storage, so that another account can open it.
    pub(crate) fn close(&self) {
        let mut storage = self.lock_storage();
        self.commit_to(&storage);
        drop(storage.take());
    }

    fn commit_to(&self, storage: &Option<Storage>) {
        let (groups, last) = {
            let mut queued = self.lock_queue();
            (std::mem::take(&mut *queued), self.enqueued.load(Ordering::Acquire))
        };
        // After a failure memory is ahead of the disk, and committing what follows would leave a gap.
        if groups.is_empty() || self.failure().is_some() {
            return;
        }
        let commit = |storage: &Storage| storage.commit(&groups).map_err(|error| error.to_string());
        let stored = match storage {
            // A panic is a failed commit: all who wait for it would wait for ever otherwise. Unwind safety: after
            // a failure the storage is not used again.
            Some(storage) => catch_unwind(AssertUnwindSafe(|| commit(storage)))
                .unwrap_or_else(|_| Err("the storage engine failed".to_owned())),
            None => Err("the account was closed".to_owned()),
        };
        match stored {
            Ok(()) => self.committed.store(last, Ordering::Release),
            // Only a commit sets it, and there is one at a time.
            Err(reason) => drop(self.failure.set(reason)),
        }
    }

    /// Promises to commit what is queued; `false` where there is nothing, or somebody else has promised.
    pub(crate) fn claim(&self) -> bool {
        let behind = !self.is_reached(self.now());
        behind && self.failure().is_none() && !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Ends a promise after a commit; `true` where something was queued since that nobody else commits, and the
    /// promise was given anew.
    pub(crate) fn release_claim(&self) -> bool {
        self.claimed.store(false, Ordering::Release);
        // Whoever queued it may have seen the old promise.
        self.claim()
    }

    fn lock_storage(&self) -> MutexGuard<'_, Option<Storage>> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_queue(&self) -> MutexGuard<'_, Vec<Vec<Mutation>>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
