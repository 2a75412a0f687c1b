//! The question: what was asked, and what came back.

use std::time::Duration;

use sidereal_protocol::CosmosStatus;

use crate::exchange::{HttpErrorKind, RequestSentStatus};

/// One attempt, as far as the decision about the next depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The kind of the request.
    pub kind: RequestKind,
    /// The outcome of the attempt.
    pub outcome: AttemptOutcome,
}

/// The effect of repeating a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// It changes nothing.
    Read,
    /// It ends in the same data however often it is applied.
    IdempotentWrite,
    /// Applied twice it does harm: a patch that increments, a stored procedure.
    Write,
}

impl RequestKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Read, Self::IdempotentWrite, Self::Write];

    /// Whether it may change data.
    #[must_use]
    pub const fn is_write(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// The outcome of an attempt, as far as retries depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// A response of success.
    Success,
    /// A response with an error status.
    Refusal {
        /// Code and sub-status.
        status: CosmosStatus,
        /// How long the service asks to wait.
        retry_after: Option<Duration>,
    },
    /// No response.
    Loss {
        /// Why.
        kind: HttpErrorKind,
        /// How far the request got.
        sent: RequestSentStatus,
    },
    /// The operation's deadline passed.
    DeadlinePassed {
        /// How far the request got.
        sent: RequestSentStatus,
    },
}
