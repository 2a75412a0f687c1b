//! Endpoint selection: which region serves the next attempt.
//!
//! Pure functions over the picture of the account taken at the start of an attempt; the caller passes `now`.

use std::time::Instant;

use sidereal_protocol::RegionName;
use smallvec::SmallVec;

use super::{
    AccountEndpointState, CosmosEndpoint, LocationSnapshot, Mechanism, PartitionFailoverConfig,
    PartitionFailoverEntry, PartitionHealth, PartitionId, Traffic,
};
use crate::diagnostics::RetryTarget;
use crate::exchange::Endpoint;

/// The requirements on the endpoint of an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteRequest<'a> {
    /// Reads or writes.
    pub(crate) traffic: Traffic,
    /// The partition that it is about, if that is known.
    pub(crate) partition: Option<&'a PartitionId>,
    /// Whether it may be the one that probes: nothing has failed yet.
    pub(crate) may_probe: bool,
    /// Whether it can be repeated. One that cannot probes only what no other has probed: if it is lost, nothing tells
    /// whether it was applied.
    pub(crate) is_repeatable: bool,
    /// Regions that the call does not want.
    pub(crate) excluded_regions: &'a [RegionName],
    /// Endpoints that the operation has failed on, in this order.
    pub(crate) failed_endpoints: &'a FailedEndpoints,
    /// The endpoint that it is failing on right now, or that it has been waiting for, if there is one.
    pub(crate) current: Option<&'a Endpoint>,
    /// The target by the last decision.
    pub(crate) target: RetryTarget,
}

/// Endpoints that an operation has failed on; inline for as many regions as most accounts have.
pub(crate) type FailedEndpoints = SmallVec<[Endpoint; 4]>;

/// The endpoint of an attempt, or the choice between a probe and the endpoint that serves its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route<'a> {
    /// To an endpoint.
    To(&'a CosmosEndpoint),
    /// To the region that a partition has left, if the caller gets to be its probe, and else to where the
    /// partition is served.
    ProbeOr {
        /// The region that it has left.
        home: &'a CosmosEndpoint,
        /// Where it is served.
        moved_to: &'a CosmosEndpoint,
    },
}

/// Picks the route of the next attempt: of its partition, where that has moved, and else of the account.
pub(crate) fn resolve_route<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> Route<'a> {
    let account = &*snapshot.account;
    if let Some(writer) = writer_with_the_session(snapshot, request, config, now) {
        return Route::To(writer);
    }
    let Some(entry) = moved_partition(snapshot, request, request.traffic, config, now) else {
        return Route::To(resolve_endpoint(snapshot, request, now));
    };
    let is_usable = |it: &CosmosEndpoint| {
        !has_failed(it, request) && !is_excluded(it, request.excluded_regions)
    };
    let (home, moved_to) = (entry.first_failed_endpoint(), entry.current_endpoint());
    let is_due = entry.health(now, config) == PartitionHealth::ProbeCandidate
        && (request.is_repeatable || entry.is_overdue(now, config))
        && !awaits_probe_of_reads(snapshot, request, entry, config, now);
    let is_home_up = account.is_available(&home.endpoint, request.traffic == Traffic::Writes, now);
    match is_usable(moved_to) && account.is_reachable(&moved_to.endpoint) {
        true if is_due && request.may_probe && is_home_up && is_usable(home) => {
            Route::ProbeOr { home, moved_to }
        }
        true => Route::To(moved_to),
        // The operation cannot go where the partition has moved: anywhere but where the partition fails. If that
        // is everywhere else, it was others that met those failures: what is left is doubtful, and still tried
        // before a region that has failed the operation itself.
        false => {
            let mut failed = request.failed_endpoints.clone();
            failed.extend(entry.failed_endpoints().cloned());
            let elsewhere = RouteRequest { failed_endpoints: &failed, ..*request };
            let is_left = is_elsewhere_left(snapshot, &elsewhere);
            let request = if is_left { &elsewhere } else { request };
            Route::To(resolve_endpoint(snapshot, request, now))
        }
    }
}

