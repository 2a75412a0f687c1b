//! A request that got no response: why, and whether it may have reached the service.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use sidereal_protocol::CosmosStatus;

/// How far a request got before it failed; what decides whether it may be sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestSentStatus {
    /// Nothing of it was handed to a connection.
    #[default]
    NotSent,
    /// The peer guarantees that it did nothing with it: `REFUSED_STREAM`, or a stream above the last one of
    /// its GOAWAY (RFC 9113, section 8.7).
    NotProcessed,
    /// It may have been carried out: ambiguous.
    MaybeSent,
}

impl RequestSentStatus {
    /// Whether sending it again cannot apply it twice.
    #[must_use]
    pub const fn is_safe_to_resend(self) -> bool {
        matches!(self, Self::NotSent | Self::NotProcessed)
    }

    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "not sent",
            Self::NotProcessed => "not processed",
            Self::MaybeSent => "maybe sent",
        }
    }
}

impl fmt::Display for RequestSentStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// Why a request got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpErrorKind {
    /// The request cannot be sent as it is.
    InvalidRequest,
    /// No connection could be made, and the next attempt may do better: name, network or port, a TLS
    /// handshake that was cut off, a proxy that failed for the moment.
    Connect,
    /// The peer's certificate was refused, or TLS cannot be set up.
    Tls,
    /// The proxy refused.
    Proxy,
    /// The connection ended, or hung, before the response was complete.
    ConnectionLost,
    /// The peer closes the connection (GOAWAY) and did not process this request.
    GoneAway,
    /// The peer refused the stream without processing it (`REFUSED_STREAM`).
    StreamRefused,
    /// The peer reset the stream (RST_STREAM) for another reason.
    StreamReset,
    /// The endpoint wants, or now speaks, another version of HTTP.
    ProtocolChanged,
    /// The peer violated the protocol.
    Protocol,
    /// The response exceeds the limit on its size.
    ResponseTooLarge,
    /// The wait queue of the endpoint is full.
    QueueFull,
    /// The timeout of one attempt passed.
    Timeout,
    /// The connection was evicted with the request on it.
    Evicted,
    /// The transport is shutting down.
    Closed,
}

/// A request that got no response.
///
/// Match on [`kind`](Self::kind) and [`request_sent`](Self::request_sent); `Display` is prose. Cloning is
/// cheap: requests that waited for the same connection share its failure.
#[derive(Clone)]
pub struct HttpError {
    kind: HttpErrorKind,
    request_sent: RequestSentStatus,
    message: Cow<'static, str>,
    // Shared: all requests that waited for one connection get its failure.
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl HttpError {
    /// An error with a sentence for people.
    pub fn new(
        kind: HttpErrorKind,
        request_sent: RequestSentStatus,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, request_sent, message: message.into(), source: None }
    }

    /// Adds the cause to the error.
    #[must_use]
    pub fn caused_by(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> HttpErrorKind {
        self.kind
    }

    /// Whether the request may have reached the service.
    #[must_use]
    pub fn request_sent(&self) -> RequestSentStatus {
        self.request_sent
    }

    /// Whether no connection could be made.
    pub(crate) fn is_about_connecting(&self) -> bool {
        matches!(self.kind, HttpErrorKind::Connect | HttpErrorKind::Tls | HttpErrorKind::Proxy)
    }

    /// The status that stands for the missing response.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        match self.kind {
            HttpErrorKind::QueueFull => CosmosStatus::CLIENT_QUEUE_FULL,
            HttpErrorKind::InvalidRequest => CosmosStatus::CLIENT_REQUEST_INVALID,
            HttpErrorKind::Protocol | HttpErrorKind::ResponseTooLarge => {
                CosmosStatus::CLIENT_RESPONSE_INVALID
            }
            // All others are failures of a connection: the status says no more, the kind does.
            _ => CosmosStatus::CLIENT_TRANSPORT_FAILED,
        }
    }

    /// Its sentence and those of its causes, in one line.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for HttpError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpError({:?}, {}, {})", self.kind, self.request_sent, self.chain())
    }
}

impl Error for HttpError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
