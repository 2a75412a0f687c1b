//! A failed operation.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use sidereal_protocol::CosmosStatus;

use crate::CosmosResponse;
use crate::diagnostics::DiagnosticsContext;
use crate::retry::row_of_status;

/// A failed operation.
///
/// Match on [`kind`](Self::kind) or [`status`](Self::status): `Display` is prose for people and no
/// contract. Each level tells only its own part; the cause is in `source`.
pub struct Error(Box<Inner>); // Boxed so that results stay small.

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    may_have_been_applied: bool,
    response: Option<CosmosResponse>,
    /// Where there is no response to carry them.
    diagnostics: Option<DiagnosticsContext>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// Failures grouped by what the caller can do about them, not by the layer they came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request cannot be sent as it is, or the service finds it wrong: change it.
    InvalidRequest,
    /// The credential was refused.
    Unauthorized,
    /// No such database, container or item.
    NotFound,
    /// An item of this id is there already, or another write got there first.
    Conflict,
    /// The item has changed since: read again and decide.
    PreconditionFailed,
    /// The service throttled the operation (429) for longer than the retry budget allowed.
    Throttled,
    /// Too many requests wait for a connection, by the application's own limit (`sharding.max_queued_requests`,
    /// `sharding.max_queued_bytes`). Nothing was sent: send fewer at once, or try again later.
    Overloaded,
    /// Time ran out. A write may have been applied.
    DeadlineExceeded,
    /// The caller cancelled. A write may have been applied.
    Cancelled,
    /// No response came, or the service failed. A write may have been applied.
    Unavailable,
    /// The response is not what such an operation is answered with: another type, or none.
    InvalidResponse,
    /// A bound that the caller set, or that keeps it safe, was met: raise it or ask for less.
    LimitExceeded,
}

impl ErrorKind {
    /// The kind that a response's status stands for.
    #[must_use]
    pub fn of_status(status: CosmosStatus) -> Self {
        row_of_status(status).error
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            may_have_been_applied: false,
            response: None,
            diagnostics: None,
            source: None,
        }))
    }

    pub(crate) fn caused_by(mut self, cause: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(cause));
        self
    }

    pub(crate) fn answered_by(mut self, response: CosmosResponse) -> Self {
        self.0.response = Some(response);
        self
    }

    pub(crate) fn maybe_applied(mut self, may_have_been_applied: bool) -> Self {
        self.0.may_have_been_applied = may_have_been_applied;
        self
    }

    pub(crate) fn with_diagnostics(mut self, diagnostics: DiagnosticsContext) -> Self {
        self.0.diagnostics = Some(diagnostics);
        self
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The status of the response, or the one that stands for its absence.
    #[must_use]
    pub fn status(&self) -> Option<CosmosStatus> {
        let answered = self.0.response.as_ref().map(CosmosResponse::status);
        answered.or_else(|| self.diagnostics()?.status())
    }

    /// The service's answer, where there was one.
    #[must_use]
    pub fn response(&self) -> Option<&CosmosResponse> {
        self.0.response.as_ref()
    }

    /// Whether the operation may have been carried out all the same.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        self.0.may_have_been_applied
    }

    /// What happened, attempt by attempt.
    #[must_use]
    pub fn diagnostics(&self) -> Option<&DiagnosticsContext> {
        let answered = self.0.response.as_ref().map(CosmosResponse::diagnostics);
        answered.or(self.0.diagnostics.as_ref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)?;
        match self.0.may_have_been_applied {
            true => formatter.write_str(" (it may have been applied)"),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Error({:?}, {self}", self.0.kind)?;
        if let Some(source) = &self.0.source {
            write!(formatter, ": {source}")?;
        }
        match self.diagnostics() {
            Some(diagnostics) => write!(formatter, ")\n{diagnostics}"),
            None => formatter.write_str(")"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_status() {
        let kind = |code, sub_status| {
            ErrorKind::of_status(CosmosStatus::with_sub_status(code, sub_status))
        };
        assert_eq!(kind(404, 0), ErrorKind::NotFound);
        assert_eq!(kind(429, 3200), ErrorKind::Throttled);
        assert_eq!(kind(429, 3092), ErrorKind::Unavailable);
        assert_eq!(kind(409, 0), ErrorKind::Conflict);
        assert_eq!(kind(412, 0), ErrorKind::PreconditionFailed);
        assert_eq!(kind(400, 1001), ErrorKind::InvalidRequest);
        assert_eq!(kind(403, 0), ErrorKind::Unauthorized);
        assert_eq!(kind(503, 0), ErrorKind::Unavailable);
    }

    /// A caller was told that its item is gone, or its credential refused, where a region was behind or not
    /// the write region.
    #[test]
    fn a_region_that_is_behind_or_takes_no_writes_is_unavailable() {
        for (code, sub_status) in [(404, 1002), (403, 3), (403, 1008)] {
            let status = CosmosStatus::with_sub_status(code, sub_status);
            assert_eq!(ErrorKind::of_status(status), ErrorKind::Unavailable, "{status}");
        }
    }

    #[test]
    fn an_ambiguous_outcome_says_so() {
        let error = Error::new(ErrorKind::Unavailable, "no answer came").maybe_applied(true);
        assert_eq!(error.to_string(), "no answer came (it may have been applied)");
    }
}
