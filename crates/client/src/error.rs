//! A failed call.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::{CosmosStatus, ErrorBody};

pub use sidereal_driver::ErrorKind;

use crate::batch_failure::BatchFailure;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call.
///
/// Match on [`kind`](Self::kind) or [`status`](Self::status): `Display` is prose for people and no
/// contract. Each level tells only its own part; the cause is in `source`.
///
/// ```
/// use sidereal::{Error, ErrorKind};
///
/// fn describe(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::NotFound => "there is no such item",
///         ErrorKind::PreconditionFailed => "another client changed it: read it again",
///         _ if error.may_have_been_applied() => "it may have happened: read before you repeat it",
///         _ => "it did not happen",
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>); // Shared so that results stay small, and a stream can repeat its end.

struct Inner {
    kind: ErrorKind,
    message: Cow<'static, str>,
    batch: Option<BatchFailure>,
    operation: Option<OperationFailure>,
    cause: Option<Cause>,
}

/// How one operation of several failed, where the request that it was in did not.
#[derive(Clone, Debug)]
pub(crate) struct OperationFailure {
    pub(crate) status: Option<CosmosStatus>,
    /// Also of an earlier attempt at it, in another request.
    pub(crate) may_have_been_applied: bool,
    /// Of the request that it was in; operations share it.
    pub(crate) diagnostics: Option<Arc<DiagnosticsContext>>,
}

enum Cause {
    Driver(Arc<sidereal_driver::Error>),
    Other(Box<dyn StdError + Send + Sync>),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            batch: None,
            operation: None,
            cause: None,
        }))
    }

    /// The caller has to change what it asked for.
    pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    pub(crate) fn caused_by(
        kind: ErrorKind,
        message: impl Into<Cow<'static, str>>,
        cause: impl StdError + Send + Sync + 'static,
    ) -> Self {
        let cause = Some(Cause::Other(Box::new(cause)));
        Self(Arc::new(Inner { kind, message: message.into(), batch: None, operation: None, cause }))
    }

    /// A batch that was refused as a whole because of one operation.
    pub(crate) fn of_batch(failure: BatchFailure) -> Self {
        let (kind, message) = (ErrorKind::of_status(failure.status()), failure.to_string());
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            batch: Some(failure),
            operation: None,
            cause: None,
        }))
    }

    /// One operation of several that failed by itself.
    pub(crate) fn of_operation(
        kind: ErrorKind,
        message: String,
        failure: OperationFailure,
        cause: Option<&Self>,
    ) -> Self {
        let cause = match cause.map(|error| &error.0.cause) {
            Some(Some(Cause::Driver(error))) => Some(Cause::Driver(Arc::clone(error))),
            Some(Some(Cause::Other(_)) | None) | None => None,
        };
        let (message, operation) = (message.into(), Some(failure));
        Self(Arc::new(Inner { kind, message, batch: None, operation, cause }))
    }

    /// A success whose content cannot be read. A write may have been applied all the same.
    pub(crate) fn unreadable(
        message: String,
        is_write: bool,
        diagnostics: &DiagnosticsContext,
    ) -> Self {
        let failure = OperationFailure {
            status: None,
            may_have_been_applied: is_write,
            diagnostics: Some(Arc::new(diagnostics.clone())),
        };
        Self::of_operation(ErrorKind::InvalidResponse, message, failure, None)
    }

    fn driver(&self) -> Option<&sidereal_driver::Error> {
        match &self.0.cause {
            Some(Cause::Driver(error)) => Some(error),
            Some(Cause::Other(_)) | None => None,
        }
    }

    /// The kind of the error: what the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The status of the response, or the one that stands for its absence; of a batch, that of the
    /// operation that failed.
    #[must_use]
    pub fn status(&self) -> Option<CosmosStatus> {
        let batch = self.0.batch.as_ref().map(BatchFailure::status);
        let operation = || self.0.operation.as_ref().and_then(|it| it.status);
        batch.or_else(operation).or_else(|| self.driver()?.status())
    }

    /// The message of the service's error response.
    #[must_use]
    pub fn service_message(&self) -> Option<String> {
        let body = self.driver()?.response()?.body();
        ErrorBody::from_json(body).map(|body| body.message)
    }

    /// Whether the call may have been carried out all the same. A write that says so has to be read back
    /// before it is repeated.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        let batch = self.0.batch.as_ref().is_some_and(BatchFailure::may_have_been_applied);
        let operation = self.0.operation.as_ref().is_some_and(|it| it.may_have_been_applied);
        let driver = self.driver().is_some_and(sidereal_driver::Error::may_have_been_applied);
        batch || operation || driver
    }

    /// The operation that a batch failed by.
    #[must_use]
    pub fn batch_failure(&self) -> Option<&BatchFailure> {
        self.0.batch.as_ref()
    }

    /// The attempts of the call; `None` if nothing was sent.
    #[must_use]
    pub fn diagnostics(&self) -> Option<&DiagnosticsContext> {
        let batch = self.0.batch.as_ref().map(BatchFailure::diagnostics);
        let operation = || self.0.operation.as_ref().and_then(|it| it.diagnostics.as_deref());
        batch.or_else(operation).or_else(|| self.driver()?.diagnostics())
    }
}

impl From<sidereal_driver::Error> for Error {
    fn from(error: sidereal_driver::Error) -> Self {
        Self::from(Arc::new(error))
    }
}

impl From<Arc<sidereal_driver::Error>> for Error {
    fn from(error: Arc<sidereal_driver::Error>) -> Self {
        let (kind, message) = (error.kind(), error.to_string().into());
        Self(Arc::new(Inner {
            kind,
            message,
            batch: None,
            operation: None,
            cause: Some(Cause::Driver(error)),
        }))
    }
}

impl From<sidereal_protocol::Error> for Error {
    fn from(error: sidereal_protocol::Error) -> Self {
        Self::invalid(error.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Error({:?}, {self}", self.0.kind)?;
        if let Some(source) = self.source() {
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
        match &self.0.cause {
            // Its sentence is this error's own, so the chain goes on with what caused that one.
            Some(Cause::Driver(error)) => error.source(),
            Some(Cause::Other(error)) => Some(error.as_ref()),
            None => None,
        }
    }
}
