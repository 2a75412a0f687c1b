//! What a client sees of its request: a response as a rule, or what a fault rule or an outage makes of
//! its connection.
//!
//! The boundary between the account and a transport: the account does not know what a connection is, and
//! a transport does not know what a fault rule is.

use bytes::Bytes;
use http::Response;

/// What a client sees of its request.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionOutcome {
    /// A whole response.
    Response(Response<Bytes>),
    /// The region is offline: nothing listens, and the connection is refused (`ECONNREFUSED`).
    ConnectionRefused,
    /// The connection is reset (`ECONNRESET`) before any byte of a response. All streams of an HTTP/2
    /// connection end with it.
    Reset {
        /// Whether the request was carried out first. A client cannot tell.
        processed: bool,
    },
    /// The request was carried out, and the connection is reset after the response's head and the first
    /// half of its body.
    ResetMidBody(Response<Bytes>),
}

impl From<Response<Bytes>> for ConnectionOutcome {
    fn from(response: Response<Bytes>) -> Self {
        Self::Response(response)
    }
}
