//! Group commit: what has queued is committed together, with one `fdatasync` for all of it.
//!
//! Nothing here owns a thread. Whoever needs a commit runs it, or has a pool run it: one at a time, and each
//! takes everything that queued while the one before was at work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::mutation::Mutation;
use super::storage::Storage;

/// What is to be committed, and how far commits have come.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    storage: Storage,
    queued: Mutex<Vec<Vec<Mutation>>>,
    /// How many groups were queued so far: the number of the last one.
    enqueued: AtomicU64,
    /// The number of the last group that is durable.
    committed: watch::Sender<u64>,
    /// Held by the commit in progress.
    committing: Mutex<()>,
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
            storage,
            queued: Mutex::default(),
            enqueued: AtomicU64::new(0),
            committed: watch::Sender::new(0),
            committing: Mutex::default(),
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
        point.0 <= *self.committed.borrow()
    }

    /// Why nothing is committed any more, if a commit failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Commits what is queued. On return everything is durable that was queued before the call, or the queue
    /// has failed.
    pub(crate) fn commit(&self) {
        let _one_at_a_time = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let (groups, last) = {
            let mut queued = self.lock_queue();
            (std::mem::take(&mut *queued), self.enqueued.load(Ordering::Acquire))
        };
        // After a failure memory is ahead of the disk, and committing what follows would leave a gap.
        if groups.is_empty() || self.failure().is_some() {
            return;
        }
        match self.storage.commit(&groups) {
            Ok(()) => drop(self.committed.send_replace(last)),
            Err(error) => {
                // Only a commit sets it, and there is one at a time.
                let _ = self.failure.set(error.to_string());
                // Wakes those who wait: they look at the failure.
                self.committed.send_modify(|_| ());
            }
        }
    }

    /// Promises to commit what is queued; `false` where there is nothing, or somebody else has promised.
    pub(crate) fn claim(&self) -> bool {
        let behind = self.enqueued.load(Ordering::Acquire) > *self.committed.borrow();
        behind && self.failure().is_none() && !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Keeps the promise of [`claim`](Self::claim): commits until nothing is queued.
    pub(crate) fn commit_claimed(&self) {
        loop {
            self.commit();
            self.claimed.store(false, Ordering::Release);
            // Queued after the commit took its share: whoever queued it may have seen the old promise.
            if !self.claim() {
                return;
            }
        }
    }

    /// Waits until a point is durable; the error is the reason why it will not be.
    pub(crate) async fn reached(&self, point: Durability) -> Result<(), String> {
        let mut committed = self.committed.subscribe();
        let reached =
            committed.wait_for(|committed| point.0 <= *committed || self.failure().is_some());
        // The sender lives in `self`, so it outlives the wait.
        let _ = reached.await;
        match self.failure() {
            Some(reason) if !self.is_reached(point) => Err(reason.to_owned()),
            _ => Ok(()),
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, Vec<Vec<Mutation>>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
