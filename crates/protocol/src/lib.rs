//! The Cosmos DB wire vocabulary: keys, ranges, tokens, links, statuses and headers as pure values.
//!
//! Nothing here performs I/O, reads a clock or waits. Parsing never panics, whatever the input;
//! what is refused is refused with a sentence that says what was expected. Decisions (where to
//! send a request, when to repeat it, what to answer) belong to the crates that use these words.

mod auth;
mod connection_string;
mod date;
mod error;
mod etag;
mod levels;
mod partition_key;
mod query;
mod region;
pub mod regions;
mod resource;
mod session;
mod status;
mod text;
mod throughput;
mod wire;

pub use auth::{
    AccountKey, AuthorizationError, AuthorizationToken, DATE_WINDOW, ENTRA_SCOPE, SignedRequest,
    check_date,
};
pub use connection_string::ConnectionString;
pub use date::HttpDate;
pub use error::{Error, ErrorKind, Result};
pub use etag::Etag;
pub use levels::{ConsistencyLevel, IndexingDirective, PriorityLevel, ReadConsistencyStrategy};
pub use partition_key::{
    EffectivePartitionKey, EffectivePartitionKeyRange, MAX_HIERARCHY_LEVELS, PartitionKey,
    PartitionKeyDefinition, PartitionKeyKind, PartitionKeyNumber, PartitionKeyPath,
    PartitionKeyRangeId, PartitionKeyValue, PartitionKeyVersion,
};
pub use query::{
    AggregateType, DistinctCountInfo, DistinctType, HybridSearchQueryInfo, PLAN_VERSION,
    PartitionedQueryExecutionInfo, QueryInfo, QueryParameter, QueryRange, QueryRangeBound,
    QueryRequest, ResumeFilter, SortOrder,
};
pub use region::RegionName;
pub use resource::{
    Addressing, MAX_ITEM_ID_BYTES, MAX_NAME_CHARS, OperationType, Repeatability, RequestPath,
    ResourceLink, ResourceType, Rid, check_id,
};
pub use session::{PartitionSessionToken, SessionToken, VectorSessionToken};
pub use status::CosmosStatus;
pub use throughput::ThroughputProperties;
