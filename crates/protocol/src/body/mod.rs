//! The JSON bodies of requests and responses.
//!
//! Each keeps the fields nobody here knows, because a resource that is read, changed and replaced
//! must not lose what a newer service put into it. What is optional on the wire is optional here.

mod account;
mod batch;
mod change_feed;
mod container;
mod database;
mod error_body;
mod feed;
mod indexing;
mod offer;
mod partition_key_range;
mod patch;
mod policies;
mod system;

pub use account::{
    AccountConsistency, AccountLocation, AccountProperties, ReadPolicy, ReplicationPolicy,
};
pub use batch::{
    BatchOperation, BatchOperationType, BatchResult, MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS,
    parse_batch,
};
pub use change_feed::{ChangeFeedItem, ChangeFeedMetadata, ChangeFeedOperation};
pub use container::{ContainerProperties, TimeToLive};
pub use database::DatabaseProperties;
pub use error_body::ErrorBody;
pub use feed::Feed;
pub use indexing::{
    CompositeOrder, CompositePath, IndexingMode, IndexingPath, IndexingPolicy, SpatialIndex,
    VectorIndex,
};
pub use offer::{AutoUpgradePolicy, AutopilotSettings, Offer, OfferContent, ThroughputPolicy};
pub use partition_key_range::{PartitionKeyRange, PartitionKeyRangeStatus};
pub use patch::{MAX_PATCH_OPERATIONS, PatchDocument, PatchOperation};
pub use policies::{
    ChangeFeedPolicy, ConflictResolutionMode, ConflictResolutionPolicy, FullTextPath,
    FullTextPolicy, UniqueKey, UniqueKeyPolicy, VectorEmbedding, VectorEmbeddingPolicy,
};
pub use system::SystemProperties;
