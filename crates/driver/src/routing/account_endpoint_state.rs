//! The endpoints of an account and their availability: an immutable snapshot, replaced whole.
//!
//! Plain data and pure functions: nothing here reads a clock or waits. `location_state_store.rs` holds the
//! current picture.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sidereal_protocol::{AccountLocation, AccountProperties, ConsistencyLevel, RegionName};

use super::window::{Recovery, doubled};
use crate::exchange::Endpoint;
use crate::retry::UnavailableReason;

/// How often the time that an endpoint is avoided for doubles: a region that fails again and again is still tried every few
/// minutes.
const MAX_DOUBLINGS: u32 = 2;

/// An endpoint of an account, with its region. The global endpoint has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CosmosEndpoint {
    pub(crate) endpoint: Endpoint,
    pub(crate) region: Option<RegionName>,
    /// Its index in tables by endpoint; stable for as long as it belongs to the account.
    pub(crate) slot: usize,
}

/// The endpoints of an account at a moment.
#[derive(Clone, Debug)]
pub(crate) struct AccountEndpointState {
    /// Where reads go, in the order of preference. Never empty.
    preferred_read_endpoints: Vec<CosmosEndpoint>,
    /// Where writes go, in the order of preference. Never empty.
    preferred_write_endpoints: Vec<CosmosEndpoint>,
    /// Endpoints that are avoided while another is left.
    unavailable_endpoints: BTreeMap<Endpoint, Unavailability>,
    /// When endpoints that had been avoided served again.
    recoveries: BTreeMap<Endpoint, Recovery>,
    multiple_write_locations_enabled: bool,
    default_consistency: ConsistencyLevel,
    /// The global endpoint: where the account is read, and all there is until it has been.
    default_endpoint: CosmosEndpoint,
    is_known: bool,
    /// Whether the account turns hedging off, as of its last read.
    is_hedging_disabled: bool,
    /// Endpoints of the second gateway: kept, not used.
    thin_client_endpoints: usize,
    /// Warnings about the account and its settings, for diagnostics.
    warnings: Option<Arc<[String]>>,
}

/// Why an endpoint is avoided, and until when it is so at least: then a probe decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailability {
    pub(crate) reason: UnavailableReason,
    /// None is for ever: later than a clock can tell.
    pub(crate) until: Option<Instant>,
    /// How often it had failed within minutes of a recovery.
    relapses: u32,
}

/// The regions that the application prefers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegionPreference {
    /// In this order.
    pub(crate) preferred: Vec<RegionName>,
    /// Where the application runs; counts if no region is preferred.
    pub(crate) application_region: Option<RegionName>,
}

impl RegionPreference {
    /// A region's position: preferred ones first, the others as the account lists them.
    fn rank(&self, region: &RegionName) -> usize {
        match (self.preferred.as_slice(), &self.application_region) {
            ([], Some(own)) => usize::from(own != region),
            (preferred, _) => {
                preferred.iter().position(|it| it == region).unwrap_or(preferred.len())
            }
        }
    }
}

impl AccountEndpointState {
    /// An account of which nothing is known but its global endpoint.
    pub(crate) fn unknown(default_endpoint: Endpoint) -> Self {
        let default_endpoint = CosmosEndpoint { endpoint: default_endpoint, region: None, slot: 0 };
        Self {
            preferred_read_endpoints: vec![default_endpoint.clone()],
            preferred_write_endpoints: vec![default_endpoint.clone()],
            unavailable_endpoints: BTreeMap::new(),
            recoveries: BTreeMap::new(),
            multiple_write_locations_enabled: false,
            // As an account that does not say.
            default_consistency: ConsistencyLevel::Session,
            default_endpoint,
            is_known: false,
            is_hedging_disabled: false,
            thin_client_endpoints: 0,
            warnings: None,
        }
    }

    /// Whether the account has been read.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Whether every region accepts writes.
    pub(crate) fn is_multi_write(&self) -> bool {
        self.multiple_write_locations_enabled
    }

    /// The consistency of reads that ask for nothing else.
    pub(crate) fn default_consistency(&self) -> ConsistencyLevel {
        self.default_consistency
    }

    /// Whether the account wants no hedges.
    pub(crate) fn is_hedging_disabled(&self) -> bool {
        self.is_hedging_disabled
    }

    /// How many endpoints of the second gateway the account has.
    pub(crate) fn thin_client_endpoints(&self) -> usize {
        self.thin_client_endpoints
    }

