//! The input of the transport pipeline: one attempt at an operation, as a plain value.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use http::uri::PathAndQuery;
use sidereal_protocol::{PartitionKeyRangeId, RegionName, ResourceType};
use uuid::Uuid;

use super::HeaderList;
use crate::diagnostics::ExecutionContext;
use crate::exchange::Endpoint;
use crate::retry::{Budgets, RequestKind};

/// One attempt at an operation: request, endpoint and deadline.
#[derive(Clone, Debug)]
pub struct TransportRequest {
    /// The method.
    pub method: Method,
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// The number of the endpoint among those of its account, for statistics.
    pub slot: usize,
    /// The region of the endpoint, for diagnostics.
    pub region: Option<RegionName>,
    /// The partition range it is about, where that is known, for diagnostics.
    pub partition_range: Option<PartitionKeyRangeId>,
    /// The path, encoded.
    pub path: PathAndQuery,
    /// The headers that are its own; the common ones are added.
    pub headers: HeaderList,
    /// The body.
    pub body: Bytes,
    /// The fields that its signature covers.
    pub auth_context: AuthorizationContext,
    /// The id of the operation.
    pub activity_id: Uuid,
    /// Why it is made.
    pub execution_context: ExecutionContext,
    /// The effect of sending it twice.
    pub kind: RequestKind,
    /// When it starts, where that is known: a reading of the clock is not repeated.
    pub started: Option<Instant>,
    /// When the operation ends, with or without a response.
    pub deadline: Option<Instant>,
    /// From when on it counts as slow, where a hedge may take its place.
    pub slow_after: Option<Instant>,
    /// The operation's retry budgets.
    pub budgets: Budgets,
}

/// The fields that a request's signature covers beside its method and date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationContext {
    /// The kind of resource.
    pub resource_type: ResourceType,
    /// The link that is signed. Shared with the operation, which encodes it once.
    pub signed_link: Arc<str>,
}
