//! How often the container is asked for work. Pure: what the last look found comes in, the next pause comes out.

use std::time::Duration;

/// How often the container is asked for work that other processes have enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceSettings {
    /// The pause after a look that found something.
    pub(crate) shortest: Duration,
    /// The longest pause, if a look takes one request.
    pub(crate) longest: Duration,
}

/// A look that takes several requests, one for each partition, is made so much less often.
const PER_REQUEST: Duration = Duration::from_millis(550);

/// However many requests a look takes.
const LONGEST_OF_ALL: Duration = Duration::from_secs(5);

/// The polling interval: exponential back-off while nothing is found, reset by a look that found something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    settings: PaceSettings,
    pause: Duration,
    longest: Duration,
}

impl Pace {
    pub(crate) fn new(settings: PaceSettings) -> Self {
        Self { settings, pause: settings.shortest, longest: settings.longest }
    }

    /// The pause after a look.
    pub(crate) fn after(&mut self, has_found: bool, requests: usize) -> Duration {
        let requests = u32::try_from(requests).unwrap_or(u32::MAX);
        let stretched = PER_REQUEST.saturating_mul(requests).min(LONGEST_OF_ALL);
        self.longest = self.settings.longest.max(stretched);
        let pause = match has_found {
            true => self.settings.shortest,
            false => self.pause.saturating_mul(2),
        };
        self.pause = pause.min(self.longest);
        self.pause
    }

    /// The longest pause at present.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PaceSettings =
        PaceSettings { shortest: Duration::from_millis(50), longest: Duration::from_millis(1_250) };

    #[test]
    fn looks_become_rare_while_nothing_is_found() {
        let mut pace = Pace::new(SETTINGS);
        let pauses: Vec<u128> = (0..6).map(|_| pace.after(false, 1).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1_250, 1_250]);
        assert_eq!(pace.after(true, 1), SETTINGS.shortest);
    }

    #[test]
    fn a_look_at_many_partitions_is_made_less_often() {
        let mut pace = Pace::new(SETTINGS);
        let last = (0..10).map(|_| pace.after(false, 8)).last();
        assert_eq!(last, Some(Duration::from_millis(4_400)));
        let last = (0..10).map(|_| pace.after(false, 1_000)).last();
        assert_eq!(last, Some(LONGEST_OF_ALL));
        assert_eq!(pace.longest(), LONGEST_OF_ALL);
    }
}
