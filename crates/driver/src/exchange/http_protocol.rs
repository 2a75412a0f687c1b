//! The versions of HTTP that a connection may speak.

use std::fmt;

/// The version of HTTP that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HttpProtocol {
    /// HTTP/1.1: one request at a time.
    Http1,
    /// HTTP/2: streams.
    Http2,
}

impl HttpProtocol {
    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
        }
    }
}

impl fmt::Display for HttpProtocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
