//! Group commit: what has queued is committed together, with one `fdatasync` for all of it.
//!
//! Nothing here owns a thread. The caller that needs a commit runs it, or has a pool run it: one at a time, and each
//! takes everything that queued while the one before was at work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::mutation::Mutation;
use super::storage::{CommitFailure, Storage};

/// The queued commits, and how far commits have come.
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
    /// Whether the write-ahead log is to be applied.
    checkpoint_due: AtomicBool,
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
            checkpoint_due: AtomicBool::new(false),
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
        // Release, under the lock: a thread that sees the number finds the group queued or committed.
        Durability(self.enqueued.fetch_add(1, Ordering::Release) + 1)
    }

    /// When everything that was queued by now is durable.
    pub(crate) fn now(&self) -> Durability {
        Durability(self.enqueued.load(Ordering::Acquire))
    }

    pub(crate) fn is_reached(&self, point: Durability) -> bool {
        // Acquire, paired with the Release of `commit_to`: what is answered after this is durable.
        point.0 <= self.committed.load(Ordering::Acquire)
    }

    /// Why nothing is committed any more, if a commit failed.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Commits what is queued. On return everything is durable that was queued before the call, or the queue
    /// has failed.
    pub(crate) fn commit(&self) {
        self.commit_to(&mut self.lock_storage());
    }

    /// Applies the write-ahead log, if it is due. Nobody waits for it but those who commit meanwhile.
    pub(crate) fn checkpoint(&self) {
        if self.checkpoint_is_due() {
            self.checkpoint_of(&mut self.lock_storage());
        }
    }

    /// Commits what is queued, applies the write-ahead log and closes the storage, so that another account can open
    /// it.
    pub(crate) fn close(&self) {
        let mut storage = self.lock_storage();
        self.commit_to(&mut storage);
        self.checkpoint_of(&mut storage);
        drop(storage.take());
    }

    fn commit_to(&self, storage: &mut Option<Storage>) {
        let (groups, last) = {
            let mut queued = self.lock_queue();
            (std::mem::take(&mut *queued), self.enqueued.load(Ordering::Acquire))
        };
        // After a failure memory is ahead of the disk, and committing what follows would leave a gap.
        if groups.is_empty() || self.failure().is_some() {
            return;
        }
        let Some(storage) = storage else { return self.fail("the account was closed".to_owned()) };
        if self.attempt(|| storage.commit(&groups)) {
            // Release, after the `fdatasync`: a thread that finds its point reached sees a finished commit.
            self.committed.store(last, Ordering::Release);
            // Relaxed: it hands nothing over, the storage has a lock.
            self.checkpoint_due.store(storage.checkpoint_is_due(), Ordering::Relaxed);
        }
    }

    fn checkpoint_of(&self, storage: &mut Option<Storage>) {
        // After a failure the log may end in a frame that nobody was told of. The next start looks at it.
        if self.failure().is_some() {
            return;
        }
        if let Some(storage) = storage {
            self.attempt(|| storage.checkpoint());
        }
        // Relaxed, here and below: a hint. A stale one costs a look at the storage, under its lock.
        self.checkpoint_due.store(false, Ordering::Relaxed);
    }

    /// Writes to the storage; a failure is for good.
    fn attempt(&self, write: impl FnOnce() -> Result<(), CommitFailure>) -> bool {
        // A panic is a failed commit: all who wait for it would wait for ever otherwise. Unwind safety: after a
        // failure the storage is not used again.
        match catch_unwind(AssertUnwindSafe(write)) {
            Ok(Ok(())) => return true,
            Ok(Err(failure)) => self.fail(failure.to_string()),
            Err(_) => self.fail("the storage engine failed".to_owned()),
        }
        false
    }

    fn fail(&self, reason: String) {
        // Set once: a writer holds the storage, and looks first.
        drop(self.failure.set(reason));
    }

    fn checkpoint_is_due(&self) -> bool {
        self.checkpoint_due.load(Ordering::Relaxed)
    }

    /// Promises to commit what is queued, and to apply the write-ahead log if that is due; `false` where there is
    /// nothing to do, or somebody else has promised.
    pub(crate) fn claim(&self) -> bool {
        let behind = !self.is_reached(self.now());
        (behind || self.checkpoint_is_due())
            && self.failure().is_none()
            && !self.claimed.swap(true, Ordering::AcqRel)
    }

    /// Ends a promise; `true` where there is something to do again that nobody else does, and the promise was given
    /// again.
    pub(crate) fn release_claim(&self) -> bool {
        // Release, paired with the AcqRel of `claim`: the next holder of the promise sees what this one did.
        self.claimed.store(false, Ordering::Release);
        // The caller that queued it may have seen the old promise.
        self.claim()
    }

    fn lock_storage(&self) -> MutexGuard<'_, Option<Storage>> {
        self.storage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_queue(&self) -> MutexGuard<'_, Vec<Vec<Mutation>>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
