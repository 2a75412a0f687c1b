//! The Cosmos DB wire vocabulary: keys, ranges, tokens, links, statuses and headers as pure values.
//!
//! Nothing here performs I/O, reads a clock or waits. Parsing never panics, whatever the input;
//! what is refused is refused with a sentence that says what was expected. Decisions (where to
//! send a request, when to repeat it, what to answer) belong to the crates that use these words.

mod error;
mod etag;
mod levels;
mod partition_key;
mod query;
mod region;
pub mod regions;
mod session;
mod text;
mod throughput;
mod wire;

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
pub use session::{PartitionSessionToken, SessionToken, VectorSessionToken};
pub use throughput::ThroughputProperties;
