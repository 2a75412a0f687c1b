//! Failed requests, classified by what the provider can do next.

use std::fmt;

use duroxide::providers::ProviderError;
use sidereal::ErrorKind;
use sidereal_protocol::CosmosStatus;

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: Cause,
    /// The index of the operation that a batch failed by.
    pub(crate) position: Option<usize>,
    error: sidereal::Error,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A document of the id exists.
    Conflict,
    /// The document does not exist.
    NotFound,
    /// The document has changed since.
    PreconditionFailed,
    /// It was not applied; a retry may succeed.
    Transient,
    /// It may have been applied.
    Ambiguous,
    /// The service refused it: a malformed or too large request, or a missing right.
    Refused,
}

/// Whether the runtime may repeat a call that failed with a status: the table of the specification.
const RETRYABLE: [(u16, bool); 8] = [
    (409, true),
    (429, true),
    (408, true),
    (503, true),
    (404, false),
    (412, true),
    (400, false),
    (413, false),
];

/// Whether the runtime may repeat a call that failed with a status.
pub(crate) fn is_retryable(status: Option<CosmosStatus>) -> bool {
    let code = status.map(CosmosStatus::code);
    let row = code.and_then(|code| RETRYABLE.iter().find(|(it, _)| *it == code));
    // Other statuses are failures of the service or the network, unless the request was refused.
    row.map_or_else(|| code.is_none_or(|code| code >= 500 || code == 449), |(_, is)| *is)
}

impl Failure {
    /// Classifies a failed write. A failed condition is ambiguous if the request was sent more than once: an earlier attempt
    /// may have changed the document.
    pub(crate) fn of_write(error: sidereal::Error) -> Self {
        let sent = error.diagnostics().map_or(0, |it| {
            it.attempts().iter().filter(|attempt| !attempt.request_sent.is_safe_to_resend()).count()
        });
        let cause = match cause(&error) {
            _ if error.may_have_been_applied() => Cause::Ambiguous,
            Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed if sent > 1 => {
                Cause::Ambiguous
            }
            cause => cause,
        };
        let position = error.batch_failure().map(sidereal::BatchFailure::index);
        Self { cause, position, error }
    }

    /// Whether the service will refuse the request whenever it is sent: it is malformed or too large.
    pub(crate) fn can_never_succeed(&self) -> bool {
        let code = self.error.status().map(CosmosStatus::code);
        self.cause == Cause::Refused && matches!(code, Some(400 | 413))
    }

    /// Classifies a failed read.
    pub(crate) fn of_read(error: sidereal::Error) -> Self {
        Self { cause: cause(&error), position: None, error }
    }

    /// Whether the driver has not sent the request.
    pub(crate) fn was_not_sent(&self) -> bool {
        self.error.diagnostics().is_some_and(|it| it.attempts().is_empty())
    }

    /// The error for the runtime.
    pub(crate) fn tell(&self, operation: &str, instance: &str) -> ProviderError {
        let message = format!("{}: {}", crate::excerpt(instance), self.error());
        let by_table = || is_retryable(self.error.status()) && self.cause != Cause::Refused;
        // 403/3 and 404/1002 are a region's state, whatever their codes mean otherwise.
        match self.cause == Cause::Transient || by_table() {
            true => ProviderError::retryable(operation, message),
            false => ProviderError::permanent(operation, message),
        }
    }

    /// The error for logs and operators.
    pub(crate) fn error(&self) -> impl fmt::Display + '_ {
        Explained(&self.error)
    }
}

/// The status of a write to a logical partition that has reached the service's limit of 20 GB.
const PARTITION_IS_FULL: CosmosStatus = CosmosStatus::with_sub_status(403, 1014);

/// An error with what an operator can do about it, where the error itself cannot know.
struct Explained<'a>(&'a sidereal::Error);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)?;
        match self.0.status() {
            Some(PARTITION_IS_FULL) => formatter.write_str(
                "; the logical partition of the instance is full (20 GB): prune its executions, have it continue as new, \
                 or spread the work over more instances",
            ),
            _ => Ok(()),
        }
    }
}

fn cause(error: &sidereal::Error) -> Cause {
    match error.kind() {
        ErrorKind::Conflict => Cause::Conflict,
        ErrorKind::NotFound => Cause::NotFound,
        ErrorKind::PreconditionFailed => Cause::PreconditionFailed,
        ErrorKind::Throttled
        | ErrorKind::Overloaded
        | ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded => Cause::Transient,
        // Waiting does not help with the other kinds.
        _ => Cause::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_specification_s_table_is_told_as_it_says() {
        for (code, expected) in RETRYABLE {
            assert_eq!(is_retryable(Some(CosmosStatus::new(code))), expected, "{code}");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_told_by_whose_trouble_it_is() {
        for (code, expected) in [(500, true), (502, true), (449, true), (401, false), (403, false)]
        {
            assert_eq!(is_retryable(Some(CosmosStatus::new(code))), expected, "{code}");
        }
        assert!(is_retryable(None), "no answer came");
    }
}
