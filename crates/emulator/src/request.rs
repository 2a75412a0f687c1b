//! What a handler sees of a request: typed headers, a parsed body, and the moment it arrived.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, header};
use serde_json::Value;
use sidereal_protocol::PartitionKey;
use sidereal_protocol::headers::{MaxItemCount, RequestHeaders, names};

use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::regions::Topology;
use crate::store::{Partition, ReplicaView, WriteCondition};

/// A request on its way through the account.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
    /// The region that the request reached.
    pub(crate) region: usize,
    /// The account's regions at that moment.
    pub(crate) topology: Arc<Topology>,
}

impl Incoming {
    pub(crate) fn new(
        request: Request<Bytes>,
        now: Timestamp,
        region: usize,
        topology: Arc<Topology>,
    ) -> Self {
        let (parts, body) = request.into_parts();
        Self {
            method: parts.method,
            uri: parts.uri,
            headers: parts.headers,
            body,
            now,
            region,
            topology,
        }
    }

    /// What the region that the request reached has of a partition by now.
    pub(crate) fn view<'a>(&self, partition: &'a Partition) -> ReplicaView<'a> {
        partition.view(self.region, &self.topology, self.now)
    }

    /// The headers as typed values; a malformed one is an error to answer with.
    pub(crate) fn typed(&self) -> RequestHeaders<'_> {
        RequestHeaders::new(&self.headers)
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        parse_json(&self.body)
    }

    pub(crate) fn partition_key(&self) -> Result<Option<PartitionKey>> {
        // An empty array is how some clients say that they name no key.
        if self.typed().text(&names::PARTITION_KEY)? == Some("[]") {
            return Ok(None);
        }
        Ok(self.typed().partition_key()?)
    }

    pub(crate) fn conditions(&self) -> Result<WriteCondition> {
        let headers = self.typed();
        Ok(WriteCondition {
            if_match: headers.if_match()?,
            if_none_match: headers.if_none_match()?,
        })
    }

    /// The most items of a page; `None` leaves it to the server.
    pub(crate) fn max_item_count(&self) -> Result<Option<usize>> {
        match self.typed().max_item_count()? {
            Some(MaxItemCount::AtMost(count)) => Ok(Some(count.get() as usize)),
            Some(MaxItemCount::Unlimited) | None => Ok(None),
        }
    }

    /// The scheme and authority the client used: what advertised URLs begin with.
    pub(crate) fn base_url(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or("http");
        let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = self.uri.authority().map(http::uri::Authority::as_str).or(host);
        format!("{scheme}://{}", authority.unwrap_or("localhost"))
    }
}

/// JSON from a body, or the service's words for what is none.
pub(crate) fn parse_json(body: &[u8]) -> Result<Value> {
    serde_json::from_slice(body).map_err(|error| {
        ServiceError::bad_request(format!(
            "The request payload is invalid. Ensure to provide a valid request payload: {error}."
        ))
    })
}
