//! The one error of this crate: text from outside that is not what it should be.
//!
//! [`ErrorKind`] names the vocabulary that refused, for code to match on; the sentence in
//! `Display` says what was found and what was expected, for a person to act on. Two boundaries
//! where callers react to the *reason* have types of their own: `RoutingMapError` (a gap is
//! transient) and `AuthorizationError` (each reason is a different 401 or 403).

use std::borrow::Cow;
use std::fmt;

/// The result of parsing or building a value of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A value that was rejected, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Cow<'static, str>,
}

/// Which vocabulary refused the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A word that is not in a closed list, such as a consistency level.
    UnknownName,
    /// A region name that is blank or unprintable.
    RegionName,
    /// An etag that could not travel in a header.
    Etag,
    /// Throughput settings.
    Throughput,
    /// A partition key path or definition.
    PartitionKeyDefinition,
    /// A partition key or its header form.
    PartitionKey,
    /// The hexadecimal form of an effective partition key, or a range of them.
    EffectivePartitionKey,
    /// The id of a partition range.
    PartitionKeyRangeId,
    /// A session token.
    SessionToken,
    /// An id or name of a resource.
    ResourceId,
    /// A resource link or request path.
    Link,
    /// A resource identifier made by the service.
    Rid,
    /// An account key or an authorization token.
    Authorization,
    /// A connection string.
    ConnectionString,
    /// A date in HTTP form.
    Date,
    /// A header whose value has the wrong shape.
    Header,
    /// A query request.
    Query,
    /// A transactional batch.
    Batch,
    /// A patch document.
    Patch,
    /// A body in the binary form of JSON.
    BinaryJson,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Which vocabulary refused the input.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Shortens outside text for an error message, so that a megabyte of input is not echoed whole.
pub(crate) fn excerpt(text: &str) -> Cow<'_, str> {
    // Enough to recognise a value by, short enough for a log line.
    const LONGEST: usize = 64;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_never_cuts_a_character() {
        let long = "é".repeat(100);
        assert_eq!(excerpt(&long), format!("{}…", "é".repeat(64)));
        assert_eq!(excerpt("short"), "short");
    }
}
