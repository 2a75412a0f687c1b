//! The smaller policies of a container: uniqueness, conflicts, vectors, text, change feed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::wire::wire_enum;

/// Which values must be unique within a partition key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UniqueKeyPolicy {
    /// The keys.
    pub unique_keys: Vec<UniqueKey>,
}

/// One combination of values that must be unique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct UniqueKey {
    /// The paths of the values.
    pub paths: Vec<String>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Which of two concurrent writes in different regions wins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictResolutionPolicy {
    /// Who decides.
    pub mode: ConflictResolutionMode,
    /// The number that decides when the last writer wins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution_path: Option<String>,
    /// The stored procedure that decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution_procedure: Option<String>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

wire_enum! {
    /// Who decides between concurrent writes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ConflictResolutionMode: "conflict resolution mode" {
        /// The greater number at a path.
        LastWriterWins = "LastWriterWins",
        /// A stored procedure, or an application that reads the feed of conflicts.
        Custom = "Custom",
    }
}

/// Where vectors are found in items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VectorEmbeddingPolicy {
    /// The vectors.
    pub vector_embeddings: Vec<VectorEmbedding>,
}

/// One vector of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VectorEmbedding {
    /// The path.
    pub path: String,
    /// The type of a component, such as `float32`.
    pub data_type: String,
    /// The number of components.
    pub dimensions: u32,
    /// How near two vectors are: `cosine`, `dotproduct` or `euclidean`.
    pub distance_function: String,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Where text to be searched is found in items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FullTextPolicy {
    /// The language of paths that do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_language: Option<String>,
    /// The paths.
    pub full_text_paths: Vec<FullTextPath>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One text of an item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FullTextPath {
    /// The path.
    pub path: String,
    /// The language, such as `en-US`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// How long every version of an item can be read from the change feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeFeedPolicy {
    /// In minutes; 0 for only the latest version of each item.
    pub retention_duration: u32,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}
