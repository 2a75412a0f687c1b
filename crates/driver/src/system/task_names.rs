//! How many background tasks of each name are running, for the log of a shutdown that takes too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;

/// A list of names that is replaced whole. There are a handful of names, so it soon stops growing.
#[derive(Debug, Default)]
pub(super) struct TaskNames(ArcSwap<Vec<NamedCount>>);

#[derive(Clone, Debug)]
struct NamedCount {
    name: &'static str,
    running: Arc<AtomicUsize>,
}

impl TaskNames {
    /// Counts a task of a name, for as long as the guard lives.
    pub(super) fn enter(&self, name: &'static str) -> RunningTask {
        let running = self.find(name).unwrap_or_else(|| self.insert(name));
        // Relaxed: a statistic for a log line.
        running.fetch_add(1, Ordering::Relaxed);
        RunningTask(running)
    }

    /// The names of tasks that are running, each once.
    pub(super) fn running(&self) -> Vec<&'static str> {
        let is_running = |count: &&NamedCount| count.running.load(Ordering::Relaxed) > 0;
        self.0.load().iter().filter(is_running).map(|count| count.name).collect()
    }

    fn find(&self, name: &str) -> Option<Arc<AtomicUsize>> {
        let counts = self.0.load();
        counts.iter().find(|count| count.name == name).map(|count| Arc::clone(&count.running))
    }

    fn insert(&self, name: &'static str) -> Arc<AtomicUsize> {
        let running = Arc::new(AtomicUsize::new(0));
        self.0.rcu(|counts| {
            let mut counts = Vec::clone(counts);
            if !counts.iter().any(|count| count.name == name) {
                counts.push(NamedCount { name, running: Arc::clone(&running) });
            }
            counts
        });
        // Another thread may have inserted its own first.
        self.find(name).unwrap_or(running)
    }
}

/// A task that is counted under its name.
pub(super) struct RunningTask(Arc<AtomicUsize>);

impl Drop for RunningTask {
    fn drop(&mut self) {
        // Relaxed: as in `enter`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_listed_once_while_a_task_of_it_runs() {
        let names = TaskNames::default();
        let sweeps = [names.enter("shard-sweep"), names.enter("shard-sweep")];
        let refresh = names.enter("account-refresh");
        assert_eq!(names.running(), ["shard-sweep", "account-refresh"]);
        drop(refresh);
        assert_eq!(names.running(), ["shard-sweep"]);
        drop(sweeps);
        assert!(names.running().is_empty());
    }
}
