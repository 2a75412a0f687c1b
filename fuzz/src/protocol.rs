//! What holds for every parser of `sidereal-protocol`, whatever bytes it is given.
//!
//! None panics, and what one accepts it prints back to something that parses to the same value.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use sidereal_protocol::{
    AuthorizationToken, ConnectionString, EffectivePartitionKey, HttpDate, PartitionKey,
    PartitionKeyDefinition, PartitionSessionToken, PatchDocument, QueryRequest, RequestPath,
    ResourceLink, Rid, SessionToken, decode_binary_json, encode_binary_json, is_binary_json,
    parse_batch,
};

/// Session tokens: the header, and the progress of one range.
pub fn session_token(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(token) = reads_back::<SessionToken>(text) {
        assert!(token.covers(&token));
        let mut merged = token.clone();
        merged.merge(&token);
        assert_eq!(merged, token, "merging a token with itself changes nothing");
    }
    reads_back::<PartitionSessionToken>(text);
}

/// Request paths and resource links.
pub fn link(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(path) = reads_back::<RequestPath>(text) {
        assert!(path.encode().bytes().all(|byte| byte.is_ascii_graphic()));
        assert_eq!(path.encode(), path.to_string());
        let _ = path.signed_link(); // Any path can be signed.
    }
    if let Some(link) = reads_back::<ResourceLink>(text) {
        assert_eq!(RequestPath::of(link.clone()).encode().parse(), Ok(RequestPath::of(link)));
    }
}

/// Connection strings.
pub fn connection_string(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match text.parse::<ConnectionString>() {
        Ok(parsed) => {
            assert_eq!(parsed.expose_secret().parse(), Ok(parsed.clone()));
            assert!(
                !format!("{parsed:?}")
                    .contains(&format!("AccountKey={}", parsed.key().expose_secret()))
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The partition key of a header, and its place under every kind of hash.
pub fn partition_key(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let Some(key) = reads_back::<PartitionKey>(text) else { return };
    let header = key.to_header();
    assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{header} is not ASCII");
    assert_eq!(header, key.to_string());
    for definition in [
        r#"{"paths":["/a"],"kind":"Hash","version":1}"#,
        r#"{"paths":["/a"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/a"],"kind":"Range","version":1}"#,
        r#"{"paths":["/a","/b","/c"],"kind":"MultiHash","version":2}"#,
    ] {
        let definition: PartitionKeyDefinition =
            serde_json::from_str(definition).expect("a definition");
        if let Ok(range) = definition.effective_range(&key) {
            assert!(range.contains(range.min()));
            reads_back::<EffectivePartitionKey>(&range.min().to_string())
                .expect("a place prints as hexadecimal");
        }
    }
}

/// Effective partition keys: hexadecimal text of any length.
pub fn effective_partition_key(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(place) = reads_back::<EffectivePartitionKey>(text) {
        assert_eq!(place.to_string(), text.to_ascii_uppercase());
        let definition: PartitionKeyDefinition = "/a,/b".parse().expect("two paths");
        let next = place.successor(&definition);
        assert!(next > place || next == EffectivePartitionKey::MAX);
    }
}

/// Partition key definitions, as JSON and as a list of paths.
pub fn partition_key_definition(data: &[u8]) {
    if let Ok(definition) = serde_json::from_slice::<PartitionKeyDefinition>(data) {
        let json = serde_json::to_vec(&definition).expect("a definition has a JSON form");
        assert_eq!(serde_json::from_slice::<PartitionKeyDefinition>(&json).ok(), Some(definition));
    }
    let Some(text) = text(data) else { return };
    let _ = text.parse::<PartitionKeyDefinition>(); // A quoted comma does not survive the list.
}

/// RIDs: there is one text for each.
pub fn rid(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(rid) = reads_back::<Rid>(text) {
        assert_eq!(rid.to_string(), text);
        let _ = (rid.kind(), rid.database_rid(), rid.container_rid(), rid.document_order());
    }
}

/// Dates.
pub fn date(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Some(date) = reads_back::<HttpDate>(text) {
        assert_eq!(date.as_str().len(), 29);
        assert_eq!(HttpDate::new(date.time()), Ok(date));
    }
}

/// Authorization headers.
pub fn authorization(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(token) = AuthorizationToken::from_header(text) {
        let header = token.header_value().expect("an encoded token fits into a header");
        let header = header.to_str().expect("an encoded token is ASCII");
        assert_eq!(AuthorizationToken::from_header(header), Ok(token));
    }
}

/// Query requests.
pub fn query_request(data: &[u8]) {
    if let Ok(request) = QueryRequest::from_json(data) {
        let json = serde_json::to_vec(&request).expect("a request has a JSON form");
        assert_eq!(QueryRequest::from_json(&json), Ok(request));
    }
}

/// Patch documents.
pub fn patch(data: &[u8]) {
    if let Ok(patch) = PatchDocument::from_json(data) {
        let json = serde_json::to_vec(&patch).expect("a patch has a JSON form");
        let again = PatchDocument::from_json(&json).expect("a printed patch is a patch");
        assert_eq!(again.is_idempotent(), patch.is_idempotent());
        assert_eq!(again, patch);
    }
}

/// Batches.
pub fn batch(data: &[u8]) {
    if let Ok(batch) = parse_batch(data) {
        let json = serde_json::to_vec(&batch).expect("a batch has a JSON form");
        let again = parse_batch(&json).expect("a printed batch is a batch");
        assert_eq!(serde_json::to_vec(&again).ok(), Some(json));
    }
}

/// The binary form of JSON: what is read is written and read back, and so is any text.
pub fn binary_json(data: &[u8]) {
    match decode_binary_json(data) {
        Ok(value) => {
            assert!(is_binary_json(data));
            let again = encode_binary_json(&value);
            assert_eq!(decode_binary_json(&again), Ok(value));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) {
        assert!(!is_binary_json(data));
        assert_eq!(decode_binary_json(&encode_binary_json(&value)), Ok(value));
    }
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

fn reads_back<T>(text: &str) -> Option<T>
where
    T: FromStr<Err: Debug + Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(value) => {
            let printed = value.to_string();
            assert_eq!(printed.parse::<T>().ok().as_ref(), Some(&value), "printed as {printed}");
            Some(value)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}
