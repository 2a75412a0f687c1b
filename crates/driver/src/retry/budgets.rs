//! The budgets: how often, and how long, an operation is retried for each cause.
//!
//! They belong to the operation and go with it from endpoint to endpoint, so that no number of regions
//! multiplies them. Replaced, not changed, from one attempt to the next. Every hedge has its own.

use std::time::Duration;

use crate::options::AvailabilityOptionsView;

/// The most times a request is sent again because the peer did not process it. A peer that replaces its
/// connections refuses a request once or twice; one that keeps refusing it is not going to take it.
const MAX_RESENDS: u32 = 5;

/// The most refreshes of partition ranges that are out of date: a split takes a few seconds to complete,
/// which the doubling back-off between them covers.
const MAX_RANGE_REFRESHES: u32 = 8;

/// The largest fraction of a back-off that jitter adds or takes off, so that clients throttled together do
/// not retry together.
pub(super) const JITTER_RATIO: f64 = 0.25;

/// The cause that a retry is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// Throttled responses that are waited out.
    Throttle,
    /// Requests over another connection to the same endpoint, after one failed.
    Connection,
    /// Requests that the peer did not process and that are sent again.
    Resend,
    /// Fresh credentials after a refusal (401).
    Credential,
    /// Conflicts inside the service that it asks to retry (449).
    RetryWith,
    /// Attempts at other endpoints, or at the same one where there is no other.
    Failover,
    /// Reads whose session has not arrived, in the same region.
    SessionInRegion,
    /// Reads whose session has not arrived, in another region.
    Session,
    /// Refreshes of partition ranges that are out of date.
    RangeRefresh,
    /// Resolutions of a container that was recreated.
    ContainerRefresh,
}

impl Budget {
    /// Whether the transport pipeline spends it: what can be settled at one endpoint with the same request.
    pub(super) const fn is_of_transport(self) -> bool {
        matches!(self, Self::Throttle | Self::Connection | Self::Resend | Self::Credential)
    }
}

/// A number of retries, and how many of them are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Spent so far.
    pub spent: u32,
    /// All there are.
    pub most: u32,
}

impl Retries {
    /// So many, none of them spent.
    #[must_use]
    pub const fn of(most: u32) -> Self {
        Self { spent: 0, most }
    }

    /// Whether one is left.
    #[must_use]
    pub const fn is_left(self) -> bool {
        self.spent < self.most
    }

    const fn spend(self) -> Self {
        Self { spent: self.spent + 1, ..self }
    }
}

/// Retries of throttled requests: their number, and the time spent waiting, all waits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleBudget {
    /// How often.
    pub retries: Retries,
    /// Waited so far.
    pub waited: Duration,
    /// The most that is waited.
    pub max_wait: Duration,
}

/// Exponential back-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first wait.
    pub initial: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// The factor by which the wait grows from one retry to the next.
    pub factor: f64,
}

impl Backoff {
    /// The wait before the n-th retry, less the jitter: from 0 to 1, how much of it is applied.
    #[must_use]
    pub fn before(&self, n: u32, jitter: f64) -> Duration {
        let exponent = i32::try_from(n).unwrap_or(i32::MAX);
        let longest = self.longest.as_secs_f64();
        let wait = self.initial.as_secs_f64() * self.factor.powi(exponent);
        // No settings may panic here: what a `Duration` cannot hold is its longest.
        Duration::try_from_secs_f64(wait.min(longest) * (1.0 - JITTER_RATIO * jitter))
            .unwrap_or(Duration::MAX)
    }
}

/// The retry budgets of an operation, and what is spent of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budgets {
    /// See [`Budget::Throttle`].
    pub throttle: ThrottleBudget,
    /// See [`Budget::Connection`]; reset for each endpoint.
    pub connection: Retries,
    /// See [`Budget::Resend`].
    pub resend: Retries,
    /// See [`Budget::Credential`].
    pub credential: Retries,
    /// See [`Budget::RetryWith`].
    pub retry_with: Retries,
    /// See [`Budget::Failover`].
    pub failover: Retries,
    /// See [`Budget::SessionInRegion`]; none unless [`with_session_retry`](Self::with_session_retry) gives some.
    pub session_in_region: Retries,
    /// The wait before each of them.
    pub session_in_region_wait: Duration,
    /// See [`Budget::Session`].
    pub session: Retries,
    /// See [`Budget::RangeRefresh`].
    pub range_refresh: Retries,
    /// See [`Budget::ContainerRefresh`].
    pub container_refresh: Retries,
    /// The waits where the service names none.
    pub backoff: Backoff,
    /// How often the operation has waited because there was nowhere else to go: what its back-off grows with. Attempts in
    /// other regions are made at once, and do not count.
    pub pauses: u32,
}

