//! The faults that a rule can inject.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::names;

use crate::exchange::{HttpErrorKind, RequestSentStatus};
use crate::transport::HttpResponse;

/// The fault that a rule injects.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FaultInjectionResult {
    /// The request is answered without being sent.
    Answer(InjectedAnswer),
    /// The request fails without a response.
    Error {
        /// The kind of the failure.
        kind: HttpErrorKind,
        /// How far the request got.
        delivery: Delivery,
    },
    /// The request is held back, then sent.
    Delay(Duration),
    /// The request counts as sent and is never answered, until it is cancelled or its client closed.
    Hang,
    /// The client's connection is at fault, not a request.
    Connect(ConnectFault),
}

impl FaultInjectionResult {
    /// A response with a status and nothing else.
    #[must_use]
    pub fn status(status: CosmosStatus) -> Self {
        Self::Answer(InjectedAnswer::new(status))
    }

    /// No connection, so nothing was sent.
    #[must_use]
    pub fn connection_error() -> Self {
        Self::Error { kind: HttpErrorKind::Connect, delivery: Delivery::NotSent }
    }

    /// The connection ends and the request with it: the service never saw it, and the error cannot tell.
    #[must_use]
    pub fn request_lost() -> Self {
        Self::Error { kind: HttpErrorKind::ConnectionLost, delivery: Delivery::LostOnTheWay }
    }

    /// The connection ends after the service carried the request out: only the response is lost.
    #[must_use]
    pub fn answer_lost() -> Self {
        Self::Error { kind: HttpErrorKind::ConnectionLost, delivery: Delivery::AnswerLost }
    }

    /// Whether it is about connections rather than requests.
    pub(super) fn concerns_connections(&self) -> bool {
        matches!(self, Self::Connect(_))
    }
}

/// How far a request gets before its injected error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing of it is sent, and the error says so.
    NotSent,
    /// The peer refused it, and the error says so.
    Refused,
    /// It is not sent, but the error cannot tell.
    LostOnTheWay,
    /// It is sent and carried out, but the error cannot tell.
    AnswerLost,
}

impl Delivery {
    /// The message of the error.
    #[must_use]
    pub const fn request_sent(self) -> RequestSentStatus {
        match self {
            Self::NotSent => RequestSentStatus::NotSent,
            Self::Refused => RequestSentStatus::NotProcessed,
            Self::LostOnTheWay | Self::AnswerLost => RequestSentStatus::MaybeSent,
        }
    }
}

/// A fault of a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFault {
    /// It fails.
    Fail(HttpErrorKind),
    /// It takes longer.
    Delay(Duration),
    /// It never comes about, until the wait is cancelled or the client closed.
    Hang,
}

/// A made-up answer of the service.
#[derive(Clone, Debug)]
pub struct InjectedAnswer {
    code: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    delay: Duration,
}

impl InjectedAnswer {
    /// A response with a status, its sub-status in the header that carries it.
    ///
    /// # Panics
    ///
    /// The code is not an HTTP status: below 100 or above 999.
    #[must_use]
    pub fn new(status: CosmosStatus) -> Self {
        let code = StatusCode::from_u16(status.code()).expect("the code is one of HTTP");
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        let answer = Self { code, headers, body, delay: Duration::ZERO };
        match status.sub_status() {
            0 => answer,
            sub_status => answer.header(names::SUB_STATUS, HeaderValue::from(sub_status)),
        }
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.append(name, value);
        self
    }

    /// Sets the body of the answer.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds `x-ms-retry-after-ms` to the answer.
    #[must_use]
    pub fn retry_after(self, wait: Duration) -> Self {
        let milliseconds = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        self.header(names::RETRY_AFTER_MS, HeaderValue::from(milliseconds))
    }

    /// Delays the answer, counted from when the request was sent.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.body.clone());
        *response.status_mut() = self.code;
        response.headers_mut().clone_from(&self.headers);
        response
    }
}
