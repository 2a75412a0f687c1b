//! The current picture of an account, and the one place that changes it.
//!
//! Deciding is elsewhere: outcomes become [`LocationEffect`]s by the retry matrix, and what an effect does
//! to the picture is decided by [`applied`], which is pure. The store swaps pictures, by compare-and-swap
//! that retries, so that no mark of a concurrent operation is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use sidereal_protocol::AccountProperties;

use super::{
    AccountEndpointState, LocationEffect, RegionPreference, build_account_endpoint_state,
    endpoints_that_left, expire_unavailable_endpoints, mark_endpoint_unavailable,
};
use crate::retry::UnavailableReason;
use crate::transport::Endpoint;

/// What is known of an account at a moment.
#[derive(Clone, Debug)]
pub(crate) struct LocationSnapshot {
    pub(crate) account: AccountEndpointState,
}

/// Holds the current [`LocationSnapshot`].
#[derive(Debug)]
pub(crate) struct LocationStateStore {
    snapshot: ArcSwap<LocationSnapshot>,
    preference: RegionPreference,
    /// How long an endpoint that does not serve is avoided.
    unavailable_duration: Duration,
}

impl LocationStateStore {
    /// The store of an account that has not been read.
    pub(crate) fn new(
        default_endpoint: Endpoint,
        preference: RegionPreference,
        unavailable_duration: Duration,
    ) -> Self {
        let account = AccountEndpointState::unknown(default_endpoint);
        let snapshot = ArcSwap::from_pointee(LocationSnapshot { account });
        Self { snapshot, preference, unavailable_duration }
    }

    /// The picture now. It does not change under its reader.
    pub(crate) fn snapshot(&self) -> Guard<Arc<LocationSnapshot>> {
        self.snapshot.load()
    }

    /// Notes what outcomes say of the account. Says whether it is to be read anew.
    pub(crate) fn apply(&self, effects: &[LocationEffect], now: Instant) -> bool {
        let changes = |snapshot: &LocationSnapshot| {
            effects.iter().any(|effect| is_a_mark(&snapshot.account, effect))
        };
        if changes(&self.snapshot.load()) {
            self.snapshot.rcu(|current| LocationSnapshot {
                account: applied(&current.account, effects, now, self.unavailable_duration),
            });
        }
        effects.contains(&LocationEffect::RefreshAccountProperties)
    }

    /// Takes in what the account says of itself. Says which endpoints no longer belong to it.
    pub(crate) fn sync_account_properties(
        &self,
        properties: &AccountProperties,
        now: Instant,
    ) -> Vec<Endpoint> {
        let build = |before: &AccountEndpointState| {
            let refreshed = build_account_endpoint_state(before, properties, &self.preference);
            expire_unavailable_endpoints(&refreshed, now)
        };
        let before =
            self.snapshot.rcu(|current| LocationSnapshot { account: build(&current.account) });
        endpoints_that_left(&before.account, &self.snapshot.load().account)
    }
}

/// The account after effects.
///
/// Partition-level failover is what would blame less than an endpoint. Without it an endpoint mark counts,
/// with one exception: a write that failed in the only region that accepts writes. Avoiding that region
/// would help no write, and cost the reads that it serves.
fn applied(
    account: &AccountEndpointState,
    effects: &[LocationEffect],
    now: Instant,
    duration: Duration,
) -> AccountEndpointState {
    let marks = effects.iter().filter(|effect| is_a_mark(account, effect));
    marks.fold(expire_unavailable_endpoints(account, now), |account, effect| match effect {
        LocationEffect::MarkEndpointUnavailable { endpoint, reason, .. } => {
            mark_endpoint_unavailable(&account, endpoint, *reason, now, duration)
        }
        _ => account,
    })
}

