//! Interrupted deletions that this process finishes.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The instances whose deletion is being finished, each once.
#[derive(Debug, Default)]
pub(crate) struct FinishedDeletions(Mutex<HashSet<String>>);

impl FinishedDeletions {
    /// Notes that a deletion is finished now; not if it is already.
    pub(crate) fn begin(&self, instance: &str) -> bool {
        self.lock().insert(instance.to_owned())
    }

    pub(crate) fn end(&self, instance: &str) {
        self.lock().remove(instance);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
