//! A response under construction: what a handler returns, and the headers that every response has.

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, Etag, Rid, encode_binary_json};

use crate::charge;
use crate::store::persistence::Durability;

/// How the emulator names itself in error messages and headers.
pub(crate) const AGENT: &str = concat!("sidereal-emulator/", env!("CARGO_PKG_VERSION"));

/// Room for the headers of any response: 24 fit without the map growing on the way.
const HEADER_CAPACITY: usize = 24;

/// What a handler returns.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: CosmosStatus,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) charge: f64,
    /// When what it shows is durable; none if that is everything queued so far.
    pub(crate) durability: Option<Durability>,
}

impl Reply {
    /// A response without a body.
    pub(crate) fn empty(status: CosmosStatus) -> Self {
        Self {
            status,
            headers: HeaderMap::with_capacity(HEADER_CAPACITY),
            body: Bytes::new(),
            charge: charge::MINIMUM,
            durability: None,
        }
    }

    /// A response whose body is ready.
    pub(crate) fn bytes(status: CosmosStatus, body: Bytes) -> Self {
        Self { body, ..Self::empty(status) }
    }

    /// A response with a JSON body.
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

    /// Says when what it shows is durable.
    pub(crate) fn durable_at(self, durability: Durability) -> Self {
        Self { durability: Some(durability), ..self }
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

    /// The same with its body in the service's binary form of JSON; an error stays text.
    pub(crate) fn in_binary(self) -> Self {
        if self.status.code() >= 300 || self.body.is_empty() {
            return self;
        }
        match serde_json::from_slice::<Value>(&self.body) {
            Ok(value) => Self { body: encode_binary_json(&value).into(), ..self },
            // Text is always accepted.
            Err(_) => self,
        }
    }

    /// The response to a request that was not measured.
    pub(crate) fn into_response(self, activity_id: &HeaderValue) -> Response<Bytes> {
        self.into_timed_response(activity_id, Duration::ZERO)
    }

    /// The response to a request that took so long, with the headers that every response has.
    pub(crate) fn into_timed_response(
        self,
        activity_id: &HeaderValue,
        took: Duration,
    ) -> Response<Bytes> {
        let Self { status, headers: mut map, body, charge, durability: _ } = self;
        if !body.is_empty() {
            map.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let charge = HeaderValue::try_from(charge::format(charge));
        let charge = charge.unwrap_or_else(|_| HeaderValue::from_static("0"));
        map.insert(headers::REQUEST_CHARGE, charge);
        map.insert(headers::ACTIVITY_ID, activity_id.clone());
        map.insert(headers::REQUEST_DURATION_MS, milliseconds(took));
        if status.sub_status() != 0 {
            map.insert(headers::SUB_STATUS, HeaderValue::from(status.sub_status()));
        }
        // In the format of the service's gateway: `version=` and three numbers.
        map.insert(headers::GATEWAY_VERSION, HeaderValue::from_static("version=2.14.0"));
        map.insert(headers::SERVICE_VERSION, HeaderValue::from_static(AGENT));
        let mut response = Response::new(body);
        *response.status_mut() =
            StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = map;
        response
    }
}

/// Milliseconds with three decimals, as the service writes them.
fn milliseconds(duration: Duration) -> HeaderValue {
    let micros = duration.as_micros();
    let text = format!("{}.{:03}", micros / 1_000, micros % 1_000);
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("0"))
}
