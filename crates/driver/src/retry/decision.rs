//! The decision: what comes after an attempt, and why. Diagnostics keep it as it is.

use std::fmt;
use std::time::Duration;

use crate::brief_duration::Brief;

/// The step that follows an attempt, with the reason for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// The caller gets the outcome.
    Finish {
        /// Why.
        reason: &'static str,
    },
    /// Retry at this endpoint.
    RetryHere {
        /// After this long.
        after: Duration,
        /// The difference to the attempt before.
        manner: Manner,
        /// Why.
        reason: &'static str,
    },
    /// The write waits until its region, or its partition there, accepts writes again, or the account names another
    /// write region.
    AwaitWriteRegion {
        /// Why.
        reason: &'static str,
    },
    /// Another endpoint is tried, at once.
    RetryElsewhere {
        /// Which.
        target: RetryTarget,
        /// Why.
        reason: &'static str,
    },
}

/// How a retry at the same endpoint differs from the attempt before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Not at all.
    Unchanged,
    /// It goes over another connection, where there is one.
    AnotherConnection,
    /// It carries a fresh credential.
    NewCredential,
}

/// Which other endpoint is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryTarget {
    /// The next one in the order of preference.
    NextPreferred,
    /// The one that accepts the account's writes. In a multi-write account all do: the next preferred one.
    WriteRegion,
}

impl RetryTarget {
    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NextPreferred => "next_preferred",
            Self::WriteRegion => "write_region",
        }
    }
}

impl Decision {
    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Finish { .. } => "finish",
            Self::RetryHere { .. } => "retry_here",
            Self::AwaitWriteRegion { .. } => "await_write_region",
            Self::RetryElsewhere { .. } => "retry_elsewhere",
        }
    }

    /// The reason, for people.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Finish { reason }
            | Self::RetryHere { reason, .. }
            | Self::AwaitWriteRegion { reason }
            | Self::RetryElsewhere { reason, .. } => reason,
        }
    }

    /// The wait before the next attempt, if there is one.
    #[must_use]
    pub const fn after(self) -> Option<Duration> {
        match self {
            Self::RetryHere { after, .. } => Some(after),
            Self::Finish { .. } | Self::AwaitWriteRegion { .. } | Self::RetryElsewhere { .. } => {
                None
            }
        }
    }

    /// Which other endpoint is tried, if one is.
    #[must_use]
    pub const fn target(self) -> Option<RetryTarget> {
        match self {
            Self::RetryElsewhere { target, .. } => Some(target),
            Self::Finish { .. } | Self::RetryHere { .. } | Self::AwaitWriteRegion { .. } => None,
        }
    }
}

/// As it stands in a line: "retried elsewhere (next preferred region): …".
impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finish { .. } => formatter.write_str("final")?,
            Self::RetryHere { after, .. } => {
                write!(formatter, "retried here after {}", Brief(*after))?;
            }
            Self::AwaitWriteRegion { .. } => {
                formatter.write_str("waits until writes are accepted")?;
            }
            Self::RetryElsewhere { target: RetryTarget::NextPreferred, .. } => {
                formatter.write_str("retried elsewhere")?;
            }
            Self::RetryElsewhere { target: RetryTarget::WriteRegion, .. } => {
                formatter.write_str("retried in the write region")?;
            }
        }
        write!(formatter, ": {}", self.reason())
    }
}