/// Whether a write leaves the probe of a region to the reads of its partition, which have left that region too.
///
/// In an account where every region accepts writes, the write of a probe is in the region that was left alone until it is
/// replicated, and the partition's reads elsewhere wait for it. Not for ever: a partition may have no reads any more.
fn awaits_probe_of_reads(
    snapshot: &LocationSnapshot,
    request: &RouteRequest<'_>,
    entry: &PartitionFailoverEntry,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> bool {
    if request.traffic == Traffic::Reads || !snapshot.account.is_multi_write() {
        return false;
    }
    let left = moved_partition(snapshot, request, Traffic::Reads, config, now);
    left.is_some_and(|reads| {
        reads.first_failed_endpoint() == entry.first_failed_endpoint()
            && !reads.is_overdue(now, config)
    })
}

/// Where a read goes whose session has not arrived in the regions that it has tried: to the region that accepts
/// the partition's writes, for all others may be behind it, and then to others that accept writes.
///
/// Also if the circuit breaker has moved the partition's reads away from there: no region that they moved to is
/// certain to have the session. Not if it cannot be reached: every such read would wait for a connection first.
fn writer_with_the_session<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> Option<&'a CosmosEndpoint> {
    let account = &*snapshot.account;
    let is_looked_for = request.target == RetryTarget::WriteRegion
        && request.traffic == Traffic::Reads
        // Every region accepts writes, and none has those of all others.
        && !account.is_multi_write();
    if !is_looked_for {
        return None;
    }
    let moved = moved_partition(snapshot, request, Traffic::Writes, config, now);
    let moved_to = moved.map(PartitionFailoverEntry::current_endpoint);
    moved_to.into_iter().chain(account.write_endpoints()).find(|it| {
        !has_failed(it, request)
            && !is_excluded(it, request.excluded_regions)
            && account.is_reachable(&it.endpoint)
    })
}

/// The region that is certain to have a session: the one that accepts the partition's writes, in an account where only one
/// does.
pub(crate) fn session_home<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> Option<&'a CosmosEndpoint> {
    let account = &*snapshot.account;
    if account.is_multi_write() {
        return None;
    }
    let moved = moved_partition(snapshot, request, Traffic::Writes, config, now);
    let moved_to = moved.map(PartitionFailoverEntry::current_endpoint);
    moved_to.or_else(|| account.write_endpoints().first())
}

/// The region of [`session_home`], if it is in service for the partition's reads.
pub(crate) fn serving_session_home<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> Option<&'a CosmosEndpoint> {
    let account = &*snapshot.account;
    let writer = session_home(snapshot, request, config, now)?;
    let left = moved_partition(snapshot, request, Traffic::Reads, config, now);
    let has_left = left.is_some_and(|it| it.failed_endpoints().any(|it| *it == writer.endpoint));
    (!has_left
        && !has_failed(writer, request)
        && !is_excluded(writer, request.excluded_regions)
        && account.is_available(&writer.endpoint, false, now))
    .then_some(writer)
}

/// The entry of the attempt's partition, if that traffic of it has moved.
fn moved_partition<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    traffic: Traffic,
    config: &PartitionFailoverConfig,
    now: Instant,
) -> Option<&'a PartitionFailoverEntry> {
    // The usual case, without a search.
    if snapshot.partitions.is_empty() {
        return None;
    }
    let entry = snapshot.partitions.entry(request.partition?, traffic)?;
    (entry.health(now, config) != PartitionHealth::Counting).then_some(entry)
}

/// Picks the endpoint for the next attempt.
///
/// 1. The first preferred one that is neither excluded, nor avoided by the account, nor one that the
///    operation has failed on.
/// 2. The first that the operation has not failed on: an attempt at a doubtful region can still succeed.
/// 3. The one it failed on last: there is nowhere else to go.
///
/// Excluded regions are used only if every region is excluded: no region would mean no attempt.
fn resolve_endpoint<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    now: Instant,
) -> &'a CosmosEndpoint {
    let state = &*snapshot.account;
    if let Some(first) = first_if_nothing_is_wrong(state, request) {
        return first;
    }
    let untried = || candidates(snapshot, request).filter(|it| !has_failed(it, request));
    let last_failed = || {
        let last = request.failed_endpoints.last()?;
        candidates(snapshot, request).find(|it| it.endpoint == *last)
    };
    untried()
        .find(|it| is_in_service(snapshot, it, request.traffic, now))
        .or_else(|| untried().next())
        .or_else(last_failed)
        .or_else(|| candidates(snapshot, request).next())
        .unwrap_or(state.default_endpoint())
}

