//! Partition keys: what a container is partitioned by, and where a key falls.

mod definition;
mod path;
mod range_id;

pub use definition::{
    MAX_HIERARCHY_LEVELS, PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion,
};
pub use path::PartitionKeyPath;
pub use range_id::PartitionKeyRangeId;
