use std::time::{Duration, Instant};

use super::*;
use crate::options::OptionLayers;
use crate::routing::{
    LocationSnapshot, PartitionEndpointState, PartitionFailoverConfig,
    sync_partition_endpoint_state,
};

pub(crate) fn endpoint(name: &str) -> Endpoint {
    format!("https://{}.contoso.com", name.to_ascii_lowercase()).parse().unwrap()
}

fn locations(regions: &[&str]) -> Vec<AccountLocation> {
    let location = |name: &&str| AccountLocation {
        name: RegionName::from(*name),
        database_account_endpoint: endpoint(name).as_str().to_owned(),
    };
    regions.iter().map(location).collect()
}

fn properties(readable: &[&str], writable: &[&str]) -> AccountProperties {
    AccountProperties {
        readable_locations: locations(readable),
        writable_locations: locations(writable),
        enable_multiple_write_locations: writable.len() > 1,
        ..AccountProperties::default()
    }
}

fn preference(preferred: &[&str]) -> RegionPreference {
    let preferred = preferred.iter().map(|it| RegionName::from(*it)).collect();
    RegionPreference { preferred, application_region: None }
}

fn unknown() -> AccountEndpointState {
    AccountEndpointState::unknown(endpoint("global"))
}

/// A single-write account, the first region of which accepts writes.
pub(crate) fn account(regions: &[&str], preferred: &[&str]) -> AccountEndpointState {
    let properties = properties(regions, &regions[..1]);
    build_account_endpoint_state(&unknown(), &properties, &preference(preferred))
}

/// A snapshot of a single-write account, with or without automatic partition failover.
pub(crate) fn snapshot(account: AccountEndpointState, asks: bool) -> LocationSnapshot {
    let config = PartitionFailoverConfig::of(&OptionLayers::default());
    let partitions =
        sync_partition_endpoint_state(&PartitionEndpointState::default(), &account, asks, &config);
    LocationSnapshot { account: Arc::new(account), partitions: Arc::new(partitions) }
}

pub(crate) fn multi_write(regions: &[&str]) -> AccountEndpointState {
    build_account_endpoint_state(&unknown(), &properties(regions, regions), &preference(&[]))
}

fn names(endpoints: &[CosmosEndpoint]) -> Vec<&str> {
    endpoints.iter().map(|it| it.region.as_ref().unwrap().as_str()).collect()
}

#[test]
fn preferred_regions_come_first_and_the_others_as_the_account_lists_them() {
    let state = account(&["West", "East", "North", "South"], &["South", "Mars", "east"]);
    assert_eq!(names(state.read_endpoints()), ["South", "East", "West", "North"]);
    assert_eq!(names(state.write_endpoints()), ["West"]);
    assert!(state.is_known() && !state.is_multi_write());
}

#[test]
fn the_application_s_own_region_comes_first_unless_others_are_preferred() {
    let properties = properties(&["West", "East"], &["West"]);
    let mut preference = preference(&[]);
    preference.application_region = Some(RegionName::from("East"));
    let state = build_account_endpoint_state(&unknown(), &properties, &preference);
    assert_eq!(names(state.read_endpoints()), ["East", "West"]);
    preference.preferred = vec![RegionName::from("West")];
    let state = build_account_endpoint_state(&unknown(), &properties, &preference);
    assert_eq!(names(state.read_endpoints()), ["West", "East"]);
}

#[test]
fn writes_follow_the_preference_only_where_every_region_accepts_them() {
    let regions = &["West", "East"];
    let preferred = preference(&["East"]);
    let every = properties(regions, regions);
    let state = build_account_endpoint_state(&unknown(), &every, &preferred);
    assert_eq!(names(state.write_endpoints()), ["East", "West"]);
    // For the moment of a failover, two regions are listed; the first one is the next to be asked.
    let during = AccountProperties { enable_multiple_write_locations: false, ..every };
    let state = build_account_endpoint_state(&unknown(), &during, &preferred);
    assert_eq!(names(state.write_endpoints()), ["West", "East"]);
}

#[test]
fn an_account_without_locations_is_its_global_endpoint() {
    let empty = AccountProperties::default();
    let state = build_account_endpoint_state(&unknown(), &empty, &preference(&["West"]));
    for endpoints in [state.read_endpoints(), state.write_endpoints()] {
        assert_eq!(endpoints, [state.default_endpoint().clone()]);
    }
}

#[test]
fn a_location_whose_address_cannot_be_read_is_left_out() {
    let mut properties = properties(&["West", "East"], &["West"]);
    properties.readable_locations[0].database_account_endpoint = "nowhere".to_owned();
    let state = build_account_endpoint_state(&unknown(), &properties, &preference(&[]));
    assert_eq!(names(state.read_endpoints()), ["East"]);
}

#[test]
fn a_mark_stays_over_a_refresh_and_goes_with_its_endpoint_or_its_time() {
    let (now, minute) = (Instant::now(), Duration::from_secs(60));
    let state = account(&["West", "East"], &[]);
    let (west, reason) = (endpoint("West"), UnavailableReason::TransportError);
    let marked = mark_endpoint_unavailable(&state, &west, reason, now, minute);
    let refreshed = |regions| {
        build_account_endpoint_state(&marked, &properties(regions, &["East"]), &preference(&[]))
    };
    assert!(!refreshed(&["West", "East"]).is_available(&west, false, now));
    assert!(refreshed(&["East"]).is_available(&west, false, now));
    let later = now + minute;
    let expired = expire_unavailable_endpoints(&marked, later);
    assert!(!expired.is_available(&west, false, later), "a probe ends it");
    let reason = UnavailableReason::WriteForbidden;
    let forbidden = mark_endpoint_unavailable(&state, &west, reason, now, minute);
    assert!(!expire_unavailable_endpoints(&forbidden, now).is_available(&west, true, now));
    let expired = expire_unavailable_endpoints(&forbidden, later);
    assert!(expired.is_available(&west, true, now), "only a write could probe it");
}

