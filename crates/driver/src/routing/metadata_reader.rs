//! Reads of containers, as the cache asks for them: the operation pipeline carries them out.

use std::fmt;
use std::pin::Pin;

use crate::{CosmosOperation, CosmosResponse, Error};

/// Executes operations on metadata for the cache.
pub(crate) trait MetadataReader: fmt::Debug + Send + Sync {
    /// `may_hedge`: whether another region may answer in place of a slow one.
    fn execute<'a>(&'a self, operation: &'a CosmosOperation, may_hedge: bool)
    -> MetadataFuture<'a>;

    /// A random number from 0 to 1.
    fn jitter(&self) -> f64;
}

/// Boxed: the operation pipeline asks this cache, whose reads run through the pipeline.
pub(crate) type MetadataFuture<'a> =
    Pin<Box<dyn Future<Output = Result<CosmosResponse, Error>> + Send + 'a>>;
