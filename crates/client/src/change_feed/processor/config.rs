//! The settings of a change feed processor.

use std::time::Duration;

use crate::change_feed::ChangeFeedStart;

/// Renewals within the duration of a lease: so many may fail before it is lost.
const RENEWALS: u32 = 4;

/// How a worker of a processor works.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// The application that the lease container belongs to.
    pub(super) application: String,
    /// The processor, as its workers share it.
    pub(super) processor: String,
    /// This worker.
    pub(super) instance: String,
    pub(super) start: ChangeFeedStart,
    pub(super) lease_duration: Duration,
    /// Between two looks at the leases of all workers.
    pub(super) acquire_interval: Duration,
    /// Between two looks at a range that had nothing new.
    pub(super) poll_interval: Duration,
    pub(super) handler_timeout: Duration,
    /// The first wait after a handler failed, and the longest: doubled each time.
    pub(super) backoff: (Duration, Duration),
    pub(super) page_size: Option<u32>,
}

impl Config {
    pub(super) fn new(processor: String) -> Self {
        Self {
            application: processor.clone(),
            processor,
            instance: random_name(),
            start: ChangeFeedStart::default(),
            lease_duration: Duration::from_secs(60),
            acquire_interval: Duration::from_secs(10),
            poll_interval: Duration::from_secs(1),
            handler_timeout: Duration::from_secs(300),
            backoff: (Duration::from_secs(1), Duration::from_secs(60)),
            page_size: None,
        }
    }

    pub(super) fn renew_interval(&self) -> Duration {
        self.lease_duration / RENEWALS
    }

    /// The wait after a number of failures in a row.
    pub(super) fn backoff_after(&self, failures: u32) -> Duration {
        let (first, longest) = self.backoff;
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1));
        let wait = doubled.and_then(|factor| first.checked_mul(factor));
        wait.unwrap_or(longest).min(longest)
    }
}

/// A name that no other worker has.
fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Keys from the system's source of randomness; the hash of nothing depends on them alone.
    let random = || RandomState::new().build_hasher().finish();
    format!("worker-{:016x}{:016x}", random(), random())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let config = Config::new("p".to_owned());
        let waits: Vec<u64> =
            [1, 2, 3, 6, 7, 100].map(|it| config.backoff_after(it).as_secs()).to_vec();
        assert_eq!(waits, [1, 2, 4, 32, 60, 60]);
        assert_ne!(random_name(), random_name());
    }
}
