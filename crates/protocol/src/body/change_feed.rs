//! The envelopes of a change feed that tells what happened to each item.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::wire_enum;

/// One change: the item after it, before it, and what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ChangeFeedItem<T = Value> {
    /// The item after the change; absent or empty for a deletion.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub current: Option<T>,
    /// The item before the change, where the service keeps it.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub previous: Option<T>,
    /// Metadata of the change; a feed of latest versions may have little.
    #[serde(default)]
    pub metadata: ChangeFeedMetadata,
}

/// Metadata of a change of an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeFeedMetadata {
    /// Created, replaced or deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_type: Option<ChangeFeedOperation>,
    /// The sequence number of the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsn: Option<i64>,
    /// When the change was made, in seconds since 1970.
    #[serde(rename = "crts", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// The sequence number of the version before.
    #[serde(rename = "previousImageLSN", skip_serializing_if = "Option::is_none")]
    pub previous_image_lsn: Option<i64>,
    /// Whether a deletion was an expiry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_live_expired: Option<bool>,
    /// The id of a deleted item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The partition key of a deleted item: values by property name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<Value>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

wire_enum! {
    /// The type of a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChangeFeedOperation: "change" {
        /// The item is new.
        Create = "create",
        /// The item has a new version.
        Replace = "replace",
        /// The item is gone.
        Delete = "delete",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_envelope_round_trips() {
        let json = json!({
            "current": {"id": "1"}, "previous": {"id": "1", "v": 0},
            "metadata": {"operationType": "replace", "lsn": 12, "crts": 1_700_000_000,
                "previousImageLSN": 9, "timeToLiveExpired": false, "newer": 1},
        });
        let change: ChangeFeedItem = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(change.metadata.operation_type, Some(ChangeFeedOperation::Replace));
        assert_eq!(serde_json::to_value(change).unwrap(), json);
    }

    #[test]
    fn a_deletion_has_no_current_item() {
        let change: ChangeFeedItem = serde_json::from_value(json!({
            "metadata": {"operationType": "delete", "lsn": 3, "id": "1",
                "partitionKey": {"pk": "a"}, "timeToLiveExpired": true},
        }))
        .unwrap();
        assert_eq!(change.current, None);
        assert_eq!(change.metadata.time_to_live_expired, Some(true));
    }

    #[test]
    fn metadata_may_be_partial_or_missing() {
        let change: ChangeFeedItem =
            serde_json::from_value(json!({"current": {"id": "1"}})).unwrap();
        assert_eq!(change.metadata, ChangeFeedMetadata::default());
    }
}
