//! The names that most programs need: `use sidereal::prelude::*;`.

pub use crate::models::{
    ContainerProperties, DatabaseProperties, Etag, PartitionKey, PartitionKeyDefinition,
    RegionName, ThroughputProperties,
};
pub use crate::options::{ItemOptions, QueryOptions};
pub use crate::query::{ContinuationToken, ItemStream, PageStream, Query, QueryPage};
pub use crate::{
    BulkOperation, ContainerClient, CosmosClient, CosmosCredential, DatabaseClient, ErrorKind,
    Patch, TransactionalBatch,
};