/// Whether an endpoint may be chosen before others.
///
/// With automatic partition failover the write region takes the writes of every partition that has not moved,
/// whatever became of the others; unless it cannot be reached: every write would wait for a connection first.
fn is_in_service(
    snapshot: &LocationSnapshot,
    candidate: &CosmosEndpoint,
    traffic: Traffic,
    now: Instant,
) -> bool {
    let account = &*snapshot.account;
    let is_write = traffic == Traffic::Writes;
    let follows_partitions =
        is_write && snapshot.partitions.mechanism(account, traffic) == FOLLOWS_PARTITIONS;
    let is_writer = || account.write_endpoints().iter().any(|it| it == candidate);
    let is_chosen_writer =
        || follows_partitions && is_writer() && account.is_reachable(&candidate.endpoint);
    is_chosen_writer() || account.is_available(&candidate.endpoint, is_write, now)
}

/// The mechanism under which the service itself moves the writes of a partition.
const FOLLOWS_PARTITIONS: Option<Mechanism> = Some(Mechanism::AutomaticFailover);

/// The usual case, without a search: nothing failed, nothing is avoided or excluded.
fn first_if_nothing_is_wrong<'a>(
    state: &'a AccountEndpointState,
    request: &RouteRequest<'_>,
) -> Option<&'a CosmosEndpoint> {
    let is_usual = state.has_no_marks()
        && request.failed_endpoints.is_empty()
        && request.excluded_regions.is_empty()
        && request.current.is_none();
    let endpoints = match request.traffic {
        Traffic::Writes => state.write_endpoints(),
        Traffic::Reads => state.read_endpoints(),
    };
    endpoints.first().filter(|_| is_usual)
}

/// Whether there is an endpoint that the operation has not failed on.
pub(crate) fn is_elsewhere_left(snapshot: &LocationSnapshot, request: &RouteRequest<'_>) -> bool {
    candidates(snapshot, request).any(|it| !has_failed(it, request))
}

/// Whether there is an endpoint that the operation has not failed on, and whose connections work as far as is known.
pub(crate) fn is_reachable_elsewhere(
    snapshot: &LocationSnapshot,
    request: &RouteRequest<'_>,
) -> bool {
    let is_left = |it: &CosmosEndpoint| {
        !has_failed(it, request) && snapshot.account.is_reachable(&it.endpoint)
    };
    candidates(snapshot, request).any(is_left)
}

/// Where a hedge goes: the next endpoint in service that the operation has neither failed on nor waits for.
/// Excluded regions are not hedged to, ever.
pub(crate) fn resolve_hedge<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
    now: Instant,
) -> Option<&'a CosmosEndpoint> {
    let entry = request.partition.and_then(|it| snapshot.partitions.entry(it, request.traffic));
    let fails_there = |it: &CosmosEndpoint| {
        entry.is_some_and(|entry| entry.failed_endpoints().any(|failed| *failed == it.endpoint))
    };
    candidates(snapshot, request).find(|it| {
        !has_failed(it, request)
            && !is_excluded(it, request.excluded_regions)
            && !fails_there(it)
            && is_in_service(snapshot, it, request.traffic, now)
    })
}

fn has_failed(candidate: &CosmosEndpoint, request: &RouteRequest<'_>) -> bool {
    request.current == Some(&candidate.endpoint)
        || request.failed_endpoints.contains(&candidate.endpoint)
}

fn is_excluded(candidate: &CosmosEndpoint, excluded: &[RegionName]) -> bool {
    candidate.region.as_ref().is_some_and(|region| excluded.contains(region))
}

