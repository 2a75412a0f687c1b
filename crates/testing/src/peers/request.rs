//! Requests as a peer receives them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// A whole request.
#[derive(Clone, Debug)]
pub struct PeerRequest {
    /// The HTTP/2 stream; for HTTP/1.1 the number of the request on its connection, from 1.
    pub stream: u32,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// `:authority`, or the `host` field.
    pub authority: String,
    /// The fields, pseudo-header fields excepted.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// A whole request, and where it stands among the others that a served peer got.
#[derive(Clone, Debug)]
pub struct ArrivedRequest {
    /// The number of the connection in the order of acceptance, from 0.
    pub connection: usize,
    /// The number of the request among all that arrived, from 0.
    pub ordinal: usize,
    /// The request itself.
    pub request: PeerRequest,
}

impl std::ops::Deref for ArrivedRequest {
    type Target = PeerRequest;

    fn deref(&self) -> &PeerRequest {
        &self.request
    }
}

impl PeerRequest {
    /// Reads the head of a request from decoded HTTP/2 fields.
    pub(super) fn from_fields(stream: u32, fields: &[(String, String)]) -> Self {
        let mut request = Self::without_fields(stream);
        for (name, value) in fields {
            match name.as_str() {
                ":method" => request.method.clone_from(value),
                ":path" => request.path.clone_from(value),
                ":authority" => request.authority.clone_from(value),
                ":scheme" => {}
                _ => request.add_header(name, value),
            }
        }
        request
    }

    pub(super) fn without_fields(stream: u32) -> Self {
        Self {
            stream,
            method: String::new(),
            path: String::new(),
            authority: String::new(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    pub(super) fn add_header(&mut self, name: &str, value: &str) {
        let name = HeaderName::try_from(name).unwrap();
        self.headers.append(name, HeaderValue::try_from(value).unwrap());
    }

    /// The value of a field, or nothing.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}
