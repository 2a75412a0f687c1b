//! The properties that the service adds to every item.

use serde_json::Value;

/// Properties of an item that the service adds.
const SYSTEM_PROPERTIES: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];

pub(crate) fn is_system_property(name: &str) -> bool {
    SYSTEM_PROPERTIES.contains(&name)
}

/// An item as it was written; other values stay as they are. Only the item's own properties are the service's, not
/// those of the same names deeper within it.
pub(crate) fn without_system_properties(mut item: Value) -> Value {
    if let Value::Object(properties) = &mut item {
        properties.retain(|name, _| !is_system_property(name));
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_service_added_is_left_out_at_the_top_alone() {
        let item = json!({"id": "1", "_rid": "r", "_ts": 1, "_mine": 2, "deep": {"_ts": 3}});
        assert_eq!(
            without_system_properties(item),
            json!({"id": "1", "_mine": 2, "deep": {"_ts": 3}})
        );
        assert_eq!(without_system_properties(json!([1])), json!([1]));
    }
}