#[test]
fn a_mark_is_due_for_a_probe_when_its_time_has_passed() {
    let (now, minute) = (Instant::now(), Duration::from_secs(60));
    let state = account(&["West", "East"], &[]);
    let (west, reason) = (endpoint("West"), UnavailableReason::TransportError);
    let marked = mark_endpoint_unavailable(&state, &west, reason, now, minute);
    let due = |state: &AccountEndpointState, now| state.due_for_probe(now).count();
    assert_eq!((due(&marked, now), due(&marked, now + minute)), (0, 1));
    assert!(mark_endpoint_available(&marked, &west, now).has_no_marks());
    let reason = UnavailableReason::WriteForbidden;
    let forbidden = mark_endpoint_unavailable(&state, &west, reason, now, minute);
    assert_eq!(due(&forbidden, now + minute), 0);
}

#[test]
fn a_region_that_the_account_lacks_is_a_warning_that_names_those_it_has() {
    let warnings = |preferred: &[&str]| {
        let state = account(&["West", "East"], preferred);
        state.warnings().map(|it| it.to_vec()).unwrap_or_default()
    };
    assert!(warnings(&["east"]).is_empty());
    let expected = "the preferred region Mars is not one of the account's: West, East";
    assert_eq!(warnings(&["East", "Mars"]), [expected]);
}

#[test]
fn an_endpoint_keeps_its_slot_over_refreshes_and_no_two_have_the_same() {
    let slots = |state: &AccountEndpointState| -> Vec<(String, usize)> {
        let all = state.read_endpoints().iter().chain(state.write_endpoints());
        all.map(|it| (it.region.as_ref().unwrap().as_str().to_owned(), it.slot)).collect()
    };
    let before = account(&["West", "East", "North"], &["North"]);
    assert_eq!(
        slots(&before),
        [("North", 3), ("West", 1), ("East", 2), ("West", 1)].map(|(it, n)| (it.to_owned(), n))
    );
    let after = build_account_endpoint_state(
        &before,
        &properties(&["South", "North"], &["South"]),
        &preference(&[]),
    );
    let expected = [("South", 4), ("North", 3), ("South", 4)].map(|(it, n)| (it.to_owned(), n));
    assert_eq!(slots(&after), expected);
}

#[test]
fn an_account_that_says_nothing_of_hedging_means_what_it_last_said() {
    let told = |disabled| AccountProperties {
        disable_cross_regional_hedging: disabled,
        ..properties(&["West"], &["West"])
    };
    let build = |state: &AccountEndpointState, disabled| {
        build_account_endpoint_state(state, &told(disabled), &preference(&[]))
    };
    let disabled = build(&unknown(), Some(true));
    assert!(disabled.is_hedging_disabled());
    assert!(build(&disabled, None).is_hedging_disabled());
    assert!(!build(&disabled, Some(false)).is_hedging_disabled());
}

#[test]
fn a_duration_that_no_clock_can_hold_is_for_ever() {
    let (state, west, now) = (account(&["West"], &[]), endpoint("West"), Instant::now());
    let reason = UnavailableReason::TransportError;
    let marked = mark_endpoint_unavailable(&state, &west, reason, now, Duration::MAX);
    let later = now + Duration::from_secs(1 << 30);
    assert!(!expire_unavailable_endpoints(&marked, later).is_available(&west, false, later));
}

#[test]
fn endpoints_that_left_are_named_once() {
    let before = multi_write(&["West", "East"]);
    let after = account(&["West", "North"], &[]);
    assert_eq!(endpoints_that_left(&before, &after), [endpoint("East")]);
    assert_eq!(endpoints_that_left(&after, &after), []);
}

#[test]
fn an_endpoint_that_is_known_is_the_same_value_after_a_refresh() {
    let before = account(&["West"], &[]);
    let after =
        build_account_endpoint_state(&before, &properties(&["West"], &["West"]), &preference(&[]));
    let address = |it: &AccountEndpointState| it.read_endpoints()[0].endpoint.as_str().as_ptr();
    assert_eq!(address(&before), address(&after));
}

#[test]
fn an_endpoint_that_fails_soon_after_a_recovery_is_avoided_for_longer() {
    let (mut now, minute) = (Instant::now(), Duration::from_secs(60));
    let (mut state, west) = (account(&["West", "East"], &[]), endpoint("West"));
    let reason = UnavailableReason::TransportError;
    for minutes in [1, 2, 4, 4] {
        state = mark_endpoint_unavailable(&state, &west, reason, now, minute);
        // A mark by another operation, or by a probe that failed, is not a relapse.
        state = mark_endpoint_unavailable(&state, &west, reason, now, minute);
        let until = now + minutes * minute;
        assert_eq!(state.due_for_probe(until - Duration::from_millis(1)).count(), 0);
        assert_eq!(state.due_for_probe(until).count(), 1);
        state = mark_endpoint_available(&state, &west, until);
        now = until + 5 * minute;
    }
    let long_after = now + Duration::from_secs(1);
    state = mark_endpoint_unavailable(&state, &west, reason, long_after, minute);
    assert_eq!(state.due_for_probe(long_after + minute).count(), 1);
}
