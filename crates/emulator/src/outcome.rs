//! Outcomes that a client sees of its request: a response as a rule, or what a fault rule or an outage makes of
//! its connection. And what the account learns of the client: whether it is on this machine.
//!
//! The boundary between the account and a transport: the account does not know what a connection is, and
//! a transport does not know what a fault rule is.

use std::net::IpAddr;

use bytes::Bytes;
use http::{Extensions, Response};

/// The outcome of a request, as its client sees it.
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

/// Where the client of a request is, which a transport tells the account in the request's extensions.
///
/// A request without it comes from within the process, and counts as from this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientOrigin {
    /// On this machine: over the loopback interface, or in this process.
    #[default]
    Loopback,
    /// Anywhere else.
    Remote,
}

impl ClientOrigin {
    /// The origin of a client at an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        // A listener for both protocols sees 127.0.0.1 as ::ffff:127.0.0.1 (RFC 4291, section 2.5.5.2).
        if address.to_canonical().is_loopback() { Self::Loopback } else { Self::Remote }
    }

    /// The origin that a request's extensions tell.
    pub(crate) fn in_extensions(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }
}

/// In the extensions of a response: its connection is closed after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastOfConnection;

impl From<Response<Bytes>> for ConnectionOutcome {
    fn from(response: Response<Bytes>) -> Self {
        Self::Response(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_of_both_protocols_are_this_machine() {
        for address in ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(ClientOrigin::of(address.parse().unwrap()), ClientOrigin::Loopback);
        }
        for address in ["10.0.0.1", "0.0.0.0", "::2", "::ffff:10.0.0.1", "172.17.0.1"] {
            assert_eq!(ClientOrigin::of(address.parse().unwrap()), ClientOrigin::Remote);
        }
    }
}
