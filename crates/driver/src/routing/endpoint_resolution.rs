//! Endpoint selection: which region serves the next attempt.
//!
//! Pure functions over the picture of the account taken at the start of an attempt; the caller passes `now`.

use std::time::Instant;

use sidereal_protocol::RegionName;
use smallvec::SmallVec;

use super::{AccountEndpointState, CosmosEndpoint};
use crate::diagnostics::RetryTarget;
use crate::transport::Endpoint;

/// What an attempt asks of its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Whether it must accept writes.
    pub(crate) is_write: bool,
    /// Regions that the call does not want.
    pub(crate) excluded_regions: &'a [RegionName],
    /// Endpoints that the operation has failed on, in this order.
    pub(crate) failed_endpoints: &'a FailedEndpoints,
    /// The endpoint that it is failing on right now, if it is.
    pub(crate) current: Option<&'a Endpoint>,
    /// Where the last decision wants it.
    pub(crate) target: RetryTarget,
}

/// Endpoints that an operation has failed on; inline for as many regions as most accounts have.
pub(crate) type FailedEndpoints = SmallVec<[Endpoint; 4]>;

/// Picks the endpoint for the next attempt.
///
/// 1. The first preferred one that is neither excluded, nor avoided by the account, nor one that the
///    operation has failed on.
/// 2. The first that the operation has not failed on: an attempt at a doubtful region can still succeed.
/// 3. The one it failed on last: there is nowhere else to go.
///
/// Excluded regions are used only if every region is excluded: no region would mean no attempt.
pub(crate) fn resolve_endpoint<'a>(
    state: &'a AccountEndpointState,
    wanted: &Wanted<'_>,
    now: Instant,
) -> &'a CosmosEndpoint {
    if let Some(first) = first_if_nothing_is_wrong(state, wanted) {
        return first;
    }
    let untried = || candidates(state, wanted).filter(|it| !has_failed(it, wanted));
    let is_available =
        |it: &&CosmosEndpoint| state.is_available(&it.endpoint, wanted.is_write, now);
    let last_failed = || {
        let last = wanted.failed_endpoints.last()?;
        candidates(state, wanted).find(|it| it.endpoint == *last)
    };
    untried()
        .find(is_available)
        .or_else(|| untried().next())
        .or_else(last_failed)
        .or_else(|| candidates(state, wanted).next())
        .unwrap_or(state.default_endpoint())
}

/// The usual case, without a search: nothing failed, nothing is avoided or excluded.
fn first_if_nothing_is_wrong<'a>(
    state: &'a AccountEndpointState,
    wanted: &Wanted<'_>,
) -> Option<&'a CosmosEndpoint> {
    let is_usual = state.has_no_marks()
        && wanted.failed_endpoints.is_empty()
        && wanted.excluded_regions.is_empty();
    let endpoints = match wanted.is_write {
        true => state.write_endpoints(),
        false => state.read_endpoints(),
    };
    endpoints.first().filter(|_| is_usual)
}

/// Whether there is an endpoint that the operation has not failed on.
pub(crate) fn is_elsewhere_left(state: &AccountEndpointState, wanted: &Wanted<'_>) -> bool {
    candidates(state, wanted).any(|it| !has_failed(it, wanted))
}

fn has_failed(candidate: &CosmosEndpoint, wanted: &Wanted<'_>) -> bool {
    wanted.current == Some(&candidate.endpoint)
        || wanted.failed_endpoints.contains(&candidate.endpoint)
}

