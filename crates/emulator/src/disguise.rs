//! The latitudes of [`grease`](crate::grease) that are about finished responses: headers that are left out or
//! unknown, fields that are unknown or spelled otherwise. Items and rows stay as they are.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use serde_json::value::RawValue;
use sidereal_protocol::headers::names as headers;

use crate::grease::{Draw, Latitude};
use crate::operation::Operation;
use crate::outcome::LastOfConnection;

/// Headers that say of whose resource a response is.
const OWNER_HEADERS: [HeaderName; 2] = [headers::OWNER_ID, headers::OWNER_FULL_NAME];

/// Headers that a response may lack; each is left out by itself.
const OPTIONAL_HEADERS: [HeaderName; 8] = [
    headers::ITEM_COUNT,
    headers::LSN,
    headers::ITEM_LSN,
    headers::GLOBAL_COMMITTED_LSN,
    headers::GATEWAY_VERSION,
    headers::SERVICE_VERSION,
    headers::REQUEST_DURATION_MS,
    header::CONTENT_LOCATION,
];

/// A header that no client knows.
const UNKNOWN_HEADER: HeaderName = HeaderName::from_static("x-ms-cosmos-greased");
/// Errors that a client understands without a sub-status.
const COMPLETE_STATUSES: [StatusCode; 3] =
    [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::PRECONDITION_FAILED];
/// A sub-status that no client knows.
const UNKNOWN_SUB_STATUS: HeaderValue = HeaderValue::from_static("29999");
/// A field that no client knows, at the beginning of a JSON object.
const UNKNOWN_FIELD: &[u8] = br#""greased":{"values":[1,null,"x"]},"#;

/// Changes the response to a request within what its draw allows.
pub(crate) fn disguise(draw: &Draw, operation: Operation, response: &mut Response<Bytes>) {
    let is_throttled = response.status().as_u16() == 429;
    disguise_headers(draw, is_throttled, response.headers_mut());
    if COMPLETE_STATUSES.contains(&response.status()) && draw.takes(Latitude::UnknownSubStatuses) {
        response.headers_mut().entry(headers::SUB_STATUS).or_insert(UNKNOWN_SUB_STATUS);
    }
    if draw.takes(Latitude::ClosedConnections) {
        response.extensions_mut().insert(LastOfConnection);
    }
    let is_batch = operation == Operation::Batch && response.status().is_success();
    let body = response.body();
    let changed = match () {
        () if is_batch => disguised_results(draw, body),
        // An item's own fields are the caller's; those of the envelopes around items are the service's.
        () if is_envelope(operation) || !response.status().is_success() => {
            disguised_envelope(draw, body)
        }
        () => None,
    };
    if let Some(changed) = changed {
        *response.body_mut() = changed;
    }
}

fn disguise_headers(draw: &Draw, is_throttled: bool, headers: &mut HeaderMap) {
    if draw.takes(Latitude::OwnerHeaders) {
        for name in &OWNER_HEADERS {
            headers.remove(name);
        }
    }
    if draw.takes(Latitude::OptionalHeaders) {
        for (choice, name) in (0..).zip(&OPTIONAL_HEADERS) {
            if draw.below(Latitude::OptionalHeaders, choice, 2) == 0 {
                headers.remove(name);
            }
        }
    }
    if draw.takes(Latitude::UnknownHeaders) {
        headers.insert(UNKNOWN_HEADER, HeaderValue::from_static("1"));
    }
    if is_throttled && draw.takes(Latitude::RetryAfter) {
        headers.remove(headers::RETRY_AFTER_MS);
        if draw.below(Latitude::RetryAfter, 0, 2) == 0 {
            headers.insert(headers::RETRY_AFTER_MS, HeaderValue::from_static("0"));
        }
    }
}

/// Whether the body of a success is an object of the service's own.
fn is_envelope(operation: Operation) -> bool {
    match operation {
        Operation::Query | Operation::QueryPlan | Operation::ReadFeed | Operation::ChangeFeed => {
            true
        }
        Operation::Create
        | Operation::Read
        | Operation::Replace
        | Operation::Upsert
        | Operation::Patch
        | Operation::Delete
        | Operation::Batch
        | Operation::Other => false,
    }
}

/// A feed, a plan or an error with an unknown field, its count as a fraction.
fn disguised_envelope(draw: &Draw, body: &[u8]) -> Option<Bytes> {
    let mut changed = body.to_vec();
    // Binary JSON has no brace at its beginning and stays as it is.
    if !body.starts_with(b"{\"") {
        return None;
    }
    if draw.takes(Latitude::FractionalNumbers) {
        write_count_as_fraction(&mut changed);
    }
    if draw.takes(Latitude::UnknownFields) {
        changed.splice(1..1, UNKNOWN_FIELD.iter().copied());
    }
    Some(changed.into())
}

/// Writes the count at the end of a feed, `"_count":3}`, as `"_count":3.0}`.
fn write_count_as_fraction(body: &mut Vec<u8>) {
    let before = body.strip_suffix(b"}").unwrap_or_default();
    let digits = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 && before[..before.len() - digits].ends_with(b"\"_count\":") {
        let end = before.len();
        body.splice(end..end, *b".0");
    }
}

