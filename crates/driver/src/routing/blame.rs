//! Who is to blame for a failure: the smallest thing that explains it. Pure.
//!
//! An outcome that says a partition does not serve also says that its endpoint does not. Believing both would
//! move every partition when one is sick. So where the partition can be moved, it is; the mark of its endpoint
//! is evidence, and the endpoint goes down when a share of the partitions that were asked there has failed
//! within a short window. Where nothing smaller can be blamed (connections that fail, metadata, partition-level
//! failover off) the endpoint is.

use std::sync::Arc;
use std::time::Instant;

use super::{
    AccountEndpointState, CosmosEndpoint, LocationEffect, LocationSnapshot, Mechanism, Partition,
    PartitionFailoverConfig, Traffic, UnavailablePartition, expire_unavailable_endpoints,
    mark_endpoint_unavailable, mark_partition_unavailable,
};
use crate::retry::UnavailableReason;

/// The fewest failing partitions that count as evidence against their endpoint: one or two may fail by themselves.
const MIN_FAILED_PARTITIONS: usize = 3;

/// Whether effects would change the snapshot: if not, no new one is made.
pub(super) fn changes_anything(snapshot: &LocationSnapshot, effects: &[LocationEffect]) -> bool {
    effects.iter().any(|effect| match effect {
        LocationEffect::MarkEndpointUnavailable { endpoint, reason, traffic } => {
            partition_to_blame(snapshot, effects, *reason).is_some()
                || is_to_blame(&snapshot.account, endpoint, *reason, *traffic)
        }
        LocationEffect::MarkPartitionUnavailable { partition, traffic, .. } => {
            partition.is_some()
                && snapshot.partitions.mechanism(&snapshot.account, *traffic).is_some()
        }
        // What is refreshed is not part of the picture.
        LocationEffect::RefreshPartitionRanges
        | LocationEffect::RefreshContainer
        | LocationEffect::RefreshAccountProperties => false,
    })
}

/// The snapshot after effects.
pub(super) fn applied(
    snapshot: &LocationSnapshot,
    effects: &[LocationEffect],
    now: Instant,
    config: &PartitionFailoverConfig,
    asked: &impl Fn(usize) -> usize,
) -> LocationSnapshot {
    let mut after = LocationSnapshot {
        account: Arc::new(expire_unavailable_endpoints(&snapshot.account, now)),
        partitions: Arc::clone(&snapshot.partitions),
    };
    let endpoint_reason = effects.iter().find_map(|effect| match effect {
        LocationEffect::MarkEndpointUnavailable { reason, .. } => Some(*reason),
        _ => None,
    });
    let blamed = partition_to_blame(
        snapshot,
        effects,
        // A mark of a partition alone, such as for hedges that it lost, is about the partition.
        endpoint_reason.unwrap_or(UnavailableReason::ServiceUnavailable),
    );
    if let Some(blamed) = &blamed {
        let partitions = mark_partition_unavailable(
            &after.partitions,
            &after.account,
            &blamed.unavailable(),
            now,
            config,
        );
        after.partitions = Arc::new(partitions);
    }
    for effect in effects {
        let LocationEffect::MarkEndpointUnavailable { endpoint, reason, traffic } = effect else {
            continue;
        };
        let is_down = match &blamed {
            Some(blamed) => has_failed_as_a_whole(&after, blamed, now, config, asked),
            None => is_to_blame(&after.account, endpoint, *reason, *traffic),
        };
        if is_down {
            let duration = config.settings.endpoint_unavailable_duration;
            let account = &after.account;
            let account =
                mark_endpoint_unavailable(account, &endpoint.endpoint, *reason, now, duration);
            after.account = Arc::new(account);
        }
    }
    after
}

/// A partition that explains a failure.
struct BlamedPartition<'a> {
    partition: &'a Arc<Partition>,
    endpoint: &'a CosmosEndpoint,
    traffic: Traffic,
    is_probe: bool,
    mechanism: Mechanism,
}

impl BlamedPartition<'_> {
    fn unavailable(&self) -> UnavailablePartition<'_> {
        UnavailablePartition {
            partition: &self.partition.id,
            endpoint: self.endpoint,
            traffic: self.traffic,
            is_probe: self.is_probe,
        }
    }
}

/// The partition that is to blame, if one is known and can be moved.
fn partition_to_blame<'a>(
    snapshot: &LocationSnapshot,
    effects: &'a [LocationEffect],
    reason: UnavailableReason,
) -> Option<BlamedPartition<'a>> {
    effects.iter().find_map(|effect| match effect {
        LocationEffect::MarkPartitionUnavailable { partition, endpoint, traffic, is_probe } => {
            let (partition, traffic, is_probe) = (partition.as_ref()?, *traffic, *is_probe);
            let mechanism = snapshot.partitions.mechanism(&snapshot.account, traffic)?;
            // A region that refuses writes, or does not know the account, is not a sick partition, unless
            // the service moves partitions one by one.
            let is_about_region = matches!(
                reason,
                UnavailableReason::WriteForbidden | UnavailableReason::AccountNotFound
            );
            let is_explained = !is_about_region || mechanism == Mechanism::AutomaticFailover;
            is_explained.then_some(BlamedPartition {
                partition,
                endpoint,
                traffic,
                is_probe,
                mechanism,
            })
        }
        _ => None,
    })
}

/// Whether so many partitions of an endpoint have failed that it counts as failing itself.
///
/// Not for automatic failover: the service moves each partition by itself, and where one's writes go says
/// nothing of the others.
fn has_failed_as_a_whole(
    snapshot: &LocationSnapshot,
    blamed: &BlamedPartition<'_>,
    now: Instant,
    config: &PartitionFailoverConfig,
    asked: &impl Fn(usize) -> usize,
) -> bool {
    if blamed.mechanism == Mechanism::AutomaticFailover {
        return false;
    }
    // A window that reaches back to before the clock began takes all there is.
    let since = now.checked_sub(config.settings.endpoint_failure_window);
    let failed = snapshot.partitions.failed_since(&blamed.endpoint.endpoint, since);
    if failed < MIN_FAILED_PARTITIONS {
        return false;
    }
    // Those that failed were asked, also if what they belong to is not resolved yet.
    let asked = asked(blamed.endpoint.slot).max(failed);
    failed as f64 >= asked as f64 * config.settings.endpoint_failure_share
}

/// Whether an endpoint is to blame, where nothing smaller is.
///
/// With one exception: a write that failed in the only region that accepts writes. Avoiding that region
/// would help no write, and cost the reads that it serves.
fn is_to_blame(
    account: &AccountEndpointState,
    endpoint: &CosmosEndpoint,
    reason: UnavailableReason,
    traffic: Traffic,
) -> bool {
    let is_about_serving = matches!(
        reason,
        UnavailableReason::RequestTimeout
            | UnavailableReason::ServiceUnavailable
            | UnavailableReason::InternalServerError
    );
    let is_only_writer = traffic == Traffic::Writes && !account.is_multi_write();
    let mut belonging = account.read_endpoints().iter().chain(account.write_endpoints());
    let belongs = belonging.any(|it| it.endpoint == endpoint.endpoint);
    belongs && !(is_about_serving && is_only_writer)
}

#[cfg(test)]
mod tests;