/// The endpoints that could serve, in the order of preference.
fn candidates<'a>(
    state: &'a AccountEndpointState,
    wanted: &Wanted<'_>,
) -> impl Iterator<Item = &'a CosmosEndpoint> {
    let (reads, writes) = (state.read_endpoints(), state.write_endpoints());
    // The write region first where a session is looked for; in a multi-write account every region is one.
    let wants_write_region = wanted.target == RetryTarget::WriteRegion && !state.is_multi_write();
    let (first, second) = match (wanted.is_write, wants_write_region) {
        (true, _) => (writes, &[][..]),
        (false, true) => (writes, reads),
        (false, false) => (reads, &[][..]),
    };
    let excluded = wanted.excluded_regions;
    let is_excluded = move |it: &CosmosEndpoint| {
        it.region.as_ref().is_some_and(|region| excluded.contains(region))
    };
    let all_excluded = first.iter().chain(second).all(is_excluded);
    let allowed: SmallVec<[&CosmosEndpoint; 8]> =
        first.iter().chain(second).filter(|it| all_excluded || !is_excluded(it)).collect();
    allowed.into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::account_endpoint_state::tests::{account, endpoint, multi_write};
    use super::super::mark_endpoint_unavailable;
    use super::*;
    use crate::retry::UnavailableReason;

    const MINUTE: Duration = Duration::from_secs(60);

    struct Asked {
        is_write: bool,
        excluded: Vec<RegionName>,
        failed: FailedEndpoints,
        target: RetryTarget,
    }

    impl Asked {
        fn read() -> Self {
            let (excluded, failed) = (Vec::new(), FailedEndpoints::new());
            Self { is_write: false, excluded, failed, target: RetryTarget::NextPreferred }
        }

        fn write() -> Self {
            Self { is_write: true, ..Self::read() }
        }

        fn excluding(mut self, regions: &[&str]) -> Self {
            self.excluded = regions.iter().map(|it| RegionName::from(*it)).collect();
            self
        }

        fn after_failing_in(mut self, regions: &[&str]) -> Self {
            self.failed = regions.iter().map(|it| endpoint(it)).collect();
            self
        }

        fn wanted(&self) -> Wanted<'_> {
            Wanted {
                is_write: self.is_write,
                excluded_regions: &self.excluded,
                failed_endpoints: &self.failed,
                current: None,
                target: self.target,
            }
        }

        fn region(&self, state: &AccountEndpointState, now: Instant) -> String {
            let found = resolve_endpoint(state, &self.wanted(), now);
            found.region.as_ref().map_or_else(String::new, |it| it.as_str().to_owned())
        }
    }

    #[test]
    fn reads_go_to_the_preferred_region_and_writes_to_the_write_region() {
        let (state, now) = (account(&["West", "East", "North"], &["East"]), Instant::now());
        assert_eq!(Asked::read().region(&state, now), "East");
        assert_eq!(Asked::write().region(&state, now), "West");
    }

    #[test]
    fn an_unknown_account_is_asked_at_its_global_endpoint() {
        let global = endpoint("global");
        let state = AccountEndpointState::unknown(global.clone());
        let found = resolve_endpoint(&state, &Asked::write().wanted(), Instant::now()).clone();
        assert_eq!((found.endpoint, found.region), (global, None));
    }

    #[test]
    fn excluded_regions_are_skipped_unless_all_are_excluded() {
        let (state, now) = (account(&["West", "East"], &[]), Instant::now());
        assert_eq!(Asked::read().excluding(&["west"]).region(&state, now), "East");
        assert_eq!(Asked::read().excluding(&["West", "East"]).region(&state, now), "West");
    }

    #[test]
    fn an_avoided_region_is_skipped_until_its_mark_expires() {
        let (state, start) = (account(&["West", "East"], &[]), Instant::now());
        let reason = UnavailableReason::TransportError;
        let state = mark_endpoint_unavailable(&state, &endpoint("West"), reason, start, MINUTE);
        assert_eq!(Asked::read().region(&state, start), "East");
        assert_eq!(Asked::read().region(&state, start + MINUTE), "West");
        // A write has nowhere else to go.
        assert_eq!(Asked::write().region(&state, start), "West");
    }

    #[test]
    fn a_region_that_refuses_writes_still_serves_reads() {
        let (state, now) = (multi_write(&["West", "East"]), Instant::now());
        let reason = UnavailableReason::WriteForbidden;
        let state = mark_endpoint_unavailable(&state, &endpoint("West"), reason, now, MINUTE);
        assert_eq!(Asked::read().region(&state, now), "West");
        assert_eq!(Asked::write().region(&state, now), "East");
    }

    #[test]
    fn a_region_that_failed_the_operation_is_not_tried_again_while_another_is_left() {
        let (state, now) = (account(&["West", "East"], &[]), Instant::now());
        let reason = UnavailableReason::TransportError;
        let marked = mark_endpoint_unavailable(&state, &endpoint("East"), reason, now, MINUTE);
        let once = Asked::read().after_failing_in(&["West"]);
        assert_eq!(once.region(&marked, now), "East", "doubtful, but not failed on");
        assert!(is_elsewhere_left(&marked, &once.wanted()));
        let (east, asked) = (endpoint("East"), once.wanted());
        assert!(!is_elsewhere_left(&marked, &Wanted { current: Some(&east), ..asked }));
        let twice = Asked::read().after_failing_in(&["West", "East"]);
        assert_eq!(twice.region(&marked, now), "East", "the last one, in place");
        assert!(!is_elsewhere_left(&marked, &twice.wanted()));
    }

    #[test]
    fn a_session_is_looked_for_in_the_write_region_first() {
        let now = Instant::now();
        let state = account(&["West", "East", "North"], &["North", "East"]);
        let mut asked = Asked::read().after_failing_in(&["North"]);
        asked.target = RetryTarget::WriteRegion;
        assert_eq!(asked.region(&state, now), "West");
        let everywhere = multi_write(&["West", "East", "North"]);
        let mut asked = Asked::read().after_failing_in(&["West"]);
        asked.target = RetryTarget::WriteRegion;
        assert_eq!(asked.region(&everywhere, now), "East", "the next one has it as well");
    }
}
