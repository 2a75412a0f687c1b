//! Interrupted deletions: reported by the tasks that find them, and finished by a few tasks at a time (`admin/`).

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

/// The most deletions that a process finishes at the same time. The next search finds the others.
const MOST: usize = 8;

/// The ids of the instances whose deletion this process is finishing, so that each is finished by one task.
#[derive(Debug)]
pub(crate) struct Deletions {
    running: Mutex<HashSet<String>>,
    reported: mpsc::Sender<String>,
}

impl Deletions {
    /// Returns the receiver of reported instances as well.
    pub(crate) fn new() -> (Self, mpsc::Receiver<String>) {
        let (reported, receiver) = mpsc::channel(MOST);
        (Self { running: Mutex::default(), reported }, receiver)
    }

    /// Reports an instance whose deletion was interrupted, unless a task is finishing it.
    pub(crate) fn report(&self, instance: &str) {
        if self.begin(instance) && self.reported.try_send(instance.to_owned()).is_err() {
            // It is found again by the next poll.
            self.end(instance);
        }
    }

    /// Adds an instance. Returns whether it was added: not if a task is working on it, or too many are.
    fn begin(&self, instance: &str) -> bool {
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
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_finished_by_one_task_and_a_process_runs_a_few() {
        let (deletions, _reported) = Deletions::new();
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
