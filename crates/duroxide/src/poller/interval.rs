//! The poll interval: exponential back-off. Pure: the result of the last poll comes in, the next interval comes out.

use std::time::Duration;

/// How often the container is polled for work that other processes have enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalSettings {
    /// The interval after a poll that found something.
    pub(crate) shortest: Duration,
    /// The longest interval, if a poll takes one request.
    pub(crate) longest: Duration,
}

/// The longest interval, for each request of a poll, of which there is one for each physical partition.
// An idle process sends fewer than two requests per second then, up to nine partitions; beyond that `MAX_INTERVAL` limits the delay.
const PER_REQUEST: Duration = Duration::from_millis(550);

/// The upper bound, however many requests a poll takes.
const MAX_INTERVAL: Duration = Duration::from_secs(5);

/// The interval between polls: doubled while nothing is found, reset by a poll that found something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollInterval {
    settings: IntervalSettings,
    pause: Duration,
    longest: Duration,
}

impl PollInterval {
    pub(crate) fn new(settings: IntervalSettings) -> Self {
        Self { settings, pause: settings.shortest, longest: settings.longest }
    }

    /// The interval after a poll.
    pub(crate) fn after(&mut self, has_found: bool, requests: usize) -> Duration {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        let stretched = PER_REQUEST.saturating_mul(requests).min(MAX_INTERVAL);
        self.longest = self.settings.longest.max(stretched);
        let pause = match has_found {
            true => self.settings.shortest,
            false => self.pause.saturating_mul(2),
        };
        self.pause = pause.min(self.longest);
        self.pause
    }

    /// The longest interval at present.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: IntervalSettings = IntervalSettings {
        shortest: Duration::from_millis(50),
        longest: Duration::from_millis(1_250),
    };

    #[test]
    fn looks_become_rare_while_nothing_is_found() {
        let mut interval = PollInterval::new(SETTINGS);
        let pauses: Vec<u128> = (0..6).map(|_| interval.after(false, 1).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_250, 1_250]);
        assert_eq!(interval.after(true, 1), SETTINGS.shortest);
    }

    #[test]
    fn a_look_at_many_partitions_is_made_less_often() {
        let mut interval = PollInterval::new(SETTINGS);
        let last = (0..10).map(|_| interval.after(false, 8)).last();
        assert_eq!(last, Some(Duration::from_millis(4_400)));
        let last = (0..10).map(|_| interval.after(false, 1_000)).last();
        assert_eq!(last, Some(MAX_INTERVAL));
        assert_eq!(interval.longest(), MAX_INTERVAL);
    }
}
