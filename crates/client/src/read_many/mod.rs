//! Reading many items by id and partition key, in as few requests as they fit into.
//!
//! `plan` groups the items by partition range, a hundred to a query, and is pure; `builder` asks, several at once. A
//! query is one of a part of the key space, so splits and merges are its own concern.

mod builder;
mod plan;

pub use builder::{ReadMany, ReadManyResponse};
