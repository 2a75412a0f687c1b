//! Queries: over one partition key, a part of a container, or all of it.

use crate::ContainerClient;

/// A query over a container's items.
#[derive(Clone, Debug)]
pub struct Query {
    container: ContainerClient,
    text: String,
}

impl Query {
    pub(crate) fn new(container: ContainerClient, text: String) -> Self {
        Self { container, text }
    }
}
