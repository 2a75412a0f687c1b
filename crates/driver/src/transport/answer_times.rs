//! The time of each endpoint's last answer, to detect regions that are lost without an error.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::exchange::MAX_ENDPOINT_SLOTS;

/// The resolution. Coarse, so that requests on several cores seldom write to the same cache line.
const TICK: Duration = Duration::from_millis(64);

/// The last answer of each endpoint, of whatever kind.
#[derive(Debug)]
pub(crate) struct AnswerTimes {
    origin: Instant,
    /// By the slot of the endpoint, in ticks counted from one: zero is never.
    last: [AtomicU32; MAX_ENDPOINT_SLOTS],
}

impl AnswerTimes {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, last: [const { AtomicU32::new(0) }; MAX_ENDPOINT_SLOTS] }
    }

    /// Notes an answer.
    pub(crate) fn note(&self, slot: usize, now: Instant) {
        let (Some(last), tick) = (self.last.get(slot), self.tick(now)) else { return };
        // Relaxed: a statistic. A store that is lost is made up for by the next answer.
        if last.load(Ordering::Relaxed) != tick {
            last.store(tick, Ordering::Relaxed);
        }
    }

    /// Whether an endpoint has not answered anything since a moment. An answer of the same tick counts as one before it.
    pub(crate) fn is_silent_since(&self, slot: usize, moment: Instant) -> bool {
        let last = self.last.get(slot).map_or(0, |last| last.load(Ordering::Relaxed));
        last <= self.tick(moment)
    }

    fn tick(&self, now: Instant) -> u32 {
        let since = now.saturating_duration_since(self.origin);
        let millis = since.as_secs().saturating_mul(1_000) + u64::from(since.subsec_millis());
        u32::try_from(millis / TICK.as_millis() as u64).unwrap_or(u32::MAX - 1).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_silent_since_its_last_answer() {
        let origin = Instant::now();
        let (times, second) = (AnswerTimes::new(origin), Duration::from_secs(1));
        assert!(times.is_silent_since(1, origin));
        times.note(1, origin + 5 * second);
        assert!(!times.is_silent_since(1, origin + 4 * second));
        assert!(times.is_silent_since(1, origin + 5 * second));
        assert!(times.is_silent_since(1, origin + 6 * second));
        assert!(times.is_silent_since(2, origin + second));
        times.note(MAX_ENDPOINT_SLOTS, origin);
        assert!(times.is_silent_since(MAX_ENDPOINT_SLOTS, origin));
    }
}
