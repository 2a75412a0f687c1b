//! The kinds of failures that code matches on. The matrix of outcomes (`retry/matrix.rs`) names one for each.

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
