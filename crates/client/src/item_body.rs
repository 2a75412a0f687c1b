//! Items as they are sent, and what can be known of them before.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sidereal_protocol::{ResourceType, check_id};

use crate::{Error, ErrorKind, Result};

/// The largest item that the service takes.
// A documented limit of the service.
pub(crate) const MAX_ITEM_BYTES: usize = 2 * 1024 * 1024;

/// A value as JSON.
pub(crate) fn encode(value: &impl Serialize) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| {
        Error::caused_by(ErrorKind::InvalidRequest, "the value cannot be written as JSON", error)
    })
}

/// An item as JSON: an object with an id that an item can have, of a size that the service takes.
pub(crate) fn encode_item(item: &impl Serialize) -> Result<Bytes> {
    let body = encode(item)?;
    check(&body)?;
    Ok(body)
}

/// An item as JSON, and its id.
pub(crate) fn encode_named_item(item: &impl Serialize) -> Result<(Bytes, String)> {
    let body = encode(item)?;
    let id = check(&body)?.into_owned();
    Ok((body, id))
}

/// The property that every item has: its id.
#[derive(Deserialize)]
struct Identified<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

fn check(body: &[u8]) -> Result<Cow<'_, str>> {
    if body.len() > MAX_ITEM_BYTES {
        return Err(Error::invalid(format!(
            "the item is {} bytes long: the service takes at most {MAX_ITEM_BYTES}; \
             split it, or keep its large parts elsewhere",
            body.len()
        )));
    }
    let refused = || {
        Error::invalid("the item is no object with a text `id`: the service takes no other items")
    };
    // A derived `Deserialize` would take an array for the members in their order.
    if body.first() != Some(&b'{') {
        return Err(refused());
    }
    let identified: Identified<'_> = serde_json::from_slice(body).map_err(|_| refused())?;
    match identified.id {
        // The service would take a slash, and the item could then never be addressed.
        Some(id) => {
            check_id(ResourceType::Document, &id)?;
            Ok(id)
        }
        None => Err(Error::invalid("the item has no id: give it a property `id` of text")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_needs_an_id_that_an_item_can_have() {
        assert!(encode_item(&json!({"id": "1", "more": [1, {"id": 2}]})).is_ok());
        assert!(encode_item(&json!({"id": "with \"quotes\""})).is_ok());
        for (item, expected) in [
            (json!({"id": "a/b"}), "/"),
            (json!({"id": ""}), "id"),
            (json!({"name": "x"}), "has no id"),
            (json!({"id": 1}), "no object with a text `id`"),
            (json!(["1"]), "no object with a text `id`"),
        ] {
            let error = encode_item(&item).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn an_item_beyond_the_service_s_limit_is_refused_with_its_size() {
        let item = json!({"id": "1", "text": "x".repeat(MAX_ITEM_BYTES)});
        let error = encode_item(&item).unwrap_err();
        assert!(error.to_string().contains("2097"), "{error}");
    }
}
