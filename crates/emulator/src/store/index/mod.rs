//! Indexes: which paths a container's policy indexes, and the indexes themselves.
//!
//! An index of a path is built when a query first asks for it and kept by writes from then on. It narrows the
//! candidates of a filter, which is evaluated all the same, and has the order of an ORDER BY. What the policy
//! excludes is never looked up.

mod index_set;
mod path_index;
mod policy;

pub(crate) use index_set::IndexSet;
pub(crate) use path_index::{IndexDefinition, IndexKey, PathIndex};
pub(crate) use policy::{IndexPolicy, OrderByPath, OrderByRefusal};
