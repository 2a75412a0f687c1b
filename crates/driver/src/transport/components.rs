//! What goes into the transport pipeline and what comes out: plain values.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};
use sidereal_protocol::{CosmosStatus, RegionName, ResourceType};
use uuid::Uuid;

use super::{Endpoint, HttpError, RequestSentStatus};
use crate::diagnostics::{ExecutionContext, Phase};

/// One attempt at an operation: what to send, where, and until when.
#[derive(Clone, Debug)]
pub struct TransportRequest {
    /// The method.
    pub method: Method,
    /// Where it goes.
    pub endpoint: Endpoint,
    /// The region of the endpoint, for diagnostics.
    pub region: Option<RegionName>,
    /// The path, encoded.
    pub path: PathAndQuery,
    /// The headers that are its own; the common ones are added.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What its signature covers.
    pub auth_context: AuthorizationContext,
    /// The id of the operation.
    pub activity_id: Uuid,
    /// Why it is made.
    pub execution_context: ExecutionContext,
    /// Whether sending it twice can do no harm.
    pub is_repeatable: bool,
    /// When the operation ends, answered or not.
    pub deadline: Option<Instant>,
    /// How long throttling is waited out.
    pub throttling: ThrottleRetryState,
}

/// What the signature of a request covers beside its method and date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationContext {
    /// The kind of resource.
    pub resource_type: ResourceType,
    /// The link that is signed.
    pub signed_link: String,
}

/// How a request that met throttling, or lost its connection, goes on.
///
/// Replaced, not changed, from one attempt to the next. Every hedge has its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleRetryState {
    /// Throttled answers waited out so far.
    pub attempt_count: u32,
    /// The most of them.
    pub max_attempts: u32,
    /// What was waited so far.
    pub cumulative_delay: Duration,
    /// The most that is waited.
    pub max_wait_time: Duration,
    /// The first wait where the service names none.
    pub initial_backoff: Duration,
    /// The longest wait where the service names none.
    pub max_backoff: Duration,
    /// What a wait is multiplied by from one to the next.
    pub backoff_factor: f64,
    /// Retries on another connection so far.
    pub connectivity_retries: u32,
    /// Times the request was sent again because the peer had not taken it.
    pub resends: u32,
    /// Whether the credential was renewed already.
    pub was_reauthorized: bool,
}

/// What came of an attempt.
#[derive(Clone, Debug)]
pub struct TransportResult {
    /// The outcome.
    pub outcome: TransportOutcome,
    /// When it was known.
    pub at: Instant,
}

/// The ways an attempt can end.
#[derive(Clone, Debug)]
pub enum TransportOutcome {
    /// An answer that says yes: 2xx, or 304.
    Success(TransportResponse),
    /// An answer that says no.
    HttpError(TransportResponse),
    /// No answer.
    TransportError {
        /// Why.
        error: HttpError,
        /// How far the request got.
        request_sent: RequestSentStatus,
    },
    /// The operation's time ran out.
    DeadlineExceeded {
        /// What it was spent on.
        phase: Phase,
        /// How far the request got.
        request_sent: RequestSentStatus,
    },
}

/// An answer.
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
    /// The status of the answer, or the one that stands for its absence.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        match self {
            Self::Success(response) | Self::HttpError(response) => response.status,
            Self::TransportError { error, .. } => error.status(),
            Self::DeadlineExceeded { .. } => CosmosStatus::CLIENT_DEADLINE_EXCEEDED,
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
