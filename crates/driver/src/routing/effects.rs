//! Effects of an attempt's outcome on the account's state, as values.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{CosmosEndpoint, Partition, Traffic};
use crate::retry::{Effect, UnavailableReason};

/// The effects of one outcome; inline, for a failing region must not cost allocations too.
pub(crate) type LocationEffects = SmallVec<[LocationEffect; 3]>;

/// One change of the account's state.
#[derive(Clone, Debug)]
pub(crate) enum LocationEffect {
    /// Its properties are out of date.
    RefreshAccountProperties,
    /// An endpoint does not serve.
    MarkEndpointUnavailable {
        /// The endpoint.
        endpoint: CosmosEndpoint,
        /// The reason.
        reason: UnavailableReason,
        /// The traffic that showed it.
        traffic: Traffic,
    },
    /// A partition does not serve at an endpoint.
    MarkPartitionUnavailable {
        /// The partition, if it is known.
        partition: Option<Arc<Partition>>,
        /// The endpoint.
        endpoint: CosmosEndpoint,
        /// The traffic that showed it.
        traffic: Traffic,
        /// Whether it was a probe.
        is_probe: bool,
    },
    /// The container's partition ranges are out of date.
    RefreshPartitionRanges,
    /// The container was recreated under the same name.
    RefreshContainer,
}

/// The attempt that had an outcome.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeSite<'a> {
    /// Its endpoint.
    pub(crate) endpoint: &'a CosmosEndpoint,
    /// The partition it was about, if that is known.
    pub(crate) partition: Option<&'a Arc<Partition>>,
    /// Reads or writes.
    pub(crate) traffic: Traffic,
    /// Whether it was a probe.
    pub(crate) is_probe: bool,
}

/// The effects of a request that was lost while its endpoint answered others: its partition does not serve there, and
/// that is evidence against the endpoint, not a verdict.
pub(crate) fn of_lost_request(
    effects: LocationEffects,
    attempted: &OutcomeSite<'_>,
) -> LocationEffects {
    let is_endpoint_mark = |effect: &LocationEffect| {
        let transport = UnavailableReason::TransportError;
        matches!(effect, LocationEffect::MarkEndpointUnavailable { reason, .. } if *reason == transport)
    };
    if !effects.iter().any(is_endpoint_mark) {
        return effects;
    }
    let timeout = Effect::MarkEndpoint(UnavailableReason::RequestTimeout);
    let smaller = [Effect::MarkPartition, timeout].map(|it| LocationEffect::of(it, attempted));
    effects.into_iter().filter(|it| !is_endpoint_mark(it)).chain(smaller).collect()
}

impl LocationEffect {
    /// Binds an effect of the retry matrix to the attempt that showed it.
    pub(crate) fn of(effect: Effect, attempted: &OutcomeSite<'_>) -> Self {
        let (endpoint, traffic) = (attempted.endpoint, attempted.traffic);
        match effect {
            Effect::RefreshAccount => Self::RefreshAccountProperties,
            Effect::MarkEndpoint(reason) => {
                Self::MarkEndpointUnavailable { endpoint: endpoint.clone(), reason, traffic }
            }
            Effect::MarkPartition => Self::MarkPartitionUnavailable {
                partition: attempted.partition.cloned(),
                endpoint: endpoint.clone(),
                traffic,
                is_probe: attempted.is_probe,
            },
            Effect::RefreshRanges => Self::RefreshPartitionRanges,
            Effect::RefreshContainer => Self::RefreshContainer,
        }
    }
}
