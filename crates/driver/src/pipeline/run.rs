//! One run of an operation: what stays the same from one attempt to the next.

use std::time::Instant;

use sidereal_protocol::{RegionName, ResourceType};

use super::deadline::completes_before;
use crate::CosmosOperation;
use crate::driver_core::DriverCore;
use crate::options::{AmbiguousWriteRetry, AvailabilityOptionsView};
use crate::retry::RequestKind;
use crate::routing::Traffic;
use crate::system::Clock;
use crate::transport::TransportPipeline;

/// The constants of an operation: equal in all of its attempts.
pub(super) struct OperationRun<'a> {
    pub(super) core: &'a DriverCore,
    pub(super) transport: &'a TransportPipeline,
    pub(super) operation: &'a CosmosOperation,
    /// The effect of repeating it, as far as the settings let it be repeated.
    pub(super) kind: RequestKind,
    pub(super) availability: &'a AvailabilityOptionsView<'a>,
    pub(super) excluded: &'a [RegionName],
    pub(super) deadline: Option<Instant>,
}

impl OperationRun<'_> {
    /// Waits until the account has been read once, if that is needed. Returns the time afterwards, if the
    /// deadline allows it.
    pub(super) async fn until_account_is_read(&self, started: Instant) -> Option<Instant> {
        if self.core.locations.is_known() || self.is_about_account() {
            return Some(started);
        }
        completes_before(self.deadline, self.core.account.until_read()).await.then(Clock::now)
    }

    /// The account itself is read at its global endpoint: a region would tell its own view of it.
    pub(super) fn is_about_account(&self) -> bool {
        self.operation.path().kind() == ResourceType::DatabaseAccount
    }

    /// Whether a repetition must go to the region that may have applied the write: its replica alone can judge the
    /// condition, as long as the regions of a multi-write account have not heard of each other's writes.
    pub(super) fn repeats_in_place(&self) -> bool {
        self.kind == RequestKind::IdempotentWrite
            && self.availability.retry_ambiguous_writes() == AmbiguousWriteRetry::Conditional
            && self.core.locations.snapshot().account.is_multi_write()
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic::of(self.kind.is_write())
    }
}
