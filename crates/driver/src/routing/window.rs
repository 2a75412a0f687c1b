//! How long an endpoint or a partition is avoided: not the same for all clients, and longer after each relapse. Pure.
//!
//! All clients that met one outage would else probe in the same moment, and a region that fails again as soon as it is used
//! would be tried, at the cost of some operations, once in each window.

use std::time::{Duration, Instant};

/// A failure so soon after a recovery is a relapse.
const RELAPSE_TIME: Duration = Duration::from_secs(5 * 60);

/// A recovery, kept to recognise a relapse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recovery {
    at: Instant,
    /// How often it had failed within minutes of a recovery.
    relapses: u32,
}

impl Recovery {
    pub(super) fn new(at: Instant, relapses: u32) -> Self {
        Self { at, relapses }
    }

    /// Whether a failure now would be a relapse.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= RELAPSE_TIME
    }

    /// The relapses up to a failure now, which is one of them.
    pub(super) fn relapses_with(recovery: Option<&Self>, now: Instant) -> u32 {
        let recent = recovery.filter(|it| it.is_recent(now));
        recent.map_or(0, |it| it.relapses.saturating_add(1))
    }
}

/// A duration longer or shorter by up to a share of it; `random` is a number from 0 to 1.
pub(super) fn jittered(duration: Duration, share: f64, random: f64) -> Duration {
    if share == 0.0 {
        return duration;
    }
    // A setting may be longer than a duration can grow.
    let seconds = duration.as_secs_f64() * (1.0 - share + 2.0 * share * random);
    Duration::try_from_secs_f64(seconds).unwrap_or(duration)
}

/// A window that doubles up to `most` times.
pub(super) fn doubled(window: Duration, times: u32, most: u32) -> Duration {
    window.saturating_mul(1 << times.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn jitter_keeps_to_its_share_and_never_overflows() {
        assert_eq!(jittered(MINUTE, 0.2, 0.0), Duration::from_secs(48));
        assert_eq!(jittered(MINUTE, 0.2, 0.5), MINUTE);
        assert_eq!(jittered(MINUTE, 0.2, 1.0), Duration::from_secs(72));
        assert_eq!(jittered(MINUTE, 0.0, 1.0), MINUTE);
        assert_eq!(jittered(Duration::MAX, 0.2, 1.0), Duration::MAX);
    }

    #[test]
    fn only_a_failure_within_minutes_of_a_recovery_is_a_relapse() {
        let now = Instant::now();
        let recovery = Recovery::new(now, 1);
        assert_eq!(Recovery::relapses_with(None, now), 0);
        assert_eq!(Recovery::relapses_with(Some(&recovery), now + 5 * MINUTE), 2);
        assert_eq!(Recovery::relapses_with(Some(&recovery), now + 6 * MINUTE), 0);
    }

    #[test]
    fn a_window_doubles_up_to_a_limit() {
        assert_eq!(doubled(MINUTE, 0, 2), MINUTE);
        assert_eq!(doubled(MINUTE, 1, 2), 2 * MINUTE);
        assert_eq!(doubled(MINUTE, 9, 2), 4 * MINUTE);
        assert_eq!(doubled(Duration::MAX, 2, 2), Duration::MAX);
    }
}
