//! The interrupted deletions that this process is finishing.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most deletions that a process finishes at the same time. The next search finds the others.
const MOST: usize = 8;

/// The ids of the instances whose deletion this process is finishing, so that each is finished by one task.
#[derive(Debug, Default)]
pub(crate) struct Deletions(Mutex<HashSet<String>>);

impl Deletions {
    /// Adds an instance. Returns whether it was added: not if a task is working on it, or too many are.
    pub(crate) fn begin(&self, instance: &str) -> bool {
        let mut running = self.lock();
        running.len() < MOST && running.insert(instance.to_owned())
    }

    /// Replaces an instance by the root of its tree. Returns whether the root was added: not if a task is working on it.
    pub(crate) fn move_to_root(&self, instance: &str, root: &str) -> bool {
        let mut running = self.lock();
        running.remove(instance);
        running.insert(root.to_owned())
    }

    /// Removes an instance.
    pub(crate) fn end(&self, instance: &str) {
        self.lock().remove(instance);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_finished_by_one_task_and_a_process_runs_a_few() {
        let deletions = Deletions::default();
        assert!(deletions.begin("child") && deletions.begin("other child"));
        assert!(deletions.move_to_root("child", "root"));
        assert!(!deletions.move_to_root("other child", "root") && !deletions.begin("root"));
        for number in 1..MOST {
            assert!(deletions.begin(&number.to_string()));
        }
        assert!(!deletions.begin("one more"));
        deletions.end("root");
        assert!(deletions.begin("one more"));
    }
}