/// Whether an effect makes an endpoint one that is avoided.
fn is_a_mark(account: &AccountEndpointState, effect: &LocationEffect) -> bool {
    match effect {
        LocationEffect::MarkEndpointUnavailable { endpoint, reason, is_read } => {
            let is_about_serving = matches!(
                reason,
                UnavailableReason::RequestTimeout
                    | UnavailableReason::ServiceUnavailable
                    | UnavailableReason::InternalServerError
            );
            let is_only_writer = !is_read && !account.is_multi_write();
            let belongs = account.read_endpoints().iter().chain(account.write_endpoints());
            let is_known = belongs.into_iter().any(|it| it.endpoint == *endpoint);
            is_known && !(is_about_serving && is_only_writer)
        }
        // Ranges are resolved by the gateway, sessions are kept elsewhere, and what is said of a partition
        // without partition-level failover is said of its endpoint too.
        LocationEffect::MarkPartitionUnavailable { .. }
        | LocationEffect::RefreshPartitionRanges
        | LocationEffect::RefreshContainer
        | LocationEffect::RefreshAccountProperties => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::account_endpoint_state::tests::{account, endpoint, multi_write};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn store(account: AccountEndpointState) -> LocationStateStore {
        let store = LocationStateStore::new(endpoint("global"), Default::default(), MINUTE);
        store.snapshot.store(Arc::new(LocationSnapshot { account }));
        store
    }

    fn mark(region: &str, reason: UnavailableReason, is_read: bool) -> LocationEffect {
        LocationEffect::MarkEndpointUnavailable { endpoint: endpoint(region), reason, is_read }
    }

    fn is_available(store: &LocationStateStore, region: &str, now: Instant) -> bool {
        store.snapshot().account.is_available(&endpoint(region), true, now)
    }

    #[test]
    fn a_mark_lasts_as_long_as_the_settings_say() {
        let (store, now) = (store(account(&["West", "East"], &[])), Instant::now());
        let failed = mark("East", UnavailableReason::ServiceUnavailable, true);
        assert!(!store.apply(&[failed], now), "nothing is to be read anew");
        assert!(!is_available(&store, "East", now + MINUTE / 2));
        assert!(is_available(&store, "East", now + MINUTE));
        assert!(is_available(&store, "West", now));
    }

    #[test]
    fn a_write_that_fails_in_the_only_write_region_does_not_mark_it() {
        let failing = [
            UnavailableReason::ServiceUnavailable,
            UnavailableReason::RequestTimeout,
            UnavailableReason::InternalServerError,
        ];
        for reason in failing {
            let (single, now) = (store(account(&["West", "East"], &[])), Instant::now());
            single.apply(&[mark("West", reason, false)], now);
            assert!(is_available(&single, "West", now));
            let every = store(multi_write(&["West", "East"]));
            every.apply(&[mark("West", reason, false)], now);
            assert!(!is_available(&every, "West", now));
        }
    }

    #[test]
    fn a_region_that_cannot_be_reached_or_refuses_writes_is_marked_by_a_write_too() {
        for reason in [UnavailableReason::TransportError, UnavailableReason::WriteForbidden] {
            let (store, now) = (store(account(&["West", "East"], &[])), Instant::now());
            store.apply(&[mark("West", reason, false)], now);
            assert!(!is_available(&store, "West", now));
        }
    }

    #[test]
    fn what_does_not_belong_to_the_account_is_not_marked() {
        let (store, now) = (store(account(&["West"], &[])), Instant::now());
        let before = Arc::clone(&store.snapshot());
        store.apply(&[mark("Mars", UnavailableReason::TransportError, true)], now);
        assert!(Arc::ptr_eq(&before, &store.snapshot()), "no new picture for nothing");
    }

    #[test]
    fn a_moved_write_region_asks_for_the_account_to_be_read() {
        let (store, now) = (store(account(&["West", "East"], &[])), Instant::now());
        let effects = [
            LocationEffect::RefreshAccountProperties,
            mark("West", UnavailableReason::WriteForbidden, false),
        ];
        assert!(store.apply(&effects, now));
        assert!(!is_available(&store, "West", now));
    }
}