/// The results of a batch, in other spellings.
fn disguised_results(draw: &Draw, body: &[u8]) -> Option<Bytes> {
    let mut results: Vec<BTreeMap<String, Box<RawValue>>> = serde_json::from_slice(body).ok()?;
    let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
    let (spells, fractions, unknown) = (
        draw.takes(Latitude::BatchSpelling),
        draw.takes(Latitude::FractionalNumbers),
        draw.takes(Latitude::UnknownFields),
    );
    for (choice, result) in (0..).zip(&mut results) {
        if spells {
            let sub_status = result.remove("subStatusCode").or_else(|| raw("0"))?;
            let name = ["subStatusCode", "substatusCode"]
                [draw.below(Latitude::BatchSpelling, choice, 2) as usize];
            result.insert(name.to_owned(), sub_status);
        }
        if fractions {
            for name in ["subStatusCode", "substatusCode", "retryAfterMilliseconds"] {
                let Some(number) = result.get(name).map(|number| number.get().to_owned()) else {
                    continue;
                };
                result.insert(name.to_owned(), raw(&format!("{number}.0"))?);
            }
        }
        if unknown {
            result.insert("greased".to_owned(), raw("{\"values\":[1,null]}")?);
        }
    }
    serde_json::to_vec(&results).ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::grease::Grease;

    /// The responses that a seed makes of one, by the number of the request.
    fn disguised(
        latitude: Latitude,
        operation: Operation,
        response: &Response<Bytes>,
    ) -> Vec<Response<Bytes>> {
        let grease = Arc::new(Grease::new(7).only([latitude]));
        let of = |number| {
            let mut response = response.clone();
            disguise(&Draw::new(&grease, number), operation, &mut response);
            response
        };
        (0..100).map(of).collect()
    }

    fn response(status: StatusCode, body: &Value) -> Response<Bytes> {
        let response = Response::builder().status(status).header(headers::RETRY_AFTER_MS, 5);
        let response = response.header(headers::OWNER_ID, "x").header(headers::LSN, 7);
        response.body(Bytes::from(body.to_string())).unwrap()
    }

    #[test]
    fn an_item_is_never_changed() {
        let item = response(StatusCode::OK, &json!({"id": "1", "_count": 3}));
        for latitude in Latitude::ALL {
            for changed in disguised(*latitude, Operation::Read, &item) {
                assert_eq!(changed.body(), item.body(), "{latitude}");
            }
        }
    }

    #[test]
    fn a_feed_keeps_its_rows_and_its_count() {
        let body = json!({"_rid": "r", "Documents": [{"n": 1}], "_count": 1});
        let feed = response(StatusCode::OK, &body);
        for latitude in [Latitude::UnknownFields, Latitude::FractionalNumbers] {
            let changed = disguised(latitude, Operation::Query, &feed);
            assert!(changed.iter().any(|it| it.body() != feed.body()), "{latitude}");
            for changed in changed {
                let value: Value = serde_json::from_slice(changed.body()).unwrap();
                assert_eq!(value["Documents"], body["Documents"]);
                assert_eq!(value["_count"].as_f64(), Some(1.0));
            }
        }
    }

    #[test]
    fn the_results_of_a_batch_keep_their_meaning_under_both_spellings() {
        let batch = json!([{"statusCode": 412, "subStatusCode": 1110, "resourceBody": {"n": 1}}, {"statusCode": 200}]);
        let batch = response(StatusCode::MULTI_STATUS, &batch);
        let mut spellings = [0, 0];
        for changed in disguised(Latitude::BatchSpelling, Operation::Batch, &batch) {
            let results: Value = serde_json::from_slice(changed.body()).unwrap();
            let found = ["subStatusCode", "substatusCode"].map(|name| results[0][name].as_u64());
            assert_eq!(found.iter().flatten().collect::<Vec<_>>(), [&1110]);
            spellings[usize::from(found[1].is_some())] += 1;
            assert_eq!(results[0]["resourceBody"], json!({"n": 1}));
        }
        assert!(spellings.iter().all(|count| *count > 0), "{spellings:?}");
    }

    #[test]
    fn headers_are_left_out_and_added() {
        let throttled = response(StatusCode::TOO_MANY_REQUESTS, &json!({"code": "429"}));
        let seen = |latitude, header: &HeaderName| -> Vec<Option<String>> {
            let changed = disguised(latitude, Operation::Read, &throttled);
            let value =
                |it: &Response<Bytes>| Some(it.headers().get(header)?.to_str().unwrap().to_owned());
            let mut values: Vec<_> = changed.iter().map(value).collect();
            values.sort();
            values.dedup();
            values
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(seen(Latitude::OwnerHeaders, &headers::OWNER_ID), [None, some("x")]);
        assert_eq!(seen(Latitude::OptionalHeaders, &headers::LSN), [None, some("7")]);
        assert_eq!(seen(Latitude::UnknownHeaders, &UNKNOWN_HEADER), [None, some("1")]);
        let waits = seen(Latitude::RetryAfter, &headers::RETRY_AFTER_MS);
        assert_eq!(waits, [None, some("0"), some("5")]);
    }
}
