//! An answer under construction: what a handler says, before the account adds what every answer has.

use std::fmt::Display;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Value, json};
use sidereal_protocol::{CosmosStatus, Etag, Rid};

use crate::charge;
use sidereal_protocol::headers::names as headers;

/// What a handler answers.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: CosmosStatus,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) charge: f64,
}

impl Reply {
    /// An answer without a body.
    pub(crate) fn empty(status: CosmosStatus) -> Self {
        Self {
            status,
            headers: HeaderMap::with_capacity(24),
            body: Bytes::new(),
            charge: charge::MINIMUM,
        }
    }

    /// An answer whose body is ready.
    pub(crate) fn bytes(status: CosmosStatus, body: Bytes) -> Self {
        Self { body, ..Self::empty(status) }
    }

    /// An answer with a JSON body.
    pub(crate) fn json(status: CosmosStatus, body: &Value) -> Self {
        Self::bytes(status, Bytes::from(body.to_string()))
    }

    /// A page of a feed.
    pub(crate) fn feed(rid: Option<Rid>, name: &str, entries: Vec<Value>) -> Self {
        let count = entries.len();
        let rid = rid.map(|rid| rid.to_string()).unwrap_or_default();
        let body = json!({ "_rid": rid, name: entries, "_count": count });
        Self::json(CosmosStatus::OK, &body).with(headers::ITEM_COUNT, count)
    }

    pub(crate) fn charged(self, charge: f64) -> Self {
        Self { charge, ..self }
    }

    /// Adds a header; a value that cannot be one is left out, since it could only come from a client.
    pub(crate) fn with(mut self, name: HeaderName, value: impl Display) -> Self {
        if let Ok(value) = HeaderValue::try_from(value.to_string()) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(crate) fn with_etag(self, etag: &Etag) -> Self {
        self.with(header::ETAG, etag.as_str())
    }

    /// Drops the body: `Prefer: return=minimal`.
    pub(crate) fn without_body(self, drop: bool) -> Self {
        if drop { Self { body: Bytes::new(), ..self } } else { self }
    }
}
