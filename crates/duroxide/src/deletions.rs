//! The interrupted deletions that this process is finishing.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The ids of the instances whose deletion this process is finishing, so that each is finished by one task.
#[derive(Debug, Default)]
pub(crate) struct Deletions(Mutex<HashSet<String>>);

impl Deletions {
    /// Adds an instance. Returns whether it was added: not if a task is working on it.
    pub(crate) fn begin(&self, instance: &str) -> bool {
        self.lock().insert(instance.to_owned())
    }

    /// Removes an instance.
    pub(crate) fn end(&self, instance: &str) {
        self.lock().remove(instance);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