    /// Warnings about the account and its settings, for diagnostics.
    pub(crate) fn warnings(&self) -> Option<&Arc<[String]>> {
        self.warnings.as_ref()
    }

    pub(crate) fn default_endpoint(&self) -> &CosmosEndpoint {
        &self.default_endpoint
    }

    pub(crate) fn read_endpoints(&self) -> &[CosmosEndpoint] {
        &self.preferred_read_endpoints
    }

    pub(crate) fn write_endpoints(&self) -> &[CosmosEndpoint] {
        &self.preferred_write_endpoints
    }

    /// Whether no endpoint is avoided.
    pub(crate) fn has_no_marks(&self) -> bool {
        self.unavailable_endpoints.is_empty()
    }

    /// Whether an endpoint is not avoided, for a read or a write.
    pub(crate) fn is_available(&self, endpoint: &Endpoint, is_write: bool, now: Instant) -> bool {
        self.unavailable_endpoints.get(endpoint).is_none_or(|it| {
            // A region that refuses writes serves reads as before.
            let concerns = is_write || !it.is_about_writes();
            !concerns || (it.is_about_writes() && it.is_over(now))
        })
    }

    /// Whether connections to an endpoint work, as far as is known. One that is avoided for another reason answers.
    pub(crate) fn is_reachable(&self, endpoint: &Endpoint) -> bool {
        let mark = self.unavailable_endpoints.get(endpoint);
        mark.is_none_or(|mark| mark.reason != UnavailableReason::TransportError)
    }

    /// Endpoints that have been avoided for long enough to be probed.
    pub(crate) fn due_for_probe(&self, now: Instant) -> impl Iterator<Item = &CosmosEndpoint> {
        let is_due = move |it: &&CosmosEndpoint| {
            let mark = self.unavailable_endpoints.get(&it.endpoint);
            mark.is_some_and(|mark| !mark.is_about_writes() && mark.is_over(now))
        };
        // Every endpoint that accepts writes serves reads too, so each is named once.
        self.read_endpoints().iter().filter(is_due)
    }
}

impl Unavailability {
    /// Only a write can tell whether writes are accepted again, so such a mark ends with its time.
    fn is_about_writes(&self) -> bool {
        self.reason == UnavailableReason::WriteForbidden
    }

    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The state after the account was read. Marks of endpoints that are still there stay.
pub(crate) fn build_account_endpoint_state(
    previous: &AccountEndpointState,
    properties: &AccountProperties,
    preference: &RegionPreference,
) -> AccountEndpointState {
    let mut all: Vec<CosmosEndpoint> = Vec::new();
    let mut endpoints = |locations: &[AccountLocation]| {
        let mut endpoints: Vec<CosmosEndpoint> = Vec::new();
        for location in locations {
            if let Some(endpoint) = endpoint_of(previous, &mut all, location) {
                endpoints.push(endpoint);
            }
        }
        if endpoints.is_empty() {
            endpoints.push(previous.default_endpoint.clone());
        }
        endpoints
    };
    let rank = |it: &CosmosEndpoint| it.region.as_ref().map(|region| preference.rank(region));
    let mut reads = endpoints(&properties.readable_locations);
    let mut writes = endpoints(&properties.writable_locations);
    reads.sort_by_key(rank);
    // In a single-write account the list is the service's word for which region is next.
    let is_multi_write = properties.is_multi_write();
    if is_multi_write {
        writes.sort_by_key(rank);
    }
    let is_there =
        |it: &Endpoint| reads.iter().chain(&writes).any(|present| present.endpoint == *it);
    let (mut unavailable, mut recoveries) =
        (previous.unavailable_endpoints.clone(), previous.recoveries.clone());
    unavailable.retain(|endpoint, _| is_there(endpoint));
    recoveries.retain(|endpoint, _| is_there(endpoint));
    AccountEndpointState {
        preferred_read_endpoints: reads,
        preferred_write_endpoints: writes,
        unavailable_endpoints: unavailable,
        recoveries,
        multiple_write_locations_enabled: is_multi_write,
        default_consistency: properties.default_consistency(),
        default_endpoint: previous.default_endpoint.clone(),
        is_known: true,
        // An account that does not say means what it last said.
        is_hedging_disabled: properties
            .disable_cross_regional_hedging
            .unwrap_or(previous.is_hedging_disabled),
        thin_client_endpoints: properties.thin_client_readable_locations.len(),
        warnings: warnings(properties, preference),
    }
}

/// Regions in the settings that the account does not have: misspelt, or removed.
fn warnings(
    properties: &AccountProperties,
    preference: &RegionPreference,
) -> Option<Arc<[String]>> {
    let is_missing = |region: &&RegionName| {
        properties.readable_locations.iter().all(|location| location.name != **region)
    };
    let names: Vec<&str> =
        properties.readable_locations.iter().map(|location| location.name.as_str()).collect();
    let names = names.join(", ");
    let named = preference.preferred.iter().map(|region| ("preferred region", region));
    let own = preference.application_region.iter().map(|region| ("application's region", region));
    let warnings: Vec<String> = named
        .chain(own)
        .filter(|(_, region)| is_missing(region))
        .map(|(what, region)| format!("the {what} {region} is not one of the account's: {names}"))
        .collect();
    (!warnings.is_empty()).then(|| warnings.into())
}

/// The endpoint of a location, the same value as before where it was known: comparing it then costs a
/// pointer. One that cannot be understood is left out, for the others still serve.
///
/// `all` are the endpoints of the state that is being built.
fn endpoint_of(
    previous: &AccountEndpointState,
    all: &mut Vec<CosmosEndpoint>,
    location: &AccountLocation,
) -> Option<CosmosEndpoint> {
    let endpoint: Endpoint = match location.database_account_endpoint.parse() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::warn!(region = location.name.as_str(), %error, "a region is left out");
            return None;
        }
    };
    let before = || previous.read_endpoints().iter().chain(previous.write_endpoints());
    let known = all.iter().chain(before()).find(|it| it.endpoint == endpoint).cloned();
    let found = known.unwrap_or_else(|| {
        let is_taken = |slot: &usize| all.iter().chain(before()).any(|it| it.slot == *slot);
        // The lowest number that is free; the global endpoint has the first.
        let slot = (1..).find(|slot| !is_taken(slot)).unwrap_or_default();
        CosmosEndpoint { endpoint, region: None, slot }
    });
    let found = CosmosEndpoint { region: Some(location.name.clone()), ..found };
    if !all.contains(&found) {
        all.push(found.clone());
    }
    Some(found)
}

