//! A failed operation.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use sidereal_protocol::CosmosStatus;

use crate::diagnostics::DiagnosticsContext;
use crate::{CosmosResponse, ErrorKind};

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

    /// The kind of the failure: what the caller can do about it.
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

    /// The diagnostics: every attempt with its endpoint, times and outcome.
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
    fn an_ambiguous_outcome_says_so() {
        let error = Error::new(ErrorKind::Unavailable, "no answer came").maybe_applied(true);
        assert_eq!(error.to_string(), "no answer came (it may have been applied)");
    }
}
