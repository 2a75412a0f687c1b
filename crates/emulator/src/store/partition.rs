//! A physical partition: a range of the key space, its log, and the replica that the log yields.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKeyRangeId, PartitionSessionToken, SessionToken,
    VectorSessionToken,
};

use super::{Change, Entry, Replica, UniqueKeys};
use crate::throttle::Budget;

/// A physical partition.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionKeyRangeId,
    pub(crate) range: EffectivePartitionKeyRange,
    state: RwLock<PartitionState>,
    pub(crate) budget: Budget,
}

/// What changes in a partition.
#[derive(Debug)]
pub(crate) struct PartitionState {
    pub(crate) replica: Replica,
}

impl Partition {
    pub(crate) fn new(
        id: PartitionKeyRangeId,
        range: EffectivePartitionKeyRange,
        unique_keys: UniqueKeys,
    ) -> Self {
        let state = PartitionState { replica: Replica::new(unique_keys) };
        Self { id, range, state: RwLock::new(state), budget: Budget::default() }
    }

    // A panic while the lock is held cannot leave a half-applied entry behind: entries are decided
    // before they are applied, and applying does not panic. So a poisoned lock is still good.

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, PartitionState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, PartitionState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session token of a reader that has seen everything up to `lsn`.
    pub(crate) fn session_token(&self, lsn: u64) -> SessionToken {
        let lsn = i64::try_from(lsn).unwrap_or(i64::MAX);
        let progress = VectorSessionToken::new(TOPOLOGY_VERSION, lsn, []);
        SessionToken::of_range(self.id.clone(), PartitionSessionToken::Vector(progress))
    }
}

/// The version in session tokens; it changes with the regions of an account.
const TOPOLOGY_VERSION: i64 = 1;

impl PartitionState {
    /// The number of the next entry.
    pub(crate) fn next_lsn(&self) -> u64 {
        self.replica.lsn() + 1
    }

    /// Writes an entry: the changes happen together or, if there are none, nothing happens.
    pub(crate) fn commit(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let entry = Entry { lsn: self.next_lsn(), changes };
        self.replica.apply(&entry);
    }

    /// Removes what has outlived its time to live. Every write begins with this, so that an expired
    /// item is never in its way.
    pub(crate) fn expire(&mut self, now_seconds: u64) {
        let expired = self.replica.expired(now_seconds);
        self.commit(expired.into_iter().map(|item| Change::Delete { item }).collect());
    }
}
