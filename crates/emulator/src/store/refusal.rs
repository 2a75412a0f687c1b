//! Why the store refuses an operation.

use sidereal_protocol::Etag;

/// Why an operation did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Conflict,
    UniqueKeyConflict,
    NotFound,
    /// A read of the version that its client has already.
    NotModified(Etag),
    PreconditionFailed,
    PatchConditionNotMet,
    TooLarge,
    /// A sentence about what to change.
    Invalid(String),
}
