//! What is asked of the service.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sidereal_protocol::{OperationType, PartitionKey, RequestPath};

/// One operation on one resource or feed: what is asked, not where or how often.
///
/// It is made once and not changed by the attempts it needs.
#[derive(Clone, Debug)]
pub struct CosmosOperation {
    operation_type: OperationType,
    path: RequestPath,
    partition_key: Option<PartitionKey>,
    headers: HeaderMap,
    body: Bytes,
    is_repeatable: bool,
}

impl CosmosOperation {
    /// An operation without a body.
    ///
    /// Whether it may be repeated when its fate is unknown follows from its type: what only reads, or
    /// ends in the same data, may. A patch or a batch may not, unless
    /// [`repeatable`](Self::repeatable) says so.
    #[must_use]
    pub fn new(operation_type: OperationType, path: RequestPath) -> Self {
        Self {
            operation_type,
            path,
            partition_key: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_repeatable: operation_type.is_idempotent(),
        }
    }

    /// The same operation on the items of one partition key.
    #[must_use]
    pub fn with_partition_key(mut self, key: PartitionKey) -> Self {
        self.partition_key = Some(key);
        self
    }

    /// The same operation with a header of its own.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// The same operation with a body.
    #[must_use]
    pub fn with_body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// The same operation, which does no harm when it is applied twice: the caller has looked at its body.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// What is done.
    #[must_use]
    pub fn operation_type(&self) -> OperationType {
        self.operation_type
    }

    /// What it is done to.
    #[must_use]
    pub fn path(&self) -> &RequestPath {
        &self.path
    }

    /// The partition key, if it is about one.
    #[must_use]
    pub fn partition_key(&self) -> Option<&PartitionKey> {
        self.partition_key.as_ref()
    }

    /// Its own headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Whether applying it twice does no harm.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }
}
