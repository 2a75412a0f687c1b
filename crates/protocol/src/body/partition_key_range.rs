//! Partition ranges, as the service lists them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::system::SystemProperties;
use crate::partition_key::{EffectivePartitionKey, PartitionKeyRangeId};
use crate::wire::{null_as_default, readable_or_default, wire_enum};

/// One partition range of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionKeyRange {
    /// The id.
    pub id: PartitionKeyRangeId,
    /// The inclusive lower bound of its effective partition keys.
    pub min_inclusive: EffectivePartitionKey,
    /// The exclusive upper bound of its effective partition keys.
    pub max_exclusive: EffectivePartitionKey,
    /// Whether it serves requests. A state that is not known here is read as online: the service routes to it.
    #[serde(default, deserialize_with = "readable_or_default")]
    pub status: PartitionKeyRangeStatus,
    /// Its share of the container's throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_fraction: Option<f64>,
    /// Every range it descends from, the oldest first.
    #[serde(default, deserialize_with = "null_as_default")]
    pub parents: Vec<PartitionKeyRangeId>,
    /// The prefix of its documents' RIDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rid_prefix: Option<i64>,
    /// The sequence number of the last change to this entry.
    #[serde(rename = "_lsn", alias = "lsn", default, skip_serializing_if = "Option::is_none")]
    pub lsn: Option<i64>,
    /// System properties, which the service adds.
    #[serde(flatten)]
    pub system: SystemProperties,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl PartitionKeyRange {
    /// A range that serves requests and descends from none.
    pub fn new(
        id: PartitionKeyRangeId,
        min_inclusive: EffectivePartitionKey,
        max_exclusive: EffectivePartitionKey,
    ) -> Self {
        Self {
            id,
            min_inclusive,
            max_exclusive,
            status: PartitionKeyRangeStatus::Online,
            throughput_fraction: None,
            parents: Vec::new(),
            rid_prefix: None,
            lsn: None,
            system: SystemProperties::default(),
            other: Map::new(),
        }
    }
}

wire_enum! {
    /// The state of a partition range.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum PartitionKeyRangeStatus: "status of a partition range" {
        /// Serves requests.
        #[default]
        Online = "online",
        /// Is being split.
        Splitting = "splitting",
        /// Serves no requests.
        Offline = "offline",
        /// Has been split.
        Split = "split",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_range_round_trips() {
        let json = json!({
            "id": "1", "minInclusive": "05C1DFFFFFFFFC", "maxExclusive": "FF", "status": "online",
            "throughputFraction": 0.5, "parents": ["0"], "ridPrefix": 1, "_lsn": 12,
                "_rid": "qYcAAPEvJBQCAAAAAAAAUA==",
            "_self": "dbs/qYcAAA==/colls/qYcAAPEvJBQ=/pkranges/qYcAAPEvJBQCAAAAAAAAUA==/",
                "_etag": "\"1\"", "_ts": 7, "newer": [],
        });
        let range: PartitionKeyRange = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(range).unwrap(), json);
    }

    /// One new state made the ranges of a container unreadable, and with them every operation on it failed.
    #[test]
    fn a_range_in_an_unknown_state_is_read() {
        let text = r#"{"id":"0","minInclusive":"","maxExclusive":"FF","status":"resting"}"#;
        let range: PartitionKeyRange = serde_json::from_str(text).unwrap();
        assert_eq!(range.status, PartitionKeyRangeStatus::Online);
    }

    #[test]
    fn a_range_may_state_its_boundaries_alone() {
        let range: PartitionKeyRange =
            serde_json::from_str(r#"{"id":"0","minInclusive":"","maxExclusive":"FF"}"#).unwrap();
        let expected = PartitionKeyRange::new(
            PartitionKeyRangeId::from(0),
            EffectivePartitionKey::MIN,
            EffectivePartitionKey::MAX,
        );
        assert_eq!(range, expected);
    }
}
