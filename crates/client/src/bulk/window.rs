//! How many batches of one partition range are under way at once: additive increase, multiplicative decrease (AIMD).
//!
//! Pure: time is a parameter.

use std::time::Duration;

use tokio::time::Instant;

/// Batches of a range at the beginning.
const INITIAL: f64 = 2.0;
/// The factor by which throttling reduces the limit (multiplicative decrease).
const DECREASE: f64 = 0.5;
/// The wait where the service asks for none: doubled each time, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Doublings until the longest wait.
const DOUBLINGS: u32 = 6;

/// The concurrency of one partition range.
#[derive(Debug)]
pub(super) struct Window {
    limit: f64,
    most: f64,
    in_flight: usize,
    paused_until: Option<Instant>,
    /// Throttled, and not answered otherwise since.
    in_a_row: u32,
}

impl Window {
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1) as f64;
        Self { limit: INITIAL.min(most), most, in_flight: 0, paused_until: None, in_a_row: 0 }
    }

    /// Whether another batch may be sent now.
    pub(super) fn admits(&self, now: Instant) -> bool {
        self.in_flight < self.limit as usize && self.paused_until.is_none_or(|until| until <= now)
    }

    /// When a pause ends that lasts beyond now.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| *until > now)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    pub(super) fn sent(&mut self) {
        self.in_flight += 1;
    }

    /// A batch was answered, whatever with.
    pub(super) fn completed(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// It was answered without throttling: one more batch after as many answers as there are batches.
    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.limit = (self.limit + 1.0 / self.limit).min(self.most);
    }

    /// It was throttled: half as many, after the wait that the service asks for.
    ///
    /// Batches that were sent before the pause and are throttled as well are the same congestion: they make the pause
    /// longer and leave the limit.
    pub(super) fn throttled(&mut self, now: Instant, retry_after: Option<Duration>) {
        if self.paused_until(now).is_none() {
            self.limit = (self.limit * DECREASE).max(1.0);
        }
        self.pause(now, retry_after);
    }

    /// Something else is wrong that time may mend.
    pub(super) fn pause(&mut self, now: Instant, wait: Option<Duration>) {
        let wait = wait.unwrap_or_else(|| {
            let wait = FIRST_WAIT * 2_u32.pow(self.in_a_row.min(DOUBLINGS));
            wait.min(LONGEST_WAIT)
        });
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.paused_until = self.paused_until.max(Some(now + wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Option<Duration> = Some(Duration::from_millis(10));

    fn grown(most: usize) -> Window {
        let mut window = Window::new(most);
        for _ in 0..1000 {
            window.succeeded();
        }
        window
    }

    fn admitted(window: &mut Window, now: Instant) -> usize {
        let mut count = 0;
        while window.admits(now) {
            window.sent();
            count += 1;
        }
        (0..count).for_each(|_| window.completed());
        count
    }

    #[test]
    fn it_grows_by_one_for_each_round_and_no_further_than_it_may() {
        let now = Instant::now();
        let mut window = Window::new(4);
        assert_eq!(admitted(&mut window, now), 2);
        (0..3).for_each(|_| window.succeeded());
        assert_eq!(admitted(&mut window, now), 3);
        assert_eq!(admitted(&mut grown(4), now), 4);
        assert_eq!(admitted(&mut grown(0), now), 1);
    }

    #[test]
    fn throttling_halves_the_window_once_and_pauses_as_long_as_is_asked() {
        let now = Instant::now();
        let mut window = grown(8);
        (0..3).for_each(|_| window.throttled(now, WAIT));
        assert!(!window.admits(now));
        let later = now + Duration::from_millis(10);
        assert_eq!(window.paused_until(now), Some(later));
        assert_eq!(admitted(&mut window, later), 4);
        for _ in 0..10 {
            window.throttled(later + Duration::from_secs(60), WAIT);
        }
        assert_eq!(admitted(&mut window, later + Duration::from_secs(120)), 2);
    }

    #[test]
    fn without_a_word_of_the_service_waits_double_up_to_a_bound() {
        let now = Instant::now();
        let mut window = Window::new(8);
        let mut waits = Vec::new();
        let mut at = now;
        for _ in 0..9 {
            window.throttled(at, None);
            let until = window.paused_until(at).unwrap();
            waits.push((until - at).as_millis());
            at = until;
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        window.succeeded();
        window.throttled(at, None);
        assert_eq!(window.paused_until(at), Some(at + FIRST_WAIT));
    }
}
