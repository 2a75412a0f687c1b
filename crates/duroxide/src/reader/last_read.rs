//! The last read of each task. A client that asks for the status of an orchestration reads its history and right after
//! its custom status: both are in the instance that was read, so the second costs no request, and is of the same moment
//! as the first.
//!
//! Best effort: keyed by tokio task id, so other callers miss.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task;
use tokio::time::Instant;

/// The most tasks that are remembered. Tasks that have ended are among them, so all are forgotten then.
const MAX_TASKS: usize = 1_000;

/// The longest time between the two calls of one question.
const LONGEST_AGO: Duration = Duration::from_millis(5);

/// The custom status of an instance and its version; none if the instance is not there.
pub(crate) type CustomStatus = Option<(Option<String>, u64)>;

#[derive(Debug)]
struct LastRead {
    instance: String,
    status: CustomStatus,
    at: Instant,
    /// How many batches this process had written then.
    written: u64,
}

/// The last read of each task of this process.
#[derive(Debug, Default)]
pub(crate) struct LastReads(Mutex<HashMap<task::Id, LastRead>>);

impl LastReads {
    /// Notes the custom status of an instance that the calling task has read the history of.
    pub(crate) fn note(&self, instance: &str, status: CustomStatus, written: u64) {
        let Some(reader) = task::try_id() else { return };
        let instance = instance.to_owned();
        let mut all = self.all();
        if all.len() >= MAX_TASKS && !all.contains_key(&reader) {
            all.clear();
        }
        all.insert(reader, LastRead { instance, status, at: Instant::now(), written });
    }

    /// The custom status of an instance, if the calling task has just read its history, and nothing was written since.
    /// Told once: a second question is meant to see what has changed.
    pub(crate) fn take(&self, instance: &str, written: u64) -> Option<CustomStatus> {
        let last = self.all().remove(&task::try_id()?)?;
        let is_meant = last.instance == instance && last.written == written;
        (is_meant && last.at.elapsed() <= LONGEST_AGO).then_some(last.status)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<task::Id, LastRead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn status() -> CustomStatus {
        Some((Some("half".to_owned()), 2))
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_is_told_what_it_has_just_read_itself_and_once() {
        let all = Arc::new(LastReads::default());
        let one = Arc::clone(&all);
        let reader = async move {
            one.note("i", status(), 7);
            let other = Arc::clone(&one);
            let told = tokio::spawn(async move { other.take("i", 7) }).await.unwrap();
            assert_eq!(told, None, "another task");
            assert_eq!(one.take("i", 7), Some(status()));
            assert_eq!(one.take("i", 7), None);
            one.note("i", status(), 7);
            assert_eq!(one.take("j", 7), None, "another instance");
            one.note("i", status(), 7);
            assert_eq!(one.take("i", 8), None, "something was written");
            one.note("i", status(), 7);
            tokio::time::sleep(2 * LONGEST_AGO).await;
            assert_eq!(one.take("i", 7), None, "some time ago");
        };
        tokio::spawn(reader).await.unwrap();
        all.note("i", status(), 7);
        assert!(all.all().is_empty(), "the caller is no task");
    }

    #[tokio::test]
    async fn tasks_that_have_ended_do_not_add_up() {
        let all = Arc::new(LastReads::default());
        for _ in 0..=MAX_TASKS {
            let all = Arc::clone(&all);
            tokio::spawn(async move { all.note("i", None, 0) }).await.unwrap();
        }
        assert_eq!(all.all().len(), 1);
    }
}