/// The endpoints that could serve, in the order of preference.
fn candidates<'a>(
    snapshot: &'a LocationSnapshot,
    request: &RouteRequest<'_>,
) -> impl Iterator<Item = &'a CosmosEndpoint> {
    let state = &*snapshot.account;
    let (reads, writes) = (state.read_endpoints(), state.write_endpoints());
    // The write region first where a session is looked for; in a multi-write account every region is one.
    let wants_write_region = request.target == RetryTarget::WriteRegion && !state.is_multi_write();
    // A partition's writes may have been moved to any region that serves its reads.
    let may_have_moved = request.partition.is_some()
        && snapshot.partitions.mechanism(state, Traffic::Writes) == FOLLOWS_PARTITIONS;
    let (first, second) = match (request.traffic, wants_write_region, may_have_moved) {
        (Traffic::Writes, _, false) => (writes, &[][..]),
        (Traffic::Writes, _, true) | (Traffic::Reads, true, _) => (writes, reads),
        (Traffic::Reads, false, _) => (reads, &[][..]),
    };
    let excluded = request.excluded_regions;
    let all_excluded = first.iter().chain(second).all(|it| is_excluded(it, excluded));
    let allowed: SmallVec<[&CosmosEndpoint; 8]> = first
        .iter()
        .chain(second)
        .filter(|it| all_excluded || !is_excluded(it, excluded))
        .collect();
    allowed.into_iter()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::account_endpoint_state::tests::{account, endpoint, multi_write, snapshot};
    use super::super::{mark_endpoint_unavailable, partition_endpoint_state::tests as partitions};
    use super::*;
    use crate::options::OptionLayers;
    use crate::retry::UnavailableReason;

    const MINUTE: Duration = Duration::from_secs(60);

    struct Asked {
        traffic: Traffic,
        partition: Option<PartitionId>,
        may_probe: bool,
        excluded: Vec<RegionName>,
        failed: FailedEndpoints,
        target: RetryTarget,
    }

    impl Asked {
        fn read() -> Self {
            Self {
                traffic: Traffic::Reads,
                partition: None,
                may_probe: true,
                excluded: Vec::new(),
                failed: FailedEndpoints::new(),
                target: RetryTarget::NextPreferred,
            }
        }

        fn write() -> Self {
            Self { traffic: Traffic::Writes, ..Self::read() }
        }

        fn of_partition(mut self, range: u32) -> Self {
            self.partition = Some(partitions::id(range));
            self
        }

        fn excluding(mut self, regions: &[&str]) -> Self {
            self.excluded = regions.iter().map(|it| RegionName::from(*it)).collect();
            self
        }

        fn after_failing_in(mut self, regions: &[&str]) -> Self {
            self.failed = regions.iter().map(|it| endpoint(it)).collect();
            self
        }

        fn request(&self) -> RouteRequest<'_> {
            RouteRequest {
                traffic: self.traffic,
                partition: self.partition.as_ref(),
                may_probe: self.may_probe,
                is_repeatable: true,
                excluded_regions: &self.excluded,
                failed_endpoints: &self.failed,
                current: None,
                target: self.target,
            }
        }

        fn region(&self, state: &AccountEndpointState, now: Instant) -> String {
            self.route(&snapshot(state.clone(), false), now)
        }

        /// The region, or the two of a probe.
        fn route(&self, snapshot: &LocationSnapshot, now: Instant) -> String {
            let name = |it: &CosmosEndpoint| {
                it.region.as_ref().map_or_else(String::new, |it| it.as_str().to_owned())
            };
            let config = PartitionFailoverConfig::of(&OptionLayers::default());
            match resolve_route(snapshot, &self.request(), &config, now) {
                Route::To(endpoint) => name(endpoint),
                Route::ProbeOr { home, moved_to } => {
                    format!("{} or {}", name(home), name(moved_to))
                }
            }
        }
    }

    fn elsewhere(state: &AccountEndpointState, request: &RouteRequest<'_>) -> bool {
        is_elsewhere_left(&snapshot(state.clone(), false), request)
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
        let snapshot = snapshot(state, false);
        let found = resolve_endpoint(&snapshot, &Asked::write().request(), Instant::now());
        assert_eq!((&found.endpoint, &found.region), (&global, &None));
    }

    #[test]
    fn excluded_regions_are_skipped_unless_all_are_excluded() {
        let (state, now) = (account(&["West", "East"], &[]), Instant::now());
        assert_eq!(Asked::read().excluding(&["west"]).region(&state, now), "East");
        assert_eq!(Asked::read().excluding(&["West", "East"]).region(&state, now), "West");
    }

    #[test]
    fn an_avoided_region_is_skipped_until_a_probe_ends_its_mark() {
        let (state, start) = (account(&["West", "East"], &[]), Instant::now());
        let reason = UnavailableReason::TransportError;
        let state = mark_endpoint_unavailable(&state, &endpoint("West"), reason, start, MINUTE);
        assert_eq!(Asked::read().region(&state, start), "East");
        assert_eq!(Asked::read().region(&state, start + 2 * MINUTE), "East");
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
    fn a_region_that_failed_the_operation_is_tried_last() {
        let (state, now) = (account(&["West", "East"], &[]), Instant::now());
        let reason = UnavailableReason::TransportError;
        let marked = mark_endpoint_unavailable(&state, &endpoint("East"), reason, now, MINUTE);
        let once = Asked::read().after_failing_in(&["West"]);
        assert_eq!(once.region(&marked, now), "East", "doubtful, but not failed on");
        assert!(elsewhere(&marked, &once.request()));
        let (east, asked) = (endpoint("East"), once.request());
        assert!(!elsewhere(&marked, &RouteRequest { current: Some(&east), ..asked }));
        let twice = Asked::read().after_failing_in(&["West", "East"]);
        assert_eq!(twice.region(&marked, now), "East", "the last one, in place");
        assert!(!elsewhere(&marked, &twice.request()));
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

    /// A read whose session had not arrived where its partition's reads had moved was sent to every other region
    /// before the one that has all sessions, because the partition had failed there.
    #[test]
    fn a_session_is_read_in_the_write_region_even_if_reads_have_left_it() {
        let now = Instant::now();
        let moved = partitions::moved(&["West", "East", "North"], "West", 0, now);
        let mut asked = Asked::read().of_partition(0).after_failing_in(&["East"]);
        assert_eq!(asked.route(&moved, now), "North", "it fails there");
        asked.target = RetryTarget::WriteRegion;
        assert_eq!(asked.route(&moved, now), "West");
        asked.excluded = vec![RegionName::from("West")];
        assert_eq!(asked.route(&moved, now), "North", "the call does not want it");
        asked.excluded.clear();
        let reason = UnavailableReason::TransportError;
        let marked =
            mark_endpoint_unavailable(&moved.account, &endpoint("West"), reason, now, MINUTE);
        let down = LocationSnapshot { account: std::sync::Arc::new(marked), ..moved };
        assert_eq!(asked.route(&down, now), "North", "it cannot be reached");
    }

    #[test]
    fn a_partition_that_moved_is_served_where_it_is_whatever_the_account_says() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let moved = partitions::moved(&["West", "East", "North"], "West", 0, now);
        assert_eq!(Asked::read().of_partition(0).route(&moved, now), "East");
        assert_eq!(Asked::read().of_partition(1).route(&moved, now), "West", "another partition");
        assert_eq!(Asked::read().route(&moved, now), "West", "no partition is known");
        let counting = partitions::counting(&["West", "East"], "West", 0, now);
        assert_eq!(Asked::read().of_partition(0).route(&counting, now), "West");
        let elsewhere = Asked::read().of_partition(0).excluding(&["East"]);
        assert_eq!(elsewhere.route(&moved, now), "North", "not where it fails");
        let failed = Asked::read().of_partition(0).after_failing_in(&["East"]);
        assert_eq!(failed.route(&moved, now + second), "North");
    }

    /// An operation met a partition whose other regions had failed others: it went to the same region three times
    /// without a pause and gave up, while there was one that it had not tried.
    #[test]
    fn a_failed_partition_s_region_comes_before_a_failed_operation_s() {
        let now = Instant::now();
        let moved = partitions::moved(&["West", "East", "North"], "West", 0, now);
        let asked = Asked::read().of_partition(0).after_failing_in(&["East", "North"]);
        assert_eq!(asked.route(&moved, now), "West");
        let everywhere = Asked::read().of_partition(0).after_failing_in(&["East", "West", "North"]);
        assert_eq!(everywhere.route(&moved, now), "North", "the last one, in place");
    }

    #[test]
    fn the_region_that_a_partition_left_is_probed_when_its_time_has_come() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let moved = partitions::moved(&["West", "East"], "West", 0, now);
        let later = now + 5 * second;
        assert_eq!(Asked::read().of_partition(0).route(&moved, later), "West or East");
        let mut unrepeatable = Asked::read().of_partition(0);
        unrepeatable.may_probe = false;
        assert_eq!(unrepeatable.route(&moved, later), "East");
        let excluded = Asked::read().of_partition(0).excluding(&["West"]);
        assert_eq!(excluded.route(&moved, later), "East");
        let reason = UnavailableReason::TransportError;
        let (west, account) = (endpoint("West"), &moved.account);
        let marked = mark_endpoint_unavailable(account, &west, reason, now, MINUTE);
        let down = LocationSnapshot { account: std::sync::Arc::new(marked), ..moved };
        assert_eq!(Asked::read().of_partition(0).route(&down, later), "East", "its region is down");
    }

    #[test]
    fn writes_follow_their_partition_where_the_service_moves_it() {
        let now = Instant::now();
        let single = snapshot(account(&["West", "East"], &["East"]), true);
        let write = Asked::write().of_partition(0);
        assert_eq!(write.route(&single, now), "West");
        let failed = Asked::write().of_partition(0).after_failing_in(&["West"]);
        assert_eq!(failed.route(&single, now), "East");
        let whole = Asked::write().after_failing_in(&["West"]);
        assert_eq!(whole.route(&single, now), "West", "metadata is written in the write region");
    }

    /// Every write tried to connect to a write region that was down before it went where its partition had moved.
    #[test]
    fn movable_writes_skip_an_unreachable_write_region() {
        let now = Instant::now();
        let (state, west) = (account(&["West", "East", "North"], &[]), endpoint("West"));
        let mark = |reason| {
            let marked = mark_endpoint_unavailable(&state, &west, reason, now, MINUTE);
            snapshot(marked, true)
        };
        let write = Asked::write().of_partition(0);
        assert_eq!(write.route(&mark(UnavailableReason::TransportError), now), "East");
        // It answers: where one partition's writes go says nothing of the others.
        assert_eq!(write.route(&mark(UnavailableReason::WriteForbidden), now), "West");
        let refused = Asked::write().of_partition(0).after_failing_in(&["East", "North"]);
        assert_eq!(refused.route(&mark(UnavailableReason::TransportError), now), "West");
    }

    #[test]
    fn a_partition_is_not_looked_for_where_no_connection_can_be_made() {
        let now = Instant::now();
        let moved = partitions::moved(&["West", "East", "North"], "West", 0, now);
        let reason = UnavailableReason::TransportError;
        let marked =
            mark_endpoint_unavailable(&moved.account, &endpoint("East"), reason, now, MINUTE);
        let down = LocationSnapshot { account: std::sync::Arc::new(marked), ..moved };
        assert_eq!(Asked::read().of_partition(0).route(&down, now), "North");
    }

    #[test]
    fn a_hedge_avoids_regions_that_were_tried_marked_or_excluded() {
        let now = Instant::now();
        let (state, west) = (account(&["West", "East", "North"], &[]), endpoint("West"));
        let hedge = |asked: &Asked, state: &AccountEndpointState| {
            let snapshot = snapshot(state.clone(), false);
            let request = RouteRequest { current: Some(&west), ..asked.request() };
            let found = resolve_hedge(&snapshot, &request, now);
            found.map(|it| it.region.as_ref().unwrap().as_str().to_owned())
        };
        assert_eq!(hedge(&Asked::read(), &state).as_deref(), Some("East"));
        let excluding = Asked::read().excluding(&["East"]);
        assert_eq!(hedge(&excluding, &state).as_deref(), Some("North"));
        assert_eq!(hedge(&Asked::read().excluding(&["East", "North"]), &state), None);
        let reason = UnavailableReason::TransportError;
        let marked = mark_endpoint_unavailable(&state, &endpoint("East"), reason, now, MINUTE);
        assert_eq!(hedge(&Asked::read(), &marked).as_deref(), Some("North"));
        assert_eq!(hedge(&Asked::write(), &state), None, "one region accepts writes");
    }
}
