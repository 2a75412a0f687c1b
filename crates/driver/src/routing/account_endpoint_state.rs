//! What is known of an account's endpoints: an immutable picture, replaced whole.
//!
//! Plain data and pure functions: nothing here reads a clock or waits. `location_state_store.rs` holds the
//! current picture.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sidereal_protocol::{AccountLocation, AccountProperties, ConsistencyLevel, RegionName};

use crate::retry::UnavailableReason;
use crate::transport::Endpoint;

/// An endpoint of an account, with its region. The global endpoint has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CosmosEndpoint {
    pub(crate) endpoint: Endpoint,
    pub(crate) region: Option<RegionName>,
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
    multiple_write_locations_enabled: bool,
    default_consistency: ConsistencyLevel,
    /// The global endpoint: where the account is read, and all there is until it has been.
    default_endpoint: CosmosEndpoint,
    is_known: bool,
}

/// Why an endpoint is avoided, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unavailability {
    pub(crate) reason: UnavailableReason,
    /// None is for ever: later than a clock can tell.
    pub(crate) until: Option<Instant>,
}

/// Which regions the application would rather talk to.
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
        let default_endpoint = CosmosEndpoint { endpoint: default_endpoint, region: None };
        Self {
            preferred_read_endpoints: vec![default_endpoint.clone()],
            preferred_write_endpoints: vec![default_endpoint.clone()],
            unavailable_endpoints: BTreeMap::new(),
            multiple_write_locations_enabled: false,
            // As an account that does not say.
            default_consistency: ConsistencyLevel::Session,
            default_endpoint,
            is_known: false,
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
            let concerns = is_write || it.reason != UnavailableReason::WriteForbidden;
            !concerns || it.until.is_some_and(|until| until <= now)
        })
    }
}

/// The state after the account was read. Marks of endpoints that are still there stay.
pub(crate) fn build_account_endpoint_state(
    previous: &AccountEndpointState,
    properties: &AccountProperties,
    preference: &RegionPreference,
) -> AccountEndpointState {
    let endpoints = |locations: &[AccountLocation]| {
        let known = locations.iter().filter_map(|location| endpoint_of(previous, location));
        let mut endpoints: Vec<CosmosEndpoint> = known.collect();
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
    let mut unavailable = previous.unavailable_endpoints.clone();
    unavailable.retain(|endpoint, _| {
        reads.iter().chain(&writes).any(|present| present.endpoint == *endpoint)
    });
    AccountEndpointState {
        preferred_read_endpoints: reads,
        preferred_write_endpoints: writes,
        unavailable_endpoints: unavailable,
        multiple_write_locations_enabled: is_multi_write,
        default_consistency: properties.default_consistency(),
        default_endpoint: previous.default_endpoint.clone(),
        is_known: true,
    }
}

/// The endpoint of a location, the same value as before where it was known: comparing it then costs a
/// pointer. One that cannot be understood is left out, for the others still serve.
fn endpoint_of(
    previous: &AccountEndpointState,
    location: &AccountLocation,
) -> Option<CosmosEndpoint> {
    let endpoint: Endpoint = match location.database_account_endpoint.parse() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            tracing::warn!(region = location.name.as_str(), %error, "a region is left out");
            return None;
        }
    };
    let known = previous.read_endpoints().iter().chain(previous.write_endpoints());
    let endpoint =
        known.map(|it| &it.endpoint).find(|it| **it == endpoint).cloned().unwrap_or(endpoint);
    Some(CosmosEndpoint { endpoint, region: Some(location.name.clone()) })
}

/// The state with an endpoint avoided for a while.
pub(crate) fn mark_endpoint_unavailable(
    state: &AccountEndpointState,
    endpoint: &Endpoint,
    reason: UnavailableReason,
    now: Instant,
    duration: Duration,
) -> AccountEndpointState {
    let mut state = state.clone();
    let mark = Unavailability { reason, until: now.checked_add(duration) };
    state.unavailable_endpoints.insert(endpoint.clone(), mark);
    state
}

/// The state without marks that have expired.
pub(crate) fn expire_unavailable_endpoints(
    state: &AccountEndpointState,
    now: Instant,
) -> AccountEndpointState {
    let mut state = state.clone();
    state.unavailable_endpoints.retain(|_, mark| mark.until.is_none_or(|until| until > now));
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
