//! The request that both clients send, but for the signature.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// The length of bodies.
pub(crate) const BODY_BYTES: usize = 1024;

/// The path of an item.
pub(crate) const PATH: &str = "/dbs/store/colls/orders/docs/1234567890";

/// The request of the benchmark.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// A point read: no body there, 1 KB back.
    Read,
    /// A replace: 1 KB there, 1 KB back.
    Write,
}

impl Shape {
    pub(crate) fn method(self) -> Method {
        match self {
            Self::Read => Method::GET,
            Self::Write => Method::PUT,
        }
    }

    pub(crate) fn body(self) -> Bytes {
        match self {
            Self::Read => Bytes::new(),
            Self::Write => Bytes::from_static(&[b'x'; BODY_BYTES]),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "point reads: GET, 1 KB answers",
            Self::Write => "replaces: PUT of 1 KB, 1 KB answers",
        })
    }
}

/// The headers that belong to the operation.
pub(crate) fn own_headers() -> HeaderMap {
    HeaderMap::from_iter([
        header("x-ms-documentdb-partitionkey", "[\"customer-4711\"]"),
        header("x-ms-session-token", "0:1#4711#1=4700#2=4699"),
    ])
}

/// The headers that every request has, as the bare client sends them: written before the clock runs.
pub(crate) fn common_headers() -> Vec<(HeaderName, HeaderValue)> {
    vec![
        header("x-ms-version", "2020-07-15"),
        header("x-ms-date", "Thu, 27 Apr 2017 00:51:12 GMT"),
        header("accept", "application/json"),
        header("content-type", "application/json"),
        header("cache-control", "no-cache"),
        header("user-agent", "sidereal/0.1.0 (drv=0.1.0; linux; x86_64)"),
        header("x-ms-client-id", "5f2d1ff0-3a0b-4a2e-8a3d-4a8c1f2b7a11"),
        header("x-ms-activity-id", "0b64d8c2-5b8e-4d1c-9d0e-6f1f0c7f2b22"),
        header("x-ms-cosmos-sdk-supportedcapabilities", "11"),
        header("x-ms-noretry-449", "true"),
        header(
            "authorization",
            "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D",
        ),
    ]
}

fn header(name: &'static str, value: &'static str) -> (HeaderName, HeaderValue) {
    let mut value = HeaderValue::from_static(value);
    // As the signed header is: it stays out of the peer's header table.
    value.set_sensitive(name == "authorization");
    (HeaderName::from_static(name), value)
}
