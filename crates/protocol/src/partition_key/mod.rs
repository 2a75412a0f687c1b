//! Partition keys: what a container is partitioned by, and how a key is hashed to its partition.
//!
//! From a document's values ([`PartitionKey`]) through the container's [`PartitionKeyDefinition`]
//! to a point of the hashed key space ([`EffectivePartitionKey`]). Which partition range serves that
//! point is the routing map's to say.

mod definition;
mod effective;
mod hash;
mod key;
mod murmur;
mod path;
mod range;
mod range_id;
mod split;
mod value;

pub use definition::{
    MAX_HIERARCHY_LEVELS, PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion,
};
pub use effective::EffectivePartitionKey;
pub use key::PartitionKey;
pub use murmur::murmur3_32;
pub use path::PartitionKeyPath;
pub use range::EffectivePartitionKeyRange;
pub use range_id::PartitionKeyRangeId;
pub use value::{PartitionKeyNumber, PartitionKeyValue};