impl Budgets {
    /// The budgets that the settings give an operation.
    #[must_use]
    pub fn new(options: &AvailabilityOptionsView<'_>) -> Self {
        let in_place = Retries::of(options.max_throttle_retry_count());
        Self {
            throttle: ThrottleBudget {
                retries: in_place,
                waited: Duration::ZERO,
                max_wait: options.max_throttle_wait(),
            },
            connection: Retries::of(options.max_connection_retry_count()),
            resend: Retries::of(MAX_RESENDS),
            credential: Retries::of(1),
            // The same number as for throttling: both wait in place for the service to catch up.
            retry_with: in_place,
            failover: Retries::of(options.max_failover_retry_count()),
            session_in_region: Retries::of(0),
            session_in_region_wait: Duration::ZERO,
            session: Retries::of(options.max_session_retry_count()),
            range_refresh: Retries::of(MAX_RANGE_REFRESHES),
            container_refresh: Retries::of(1),
            backoff: Backoff {
                initial: options.retry_initial_backoff(),
                longest: options.retry_max_backoff(),
                factor: options.retry_backoff_factor().value(),
            },
            pauses: 0,
        }
    }

    /// Adds retries in a region that a session has not reached: this many, and together at
    /// least so long.
    #[must_use]
    pub fn with_session_retry(mut self, count: usize, at_least: Duration) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.session_in_region = Retries::of(count);
        self.session_in_region_wait = at_least / count.max(1);
        self
    }

    /// The number of retries of a budget, spent and in all.
    #[must_use]
    pub const fn retries(&self, budget: Budget) -> Retries {
        match budget {
            Budget::Throttle => self.throttle.retries,
            Budget::Connection => self.connection,
            Budget::Resend => self.resend,
            Budget::Credential => self.credential,
            Budget::RetryWith => self.retry_with,
            Budget::Failover => self.failover,
            Budget::SessionInRegion => self.session_in_region,
            Budget::Session => self.session,
            Budget::RangeRefresh => self.range_refresh,
            Budget::ContainerRefresh => self.container_refresh,
        }
    }

    /// The budgets after a retry that waits this long.
    #[must_use]
    pub fn after(mut self, budget: Budget, wait: Duration) -> Self {
        let retries = match budget {
            Budget::Throttle => {
                self.throttle.waited = self.throttle.waited.saturating_add(wait);
                &mut self.throttle.retries
            }
            Budget::Connection => &mut self.connection,
            Budget::Resend => &mut self.resend,
            Budget::Credential => &mut self.credential,
            Budget::RetryWith => &mut self.retry_with,
            Budget::Failover => &mut self.failover,
            Budget::SessionInRegion => &mut self.session_in_region,
            Budget::Session => &mut self.session,
            Budget::RangeRefresh => &mut self.range_refresh,
            Budget::ContainerRefresh => &mut self.container_refresh,
        };
        *retries = retries.spend();
        if matches!(budget, Budget::Failover | Budget::Session) && !wait.is_zero() {
            self.pauses = self.pauses.saturating_add(1);
        }
        self
    }

    /// The budgets of a write that has waited for its region: every region may serve it now.
    #[must_use]
    pub fn with_failovers_left(self) -> Self {
        Self { failover: Retries::of(self.failover.most), pauses: 0, ..self }
    }

    /// The budgets at another endpoint, whose connections have not failed yet and which a session may have
    /// reached.
    #[must_use]
    pub fn elsewhere(self) -> Self {
        let again = |retries: Retries| Retries::of(retries.most);
        let connection = again(self.connection);
        Self { connection, session_in_region: again(self.session_in_region), ..self }
    }
}
