//! What the outcome of an attempt says of the account, as values.

use smallvec::SmallVec;

use crate::retry::{Effect, UnavailableReason};
use crate::transport::Endpoint;

/// The effects of one outcome; inline, for a failing region must not cost allocations too.
pub(crate) type LocationEffects = SmallVec<[LocationEffect; 3]>;

/// What changes in the shared picture of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocationEffect {
    /// Its properties are out of date.
    RefreshAccountProperties,
    /// An endpoint does not serve.
    MarkEndpointUnavailable {
        /// Which.
        endpoint: Endpoint,
        /// Why.
        reason: UnavailableReason,
        /// Whether a read showed it.
        is_read: bool,
    },
    /// The operation's partition does not serve at an endpoint.
    MarkPartitionUnavailable {
        /// Where.
        endpoint: Endpoint,
        /// Whether a read showed it.
        is_read: bool,
    },
    /// The container's partition ranges are out of date.
    RefreshPartitionRanges,
    /// The container was recreated under the same name.
    RefreshContainer,
}

impl LocationEffect {
    /// What an effect of the matrix means at an endpoint.
    pub(crate) fn at(endpoint: &Endpoint, effect: Effect, is_read: bool) -> Self {
        match effect {
            Effect::RefreshAccount => Self::RefreshAccountProperties,
            Effect::MarkEndpoint(reason) => {
                Self::MarkEndpointUnavailable { endpoint: endpoint.clone(), reason, is_read }
            }
            Effect::MarkPartition => {
                Self::MarkPartitionUnavailable { endpoint: endpoint.clone(), is_read }
            }
            Effect::RefreshRanges => Self::RefreshPartitionRanges,
            Effect::RefreshContainer => Self::RefreshContainer,
        }
    }
}