/// The state with an endpoint avoided for a while: for longer if it has recovered only minutes ago.
pub(crate) fn mark_endpoint_unavailable(
    state: &AccountEndpointState,
    endpoint: &Endpoint,
    reason: UnavailableReason,
    now: Instant,
    duration: Duration,
) -> AccountEndpointState {
    let relapses = match state.unavailable_endpoints.get(endpoint) {
        // Found failing again by a probe, or by operations that were under way.
        Some(mark) => mark.relapses,
        None => Recovery::relapses_with(state.recoveries.get(endpoint), now),
    };
    let mut state = state.clone();
    let until = now.checked_add(doubled(duration, relapses, MAX_DOUBLINGS));
    let mark = Unavailability { reason, until, relapses };
    state.unavailable_endpoints.insert(endpoint.clone(), mark);
    state
}

/// The state with an endpoint that serves again.
pub(crate) fn mark_endpoint_available(
    state: &AccountEndpointState,
    endpoint: &Endpoint,
    now: Instant,
) -> AccountEndpointState {
    let mut state = state.clone();
    state.recoveries.retain(|_, recovery| recovery.is_recent(now));
    if let Some(mark) = state.unavailable_endpoints.remove(endpoint) {
        state.recoveries.insert(endpoint.clone(), Recovery::new(now, mark.relapses));
    }
    state
}

/// The state without marks that end with their time. The others end with a probe.
pub(crate) fn expire_unavailable_endpoints(
    state: &AccountEndpointState,
    now: Instant,
) -> AccountEndpointState {
    let mut state = state.clone();
    state.unavailable_endpoints.retain(|_, mark| !(mark.is_about_writes() && mark.is_over(now)));
    state
}

/// The endpoints that one state has and another has not.
pub(crate) fn endpoints_that_left(
    before: &AccountEndpointState,
    after: &AccountEndpointState,
) -> Vec<Endpoint> {
    let all = |state: &AccountEndpointState| {
        let regional = state.read_endpoints().iter().chain(state.write_endpoints());
        let mut all: Vec<Endpoint> = regional.map(|it| it.endpoint.clone()).collect();
        all.sort();
        all.dedup();
        all
    };
    let present = all(after);
    let left = all(before).into_iter();
    left.filter(|it| !present.contains(it) && *it != after.default_endpoint.endpoint).collect()
}

#[cfg(test)]
pub(crate) mod tests;
