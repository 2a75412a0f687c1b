//! Instances that could not be locked, and when they are tried again.
//!
//! One whose messages cannot be handled, since its start has not come or they cannot be read, is found by every look: it
//! must not be read each time.
//!
//! The turn that has an instance locked ends when it ends, mostly long before its lock, and another process does not tell.
//! So the instance is tried again after a pause that doubles, and at the end of the lock at the latest: what came for it
//! meanwhile waits no longer than the turn took, twice, and a lock of a process that is gone costs a few requests.

use std::collections::HashMap;
use std::sync::Arc;

use super::turns::MAX_HINTS;
use crate::turn::Blocked;

const FIRST_PAUSE_MS: i64 = 100;
const LONGEST_PAUSE_MS: i64 = 5_000;

/// How much longer instances are left alone that no dispatcher of the process can replay: up to an hour.
const INCOMPATIBLE_FACTOR: i64 = 3_600_000 / LONGEST_PAUSE_MS;

/// From this delay on, a failed retry is not counted as newly found work.
const LONG_PAUSE_MS: i64 = 800;

#[derive(Debug, Default)]
pub(super) struct BlockedInstances {
    retries: HashMap<Arc<str>, Retry>,
}

/// When an instance is tried again.
#[derive(Clone, Copy, Debug)]
struct Retry {
    since: i64,
    at: i64,
    pause: i64,
}

impl Retry {
    fn first(why: Blocked, now: i64) -> Self {
        Self::after(FIRST_PAUSE_MS, why, now)
    }

    /// The next one, unless the instance has been free, or left alone, since.
    fn next(self, why: Blocked, now: i64) -> Self {
        // As long ago as the pause itself: whatever kept the instance from being locked has passed in between.
        let is_long_ago = now > self.at.saturating_add(LONGEST_PAUSE_MS.max(self.at - self.since));
        let pause = if is_long_ago { FIRST_PAUSE_MS } else { self.pause.saturating_mul(2) };
        Self::after(pause.min(LONGEST_PAUSE_MS), why, now)
    }

    fn after(pause: i64, why: Blocked, now: i64) -> Self {
        let at = match why {
            Blocked::Locked { until } if until > now => until.min(now.saturating_add(pause)),
            // In an outage a lock counts although its time is over.
            Blocked::Locked { .. } => now.saturating_add(pause),
            Blocked::LeftAlone { until } => until,
            // Another release may come, which is a process of its own and knows nothing of this one's pauses.
            Blocked::Incompatible => now.saturating_add(pause.saturating_mul(INCOMPATIBLE_FACTOR)),
            Blocked::Unready => now.saturating_add(pause),
        };
        Self { since: now, at, pause }
    }
}

impl BlockedInstances {
    /// Notes that an instance could not be locked.
    pub(super) fn insert(&mut self, instance: &str, why: Blocked, now: i64) {
        if let Some(retry) = self.retries.get_mut(instance) {
            *retry = retry.next(why, now);
            return;
        }
        if self.retries.len() >= MAX_HINTS {
            self.retries.retain(|_, retry| retry.at > now);
        }
        if self.retries.len() < MAX_HINTS {
            self.retries.insert(Arc::from(instance), Retry::first(why, now));
        }
    }

    /// Notes that something new is known of an instance.
    pub(super) fn remove(&mut self, instance: &str) {
        self.retries.remove(instance);
    }

    /// Whether an instance is not to be tried yet.
    pub(super) fn contains(&self, instance: &str, now: i64) -> bool {
        self.retries.get(instance).is_some_and(|retry| retry.at > now)
    }

    /// Whether an instance was tried several times in vain.
    pub(super) fn is_long_blocked(&self, instance: &str) -> bool {
        self.retries.get(instance).is_some_and(|retry| retry.pause >= LONG_PAUSE_MS)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.retries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When an instance is tried, whenever it may be, that is locked until a time.
    fn tries(blocked: &mut BlockedInstances, from: i64, until: i64) -> Vec<i64> {
        let mut tries = Vec::new();
        for now in from..until {
            if !blocked.contains("a", now) {
                blocked.insert("a", Blocked::Locked { until }, now);
                tries.push(now - from);
            }
        }
        assert!(!blocked.contains("a", until), "not later than at the end of the lock");
        tries
    }

    #[test]
    fn a_locked_instance_is_retried_with_back_off_and_at_the_end_of_its_lock() {
        let mut blocked = BlockedInstances::default();
        let expected = [0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300, 21_300, 26_300];
        assert_eq!(tries(&mut blocked, 0, 30_000), expected);
        assert_eq!(tries(&mut blocked, 36_000, 36_250), [0, 100], "another lock, later");
    }

    #[test]
    fn an_instance_with_unhandled_messages_is_retried_with_back_off_for_ever() {
        let mut blocked = BlockedInstances::default();
        let mut tries = Vec::new();
        for now in 0..20_000 {
            if !blocked.contains("a", now) {
                blocked.insert("a", Blocked::Unready, now);
                tries.push(now);
            }
        }
        assert_eq!(tries, [0, 100, 300, 700, 1_500, 3_100, 6_300, 11_300, 16_300]);
        assert!(blocked.is_long_blocked("a"));
        blocked.insert("b", Blocked::Unready, 0);
        assert!(!blocked.is_long_blocked("b"), "tried once");
    }

    #[test]
    fn an_instance_of_another_version_is_tried_ever_more_rarely_up_to_an_hour() {
        let mut blocked = BlockedInstances::default();
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..8 {
            blocked.insert("a", Blocked::Incompatible, now);
            let next = (1..).map(|seconds| now + seconds * 1_000);
            let next = next.into_iter().find(|at| !blocked.contains("a", *at)).unwrap();
            pauses.push((next - now) / 1_000);
            // A poll comes a little later.
            now = next + 1_000;
        }
        assert_eq!(pauses, [72, 144, 288, 576, 1_152, 2_304, 3_600, 3_600]);
    }

    #[test]
    fn what_cannot_be_fetched_for_another_reason_is_left_alone_until_its_time() {
        let mut blocked = BlockedInstances::default();
        blocked.insert("a", Blocked::left_alone(10), 10);
        assert!(blocked.contains("a", 5_009));
        assert!(!blocked.contains("a", 5_010));
        blocked.insert("a", Blocked::left_alone(5_010), 5_010);
        blocked.remove("a");
        assert!(!blocked.contains("a", 5_011));
    }
}
