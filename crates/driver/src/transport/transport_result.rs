//! The result of the transport pipeline: a response or its absence, as plain values.

use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::ResponseHeaders;

use crate::diagnostics::{Decision, Phase};
use crate::exchange::{HttpError, RequestSentStatus};
use crate::retry::{AttemptOutcome, Budgets};

/// The outcome of an attempt.
#[derive(Clone, Debug)]
pub struct TransportResult {
    /// The outcome.
    pub outcome: TransportOutcome,
    /// When it was known.
    pub at: Instant,
    /// Whether a request of the attempt may have been carried out without its response having come,
    /// whatever the outcome is: a repeated create that meets its own item.
    pub was_ambiguous: bool,
    /// The decision at the endpoint: to finish, and why.
    pub decision: Decision,
    /// The retry budgets left for the operation's next attempt; `None` if nothing was spent.
    pub budgets: Option<Box<Budgets>>,
}

/// The ways an attempt can end.
#[derive(Clone, Debug)]
pub enum TransportOutcome {
    /// A response of success: 2xx, or 304.
    Success(TransportResponse),
    /// A response with an error status.
    HttpError(TransportResponse),
    /// No response.
    TransportError {
        /// Why.
        error: HttpError,
        /// How far the request got.
        request_sent: RequestSentStatus,
    },
    /// The operation's deadline passed.
    DeadlineExceeded {
        /// The phase of the attempt at that moment.
        phase: Phase,
        /// How far the request got.
        request_sent: RequestSentStatus,
    },
}

/// A response.
#[derive(Clone, Debug)]
pub struct TransportResponse {
    /// Code and sub-status.
    pub status: CosmosStatus,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl TransportOutcome {
    /// The status of the response, or the one that stands for its absence.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        match self {
            Self::Success(response) | Self::HttpError(response) => response.status,
            Self::TransportError { error, .. } => error.status(),
            Self::DeadlineExceeded { .. } => CosmosStatus::CLIENT_DEADLINE_EXCEEDED,
        }
    }

    /// The outcome as the retry matrix knows it.
    #[must_use]
    pub fn attempt_outcome(&self) -> AttemptOutcome {
        match self {
            Self::Success(_) => AttemptOutcome::Success,
            Self::HttpError(response) => AttemptOutcome::Refusal {
                status: response.status,
                retry_after: ResponseHeaders::new(&response.headers).retry_after(),
            },
            Self::TransportError { error, request_sent } => {
                AttemptOutcome::Loss { kind: error.kind(), sent: *request_sent }
            }
            Self::DeadlineExceeded { request_sent, .. } => {
                AttemptOutcome::DeadlinePassed { sent: *request_sent }
            }
        }
    }

    /// How far the request got.
    #[must_use]
    pub fn request_sent(&self) -> RequestSentStatus {
        match self {
            Self::Success(_) | Self::HttpError(_) => RequestSentStatus::MaybeSent,
            Self::TransportError { request_sent, .. }
            | Self::DeadlineExceeded { request_sent, .. } => *request_sent,
        }
    }
}
