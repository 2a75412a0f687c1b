//! Which locks of others hold, and by which name the locks of this process are known.
//!
//! A lock ends at its time. It also ends with the lease of the process that has it, so that what a killed process worked on
//! goes on within seconds; etags fence a process that was only paused.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use serde_json::{Value, json};

use crate::clock::millis;

/// The lock of an instance, an activity or a session. This is the place that says when it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock<'a> {
    /// `None` if the document is not locked.
    pub(crate) until: Option<i64>,
    /// The process that holds it, if it is known.
    pub(crate) owner: Option<&'a str>,
}

impl Lock<'_> {
    /// Whether it has not expired, by the clock of its holder.
    pub(crate) fn is_live(self, now: i64) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// Whether it holds against this process: until its time, or until the lease of its process has ended.
    pub(crate) fn holds(self, view: &LockView) -> bool {
        self.is_live(view.time) && self.owner.is_none_or(|owner| !view.gone.contains(owner))
    }
}

/// How locks of others are judged.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockView {
    /// Locks that end by then have ended. It stands still during an outage.
    pub(crate) time: i64,
    /// Processes whose leases have ended.
    pub(crate) gone: Arc<BTreeSet<String>>,
}

impl LockView {
    /// The condition of a query that a document is not locked, with its parameters.
    pub(crate) fn is_free(&self) -> (&'static str, [(&'static str, Value); 2]) {
        let parameters = [("@lockTime", json!(self.time)), ("@gone", json!(*self.gone))];
        let condition = match self.gone.is_empty() {
            true => "(IS_NULL(c.lockedUntil) OR c.lockedUntil <= @lockTime)",
            false => {
                "(IS_NULL(c.lockedUntil) OR c.lockedUntil <= @lockTime OR ARRAY_CONTAINS(@gone, c.lockOwner))"
            }
        };
        (condition, parameters)
    }
}

/// Whether locking took so long that the lock might end before the work does: a runtime counts the time of a lock from when it
/// was given it.
pub(crate) fn is_late(locked_until: i64, lock_timeout: Duration, now: i64) -> bool {
    locked_until.saturating_sub(now) < millis(lock_timeout) / 2
}

/// The name of this process in its locks, and the processes whose leases have ended.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    name: ArcSwapOption<String>,
    gone: ArcSwap<BTreeSet<String>>,
    has_others: AtomicBool,
    has_warned: AtomicBool,
}

/// Clocks of machines differ, and a lock of a few seconds is then over for others before it is for its holder.
const RECOMMENDED_LOCK: Duration = Duration::from_secs(30);

impl Processes {
    /// Records what the leases say. Returns the processes that are gone if there are others than before.
    pub(crate) fn set(
        &self,
        name: Option<String>,
        gone: Vec<String>,
        has_others: bool,
    ) -> Option<Arc<BTreeSet<String>>> {
        // Relaxed here and below: the flags only decide on a warning.
        self.has_others.store(has_others, Ordering::Relaxed);
        self.name.store(name.map(Arc::new));
        let gone: Arc<BTreeSet<String>> = Arc::new(gone.into_iter().collect());
        let before = self.gone.swap(Arc::clone(&gone));
        (before != gone).then_some(gone)
    }

    /// Warns once of a lock that is short for several machines.
    pub(crate) fn warn_of_short_lock(&self, lock_timeout: Duration) {
        let is_short = lock_timeout < RECOMMENDED_LOCK && self.has_others.load(Ordering::Relaxed);
        if is_short && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                milliseconds = lock_timeout.as_millis(),
                "orchestrations are locked for a short time, and several processes run: if they are on several machines, set \
                 RuntimeOptions::orchestrator_lock_timeout to 30 s or more"
            );
        }
    }

    /// The name that locks of this process are known by; none before it has a lease.
    pub(crate) fn name(&self) -> Option<String> {
        self.name.load().as_deref().cloned()
    }

    /// How locks of others are judged at a time.
    pub(crate) fn lock_view(&self, time: i64) -> LockView {
        LockView { time, gone: self.gone.load_full() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_at_its_time_or_with_its_process() {
        let gone = Arc::new(BTreeSet::from(["dead".to_owned()]));
        let view = LockView { time: 100, gone };
        let holds = |until, owner| Lock { until, owner }.holds(&view);
        assert!(holds(Some(101), None) && holds(Some(101), Some("alive")));
        assert!(!holds(Some(100), Some("alive")) && !holds(None, None));
        assert!(!holds(Some(101), Some("dead")));
        assert!(view.is_free().0.contains("lockOwner"));
        assert!(!LockView::default().is_free().0.contains("lockOwner"));
    }
}
