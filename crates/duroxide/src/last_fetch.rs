//! The last fetch of each worker. A worker of the runtime is a task that fetches an activity, reads the instance (for the
//! name of the orchestration), runs the activity and ends it, again and again: what is known from the fetch saves
//! requests of the calls that follow.
//!
//! Best effort: keyed by tokio task id, so other callers miss.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task;
use tokio::time::Instant;

use crate::activity_filter::WorkerTerms;
use crate::cache::Version;

/// The most workers that are remembered. Workers that have ended are among them, so all are forgotten then.
const MAX_WORKERS: usize = 1_000;

/// Where activities take less on average, the next ones are claimed while workers are still busy with others.
const SHORT_ACTIVITY: Duration = Duration::from_millis(100);

/// An activity that a worker was given.
#[derive(Debug)]
struct LastFetch {
    token: String,
    instance: String,
    /// The instance as it was when the activity was claimed, for the first read of it.
    seen: Option<Version>,
    terms: WorkerTerms,
    since: Instant,
}

/// The last fetch of each worker of this process.
#[derive(Debug, Default)]
pub(crate) struct LastFetches(Mutex<Workers>);

#[derive(Debug, Default)]
struct Workers {
    by_task: HashMap<task::Id, LastFetch>,
    /// How long activities take: an average in which the last ones count most.
    duration: Duration,
    /// How many workers are ending one.
    ending: usize,
}

/// A worker that ends an activity: it asks for another right after.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    fetches: &'a LastFetches,
    /// The terms on which it asks for the next activity.
    pub(crate) terms: WorkerTerms,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.fetches.all().ending -= 1;
    }
}

impl LastFetches {
    /// Notes what the calling task was given.
    pub(crate) fn note(
        &self,
        token: &str,
        instance: &str,
        seen: Option<Version>,
        terms: WorkerTerms,
    ) {
        let Some(worker) = task::try_id() else { return };
        let (token, instance) = (token.to_owned(), instance.to_owned());
        let all = &mut self.all().by_task;
        if all.len() >= MAX_WORKERS && !all.contains_key(&worker) {
            all.clear();
        }
        all.insert(worker, LastFetch { token, instance, seen, terms, since: Instant::now() });
    }

    /// The state of an instance that the calling task has fetched an activity of, as of the fetch. Told once: a second
    /// read is meant to see what has changed.
    pub(crate) fn take_seen(&self, instance: &str) -> Option<Version> {
        let worker = task::try_id()?;
        let all = &mut self.all().by_task;
        let last = all.get_mut(&worker).filter(|last| last.instance == instance)?;
        last.seen.take()
    }

    /// Notes that the calling task ends an activity, if it is the one that it fetched last.
    pub(crate) fn end(&self, token: &str) -> Option<Ending<'_>> {
        let worker = task::try_id()?;
        let workers = &mut *self.all();
        let is_last = workers.by_task.get(&worker).is_some_and(|last| last.token == token);
        let last = is_last.then(|| workers.by_task.remove(&worker))??;
        workers.duration = (workers.duration * 7 + last.since.elapsed()) / 8;
        workers.ending += 1;
        Some(Ending { fetches: self, terms: last.terms })
    }

    /// For how many workers activities may be claimed ahead: for those that end one, and if activities are short for those
    /// that are busy too.
    pub(crate) fn soon_asking(&self) -> usize {
        let workers = self.all();
        // One that is busy for longer does not ask soon; or it has ended without a notice.
        let is_brief = |last: &&LastFetch| last.since.elapsed() < SHORT_ACTIVITY;
        let busy = match workers.duration < SHORT_ACTIVITY {
            true => workers.by_task.values().filter(is_brief).count(),
            false => 0,
        };
        workers.ending + busy
    }

    fn all(&self) -> MutexGuard<'_, Workers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use duroxide::providers::TagFilter;

    use std::sync::Arc;

    use super::*;
    use crate::documents::InstanceDocument;

    fn terms() -> WorkerTerms {
        let lock_timeout = Duration::from_secs(30);
        WorkerTerms { tags: TagFilter::DefaultOnly, owner: None, lock_timeout }
    }

    fn seen() -> Option<Version> {
        Some(Version::of(&InstanceDocument::provisional("i", "x".to_owned(), 0)))
    }

    #[tokio::test]
    async fn a_worker_is_told_what_it_fetched_itself_and_once() {
        let all = Arc::new(LastFetches::default());
        let one = Arc::clone(&all);
        tokio::spawn(async move {
            one.note("t", "i", seen(), terms());
            assert!(one.take_seen("another").is_none());
            let other = Arc::clone(&one);
            let told = async move { other.take_seen("i").is_some() || other.end("t").is_some() };
            assert!(!tokio::spawn(told).await.unwrap(), "another task");
            assert_eq!(one.take_seen("i"), seen());
            assert_eq!(one.take_seen("i"), None);
            assert!(one.end("another").is_none());
            assert_eq!(one.end("t").map(|ending| ending.terms.clone()), Some(terms()));
            assert!(one.end("t").is_none());
        })
        .await
        .unwrap();
        all.note("t", "i", seen(), terms());
        assert!(all.all().by_task.is_empty(), "the caller is no task");
    }

    #[tokio::test]
    async fn workers_that_have_ended_do_not_add_up() {
        let all = Arc::new(LastFetches::default());
        for _ in 0..=MAX_WORKERS {
            let all = Arc::clone(&all);
            tokio::spawn(async move { all.note("t", "i", seen(), terms()) }).await.unwrap();
        }
        assert_eq!(all.all().by_task.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn activities_are_claimed_ahead_for_busy_workers_only_if_they_are_short() {
        let all = Arc::new(LastFetches::default());
        let one = Arc::clone(&all);
        tokio::spawn(async move { one.note("busy", "i", None, terms()) }).await.unwrap();
        let worker = async move {
            // The other worker is busy; then it has not been heard of for long; then activities are long.
            for (takes, expected) in [(1, 2), (200, 1), (10_000, 1)] {
                all.note("t", "i", None, terms());
                tokio::time::sleep(Duration::from_millis(takes)).await;
                let ending = all.end("t").unwrap();
                assert_eq!(all.soon_asking(), expected, "after {takes} ms");
                drop(ending);
            }
            assert_eq!(all.soon_asking(), 0);
        };
        tokio::spawn(worker).await.unwrap();
    }
}
