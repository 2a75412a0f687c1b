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

/// The reply of a handler.
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

    /// Adds a header whose text is made for it, without copying it.
    pub(crate) fn with_text(mut self, name: HeaderName, text: String) -> Self {
        if let Ok(value) = HeaderValue::try_from(text) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds a header whose text is kept elsewhere, without copying it.
    pub(crate) fn with_shared(mut self, name: HeaderName, text: &Bytes) -> Self {
        if let Ok(value) = HeaderValue::from_maybe_shared(text.clone()) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds a header that is a number.
    pub(crate) fn with_number(mut self, name: HeaderName, number: u64) -> Self {
        self.headers.insert(name, HeaderValue::from(number));
        self
    }

    pub(crate) fn with_etag(self, etag: &Etag) -> Self {
        self.with(header::ETAG, etag.as_str())
    }

    /// Drops the body: `Prefer: return=minimal`.
    pub(crate) fn without_body(self, drop: bool) -> Self {
        if drop { Self { body: Bytes::new(), ..self } } else { self }
    }

    /// Writes the body in the service's binary form of JSON; an error stays text.
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
        map.insert(headers::REQUEST_CHARGE, request_units(charge));
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

/// Request units with two decimals at most.
fn request_units(charge: f64) -> HeaderValue {
    let units = charge::rounded(charge);
    // Reads of small items cost a whole unit, and most requests are such reads.
    if units.fract() == 0.0 && (0.0..1e15).contains(&units) {
        return HeaderValue::from(units as u64);
    }
    HeaderValue::try_from(units.to_string()).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

/// Milliseconds with three decimals, as the service writes them.
fn milliseconds(duration: Duration) -> HeaderValue {
    // Digit by digit: the formatting machinery takes ten times as long, and every response has this header.
    let mut micros = duration.as_micros();
    let mut text = [0; 44];
    let mut at = text.len();
    while micros > 0 || text.len() - at < 5 {
        at -= 1;
        if text.len() - at == 4 {
            text[at] = b'.';
        } else {
            text[at] = b'0' + (micros % 10) as u8;
            micros /= 10;
        }
    }
    HeaderValue::from_bytes(&text[at..]).unwrap_or_else(|_| HeaderValue::from_static("0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_has_two_decimals_at_most() {
        for (units, expected) in [
            (1.0, "1"),
            (1.004, "1"),
            (2.79, "2.79"),
            (2.2849, "2.28"),
            (10.5, "10.5"),
            (1250.0, "1250"),
        ] {
            assert_eq!(request_units(units), expected);
        }
    }

    #[test]
    fn a_duration_is_milliseconds_with_three_decimals() {
        for (micros, expected) in [
            (0, "0.000"),
            (7, "0.007"),
            (512, "0.512"),
            (1_000, "1.000"),
            (61_234_567, "61234.567"),
        ] {
            assert_eq!(milliseconds(Duration::from_micros(micros)), expected);
        }
        assert!(milliseconds(Duration::MAX).len() > 20, "no duration is too long");
    }
}
