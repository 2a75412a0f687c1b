//! Containers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::indexing::IndexingPolicy;
use super::policies::{
    ChangeFeedPolicy, ConflictResolutionPolicy, FullTextPolicy, UniqueKeyPolicy,
    VectorEmbeddingPolicy,
};
use super::system::SystemProperties;
use crate::partition_key::PartitionKeyDefinition;

/// A container, as it is created, read and replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerProperties {
    /// The name.
    pub id: String,
    /// The partition key definition.
    pub partition_key: PartitionKeyDefinition,
    /// The indexing policy; the service fills in a default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexing_policy: Option<IndexingPolicy>,
    /// Which values must be unique within a partition key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key_policy: Option<UniqueKeyPolicy>,
    /// Which of two concurrent writes in different regions wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution_policy: Option<ConflictResolutionPolicy>,
    /// Where vectors are found in items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_embedding_policy: Option<VectorEmbeddingPolicy>,
    /// Where text to be searched is found in items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_text_policy: Option<FullTextPolicy>,
    /// How long every version of an item can be read from the change feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_feed_policy: Option<ChangeFeedPolicy>,
    /// When items expire; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<TimeToLive>,
    /// When items expire from the analytical store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analytical_storage_ttl: Option<TimeToLive>,
    /// System properties, which the service adds.
    #[serde(flatten)]
    pub system: SystemProperties,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ContainerProperties {
    /// A container to be created.
    pub fn new(id: impl Into<String>, partition_key: PartitionKeyDefinition) -> Self {
        Self {
            id: id.into(),
            partition_key,
            indexing_policy: None,
            unique_key_policy: None,
            conflict_resolution_policy: None,
            vector_embedding_policy: None,
            full_text_policy: None,
            change_feed_policy: None,
            default_ttl: None,
            analytical_storage_ttl: None,
            system: SystemProperties::default(),
            other: Map::new(),
        }
    }
}

/// When items of a container expire, unless they say so themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeToLive {
    /// Only items that carry a time of their own; `-1` on the wire.
    PerItem,
    /// So many seconds after the last write; at least one.
    Seconds(u32),
}

impl Serialize for TimeToLive {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::PerItem => serializer.serialize_i64(-1),
            Self::Seconds(seconds) => serializer.serialize_u32(*seconds),
        }
    }
}

impl<'de> Deserialize<'de> for TimeToLive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            -1 => Ok(Self::PerItem),
            seconds => match u32::try_from(seconds) {
                Ok(seconds) if seconds > 0 => Ok(Self::Seconds(seconds)),
                _ => Err(serde::de::Error::custom(
                    "a time to live is -1 or a number of seconds greater than 0",
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_round_trips_with_every_policy() {
        let json = json!({
            "id": "orders",
            "partitionKey": {"paths": ["/tenant", "/user"], "kind": "MultiHash", "version": 2},
            "indexingPolicy": {"automatic": true, "indexingMode": "consistent",
                "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/\"_etag\"/?"}]},
            "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/email"]}]},
            "conflictResolutionPolicy": {"mode": "LastWriterWins",
                "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": ""},
            "vectorEmbeddingPolicy": {"vectorEmbeddings": [{"path": "/v", "dataType": "float32",
                "dimensions": 8, "distanceFunction": "cosine"}]},
            "fullTextPolicy": {"defaultLanguage": "en-US", "fullTextPaths": [{"path": "/text",
                "language": "en-US"}]},
            "changeFeedPolicy": {"retentionDuration": 60},
            "defaultTtl": -1,
            "analyticalStorageTtl": 3600,
            "_rid": "qYcAAPEvJBQ=", "_self": "dbs/qYcAAA==/colls/qYcAAPEvJBQ=/", "_etag": "\"1\"", "_ts": 7,
            "_docs": "docs/", "geospatialConfig": {"type": "Geography"},
        });
        let container: ContainerProperties = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(container.default_ttl, Some(TimeToLive::PerItem));
        assert_eq!(container.analytical_storage_ttl, Some(TimeToLive::Seconds(3600)));
        assert_eq!(container.other["_docs"], "docs/");
        assert_eq!(serde_json::to_value(container).unwrap(), json);
    }

    #[test]
    fn a_new_container_sends_only_what_was_said() {
        let container = ContainerProperties::new("c", "/pk".parse().unwrap());
        let expected =
            json!({"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}});
        assert_eq!(serde_json::to_value(container).unwrap(), expected);
    }

    #[test]
    fn a_time_to_live_of_nothing_is_refused() {
        for bad in ["0", "-2", "\"1\"", "4294967296"] {
            assert!(serde_json::from_str::<TimeToLive>(bad).is_err(), "{bad}");
        }
    }
}
