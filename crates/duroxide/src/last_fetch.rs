//! What each worker fetched last. A worker of the runtime is a task that fetches an activity, reads the instance (for the
//! name of the orchestration), runs the activity and ends it, again and again: what is known from the fetch saves
//! requests of the calls that follow.
//!
//! Correctness rests on none of it: a caller that is no task, or another one, is not found here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::TagFilter;
use tokio::task;

use crate::cache::Version;

/// The most workers that are remembered. Workers that have ended are among them, so all are forgotten then.
const MAX_WORKERS: usize = 1_000;

/// What a worker asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerTerms {
    pub(crate) tags: TagFilter,
    /// Whether it takes activities of sessions.
    pub(crate) sessions: bool,
    pub(crate) lock_timeout: Duration,
}

/// An activity that a worker was given.
#[derive(Debug)]
struct LastFetch {
    token: String,
    instance: String,
    /// The instance as it was when the activity was claimed, for the first read of it.
    seen: Option<Version>,
    terms: WorkerTerms,
}

/// What workers of this process fetched last, by their tasks.
#[derive(Debug, Default)]
pub(crate) struct LastFetches(Mutex<HashMap<task::Id, LastFetch>>);

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
        let mut all = self.all();
        if all.len() >= MAX_WORKERS && !all.contains_key(&worker) {
            all.clear();
        }
        all.insert(worker, LastFetch { token, instance, seen, terms });
    }

    /// The state of an instance that the calling task has fetched an activity of, as of the fetch. Told once: a second
    /// read is meant to see what has changed.
    pub(crate) fn take_seen(&self, instance: &str) -> Option<Version> {
        let worker = task::try_id()?;
        let mut all = self.all();
        let last = all.get_mut(&worker).filter(|last| last.instance == instance)?;
        last.seen.take()
    }

    /// What the calling task asks for, if the activity of a token is the one that it fetched last.
    pub(crate) fn take_terms(&self, token: &str) -> Option<WorkerTerms> {
        let worker = task::try_id()?;
        let mut all = self.all();
        let is_last = all.get(&worker).is_some_and(|last| last.token == token);
        is_last.then(|| all.remove(&worker))?.map(|last| last.terms)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<task::Id, LastFetch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::documents::InstanceDocument;

    fn terms() -> WorkerTerms {
        let lock_timeout = Duration::from_secs(30);
        WorkerTerms { tags: TagFilter::DefaultOnly, sessions: true, lock_timeout }
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
            let told = async move { (other.take_seen("i"), other.take_terms("t")) };
            assert_eq!(tokio::spawn(told).await.unwrap(), (None, None), "another task");
            assert_eq!(one.take_seen("i"), seen());
            assert_eq!(one.take_seen("i"), None);
            assert_eq!(one.take_terms("another"), None);
            assert_eq!(one.take_terms("t"), Some(terms()));
            assert_eq!(one.take_terms("t"), None);
        })
        .await
        .unwrap();
        all.note("t", "i", seen(), terms());
        assert!(all.all().is_empty(), "the caller is no task");
    }

    #[tokio::test]
    async fn workers_that_have_ended_do_not_add_up() {
        let all = Arc::new(LastFetches::default());
        for _ in 0..=MAX_WORKERS {
            let all = Arc::clone(&all);
            tokio::spawn(async move { all.note("t", "i", seen(), terms()) }).await.unwrap();
        }
        assert_eq!(all.all().len(), 1);
    }
}
