//! Shared by the responses to writes of databases and containers.

use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{
    PartitionKeyRangeId, PartitionSessionToken, SessionToken, VectorSessionToken,
};

use crate::charge;
use crate::error::Result;
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::store::{Container, ReplicaProgress};

/// Completes the response to a write of a database.
pub(super) fn of_database(request: &ClassifiedRequest, reply: Reply) -> Result<Reply> {
    // Every region has the metadata at once, so no session waits for any of it: nothing is before LSN 0.
    let progress = VectorSessionToken::new(request.topology.version, 0, []);
    let range = PartitionKeyRangeId::from(0);
    let token = SessionToken::of_range(range, PartitionSessionToken::Vector(progress));
    finish(request, token, reply)
}

/// Completes the response to a write of a container.
pub(super) fn of_container(
    request: &ClassifiedRequest,
    container: &Container,
    reply: Reply,
) -> Result<Reply> {
    // The token of the container's own first range, not one of the service's master partition: SDKs (Python's)
    // keep it for that range, and read items with it.
    let partition = &container.partitions()[0];
    let progress = ReplicaProgress::of(&request.view(partition));
    finish(request, partition.session_token(request.topology.version, &progress), reply)
}

fn finish(request: &ClassifiedRequest, token: SessionToken, reply: Reply) -> Result<Reply> {
    let minimal = request.typed().prefers_minimal()?;
    let reply = reply.charged(charge::METADATA_WRITE).with(headers::SESSION_TOKEN, token);
    Ok(reply.without_body(minimal))
}
