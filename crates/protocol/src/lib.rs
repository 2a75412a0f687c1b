//! The Cosmos DB wire vocabulary: keys, ranges, tokens, links, statuses and headers as pure values.
//!
//! Nothing here performs I/O, reads a clock or waits. Parsing never panics, whatever the input;
//! what is refused is refused with a sentence that says what was expected. Decisions (where to
//! send a request, when to retry it, how to respond) belong to the crates that use these words.
//!
//! ```
//! use sidereal_protocol::{PartitionKey, PartitionKeyDefinition, PartitionKeyRange, RoutingMap};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A container of orders, by tenant and user, in four partition ranges.
//! let definition = PartitionKeyDefinition::new(["/tenant", "/user"])?;
//! let ranges = definition.even_ranges(4).into_iter().zip(0u32..).map(|(range, id)| {
//!     PartitionKeyRange::new(id.into(), range.min().clone(), range.max().clone())
//! });
//! let map = RoutingMap::build(ranges)?;
//!
//! // One user's orders are in one range; the header says which key is meant.
//! let key = PartitionKey::from(("contoso", 42));
//! let effective = definition.effective_key(&key)?;
//! assert!(map.at(&effective).range().contains(&effective));
//! assert_eq!(key.to_header(), r#"["contoso",42]"#);
//! # Ok(())
//! # }
//! ```
//!
//! | to learn about | start at |
//! |---|---|
//! | partition keys, their hashing and routing | [`PartitionKeyDefinition`], [`RoutingMap`] |
//! | what a request is about | [`RequestPath`], [`ResourceType`], [`OperationType`] |
//! | what a response means | [`CosmosStatus`], [`headers::ResponseHeaders`] |
//! | who may ask | [`AccountKey`], [`AuthorizationToken`], [`ConnectionString`], [`Secret`] |
//! | session consistency | [`SessionToken`] |
//! | bodies | [`AccountProperties`], [`ContainerProperties`], [`Feed`], [`QueryRequest`], [`PatchDocument`] |

mod auth;
mod binary_json;
mod body;
mod connection_string;
mod date;
mod error;
mod etag;
pub mod headers;
mod levels;
mod partition_key;
mod query;
mod region;
pub mod regions;
mod resource;
mod routing_map;
mod secret;
mod session;
mod status;
mod text;
mod throughput;
mod wire;

pub use auth::{
    AccountKey, AuthorizationError, AuthorizationToken, DATE_WINDOW, ENTRA_SCOPE, SignedRequest,
    check_date,
};
pub use binary_json::{decode_binary_json, encode_binary_json, is_binary_json};
pub use body::{
    AccountConsistency, AccountLocation, AccountProperties, AutoUpgradePolicy, AutopilotSettings,
    BatchOperation, BatchOperationType, BatchResult, ChangeFeedItem, ChangeFeedMetadata,
    ChangeFeedOperation, ChangeFeedPolicy, CompositeOrder, CompositePath, ConflictResolutionMode,
    ConflictResolutionPolicy, ContainerProperties, DatabaseProperties, ErrorBody, Feed,
    FullTextPath, FullTextPolicy, IndexingMode, IndexingPath, IndexingPolicy, MAX_BATCH_BYTES,
    MAX_BATCH_OPERATIONS, MAX_PATCH_OPERATIONS, Offer, OfferContent, PartitionKeyRange,
    PartitionKeyRangeStatus, PatchDocument, PatchOperation, ReadPolicy, ReplicationPolicy,
    SpatialIndex, SystemProperties, ThroughputPolicy, TimeToLive, UniqueKey, UniqueKeyPolicy,
    VectorEmbedding, VectorEmbeddingPolicy, VectorIndex, parse_batch,
};
pub use connection_string::ConnectionString;
pub use date::HttpDate;
pub use error::{Error, ErrorKind, Result};
pub use etag::Etag;
pub use levels::{ConsistencyLevel, IndexingDirective, PriorityLevel, ReadConsistencyStrategy};
pub use partition_key::{
    EffectivePartitionKey, EffectivePartitionKeyRange, MAX_HIERARCHY_LEVELS, PartitionKey,
    PartitionKeyDefinition, PartitionKeyKind, PartitionKeyNumber, PartitionKeyPath,
    PartitionKeyRangeId, PartitionKeyValue, PartitionKeyVersion, murmur3_32,
};
pub use query::{
    AggregateType, DistinctCountInfo, DistinctType, HybridSearchQueryInfo, PLAN_VERSION,
    PartitionedQueryExecutionInfo, QueryInfo, QueryParameter, QueryRange, QueryRangeBound,
    QueryRequest, ResumeFilter, SortOrder,
};
pub use region::RegionName;
pub use resource::{
    Addressing, Idempotency, MAX_ITEM_ID_BYTES, MAX_NAME_CHARS, OperationType, RequestPath,
    ResourceLink, ResourceType, Rid, check_id, check_item_id,
};
pub use routing_map::{RoutedRange, RoutingMap, RoutingMapError};
pub use secret::Secret;
pub use session::{PartitionSessionToken, SessionToken, VectorSessionToken};
pub use status::CosmosStatus;
pub use throughput::ThroughputProperties;
