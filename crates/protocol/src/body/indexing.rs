//! Indexing policies: the paths of a container that are indexed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::{null_as_default, wire_enum};

/// The indexing policy of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IndexingPolicy {
    /// Whether items are indexed unless a request says otherwise.
    pub automatic: bool,
    /// Whether there is an index at all.
    pub indexing_mode: IndexingMode,
    /// Paths that are indexed.
    #[serde(deserialize_with = "null_as_default")]
    pub included_paths: Vec<IndexingPath>,
    /// Paths that are not.
    #[serde(deserialize_with = "null_as_default")]
    pub excluded_paths: Vec<IndexingPath>,
    /// Paths that hold shapes.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub spatial_indexes: Vec<SpatialIndex>,
    /// Combinations of paths a query can sort by.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub composite_indexes: Vec<Vec<CompositePath>>,
    /// Paths that hold vectors.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub vector_indexes: Vec<VectorIndex>,
    /// Paths that hold text to be searched.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub full_text_indexes: Vec<IndexingPath>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Everything indexed but the etag: what the service gives a container that states no policy.
impl Default for IndexingPolicy {
    fn default() -> Self {
        Self {
            automatic: true,
            indexing_mode: IndexingMode::Consistent,
            included_paths: vec![IndexingPath::new("/*")],
            excluded_paths: vec![IndexingPath::new("/\"_etag\"/?")],
            spatial_indexes: Vec::new(),
            composite_indexes: Vec::new(),
            vector_indexes: Vec::new(),
            full_text_indexes: Vec::new(),
            other: Map::new(),
        }
    }
}

wire_enum! {
    /// Whether and when items are indexed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum IndexingMode: "indexing mode" {
        /// With every write.
        Consistent = "consistent",
        /// Some time after the write; containers of early days.
        Lazy = "lazy",
        /// Not at all.
        None = "none",
    }
}

/// A path that is indexed, or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexingPath {
    /// The path, ending in `/?` or `/*`.
    pub path: String,
    /// Kinds of index, in policies of early days.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl IndexingPath {
    /// A path without further settings.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), other: Map::new() }
    }
}

/// A path that holds shapes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpatialIndex {
    /// The path.
    pub path: String,
    /// The shapes, such as `Point`.
    #[serde(default)]
    pub types: Vec<String>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One path of a composite index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompositePath {
    /// The path, without an ending.
    pub path: String,
    /// The direction; ascending if the policy does not say.
    #[serde(default)]
    pub order: CompositeOrder,
}

wire_enum! {
    /// The direction of one path of a composite index.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum CompositeOrder: "order of a composite index" {
        /// Least first.
        #[default]
        Ascending = "ascending",
        /// Greatest first.
        Descending = "descending",
    }
}

/// A path that holds vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorIndex {
    /// The path.
    pub path: String,
    /// `flat`, `quantizedFlat` or `diskANN`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Quantizer, list size, shard key: settings of the kind.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_round_trips_with_every_kind_of_index() {
        let json = json!({
            "automatic": false, "indexingMode": "none", "includedPaths": [],
                "excludedPaths": [{"path": "/*"}],
            "spatialIndexes": [{"path": "/where/?", "types": ["Point", "Polygon"]}],
            "compositeIndexes": [[{"path": "/a", "order": "ascending"}, {"path": "/b",
                "order": "descending"}]],
            "vectorIndexes": [{"path": "/v", "type": "diskANN", "quantizationByteSize": 96,
                "vectorIndexShardKey": ["/t"]}],
            "fullTextIndexes": [{"path": "/text"}],
            "newer": 1,
        });
        let policy: IndexingPolicy = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(policy.composite_indexes[0][1].order, CompositeOrder::Descending);
        assert_eq!(serde_json::to_value(policy).unwrap(), json);
    }

    #[test]
    fn paths_of_early_days_keep_their_kinds_of_index() {
        let json = json!({"path": "/a/?", "indexes": [{"kind": "Range", "dataType": "Number",
            "precision": -1}]});
        let path: IndexingPath = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(path).unwrap(), json);
    }

    #[test]
    fn a_policy_that_says_little_is_the_default_in_the_rest() {
        let policy: IndexingPolicy =
            serde_json::from_str(r#"{"indexingMode":"Consistent"}"#).unwrap();
        assert_eq!(policy, IndexingPolicy::default());
    }
}
