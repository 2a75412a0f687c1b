//! Refusals of requests that succeed when they are repeated, which the contract allows at any time: an account with
//! grease draws them. Each is bounded, so that a client with a few retries gets through.

use sidereal_protocol::{CosmosStatus, PartitionSessionToken};

use crate::error::{Result, ServiceError};
use crate::grease::Latitude;
use crate::request::ClassifiedRequest;
use crate::store::{Partition, ReplicaProgress};

/// Refuses a request to a partition if its draw says so: 410 to a range that is new, 449 to a write.
pub(crate) fn refuse(request: &ClassifiedRequest, partition: &Partition) -> Result<()> {
    if request.takes(Latitude::PassingSplits) && partition.claim_settling_refusal() {
        return Err(ServiceError::new(
            CosmosStatus::COMPLETING_SPLIT_OR_MERGE,
            "The partition key range is completing a split or merge: send the request again.",
        ));
    }
    if request.is_item_write() && request.takes(Latitude::ConflictingWrites) {
        return Err(ServiceError::new(
            CosmosStatus::RETRY_WITH,
            "A conflicting request to the resource was under way: send the request again.",
        ));
    }
    Ok(())
}

/// Whether the read of a session is refused although the region has what the session has seen: the replica that was
/// asked may be behind the others.
pub(crate) fn is_session_refused(
    request: &ClassifiedRequest,
    partition: &Partition,
    progress: &ReplicaProgress,
    token: &PartitionSessionToken,
) -> bool {
    let is_latest = u64::try_from(token.global_lsn()).is_ok_and(|lsn| lsn >= progress.lsn);
    is_latest
        && !request.is_item_write()
        && request.takes(Latitude::StaleReplicas)
        && partition.claim_session_refusal(progress.lsn)
}
