//! The picture of an account at a moment.

use std::sync::Arc;

use super::{AccountEndpointState, PartitionEndpointState};

/// The account's endpoints and moved partitions at one moment.
#[derive(Clone, Debug)]
pub(crate) struct LocationSnapshot {
    pub(crate) account: Arc<AccountEndpointState>,
    pub(crate) partitions: Arc<PartitionEndpointState>,
}
