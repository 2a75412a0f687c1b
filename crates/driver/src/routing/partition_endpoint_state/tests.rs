use std::time::Duration;

use super::super::LocationSnapshot;
use super::super::account_endpoint_state::tests::{account, endpoint, multi_write, snapshot};
use super::*;
use crate::options::{CosmosRuntimeOptions, OptionLayers, RetryOptions};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn id(range: u32) -> PartitionId {
    PartitionId { container_rid: "rid".into(), range: range.into() }
}

fn config() -> PartitionFailoverConfig {
    PartitionFailoverConfig::of(&OptionLayers::default())
}

fn at(snapshot: &LocationSnapshot, region: &str) -> CosmosEndpoint {
    let mut all = snapshot.account.read_endpoints().iter();
    all.find(|it| it.endpoint == endpoint(region)).unwrap().clone()
}

/// The picture after a partition failed so many times in a region.
fn after_failures(
    snapshot: &LocationSnapshot,
    range: u32,
    region: &str,
    traffic: Traffic,
    times: u32,
    now: Instant,
) -> LocationSnapshot {
    let endpoint = at(snapshot, region);
    let (partition, mut after) = (id(range), snapshot.clone());
    for _ in 0..times {
        let failed = UnavailablePartition {
            partition: &partition,
            endpoint: &endpoint,
            traffic,
            is_probe: false,
        };
        let (account, config) = (&after.account, config());
        let partitions =
            mark_partition_unavailable(&after.partitions, account, &failed, now, &config);
        after.partitions = Arc::new(partitions);
    }
    after
}

/// Reads of a partition failed once.
pub(crate) fn counting(
    regions: &[&str],
    failed: &str,
    range: u32,
    now: Instant,
) -> LocationSnapshot {
    let snapshot = snapshot(account(regions, &[]), false);
    after_failures(&snapshot, range, failed, Traffic::Reads, 1, now)
}

/// Reads of a partition failed until it moved.
pub(crate) fn moved(regions: &[&str], failed: &str, range: u32, now: Instant) -> LocationSnapshot {
    let snapshot = snapshot(account(regions, &[]), false);
    after_failures(&snapshot, range, failed, Traffic::Reads, 3, now)
}

fn serving(snapshot: &LocationSnapshot, range: u32, traffic: Traffic) -> Option<String> {
    let entry = snapshot.partitions.entry(&id(range), traffic)?;
    Some(entry.current_endpoint().region.as_ref().unwrap().as_str().to_owned())
}

fn health(snapshot: &LocationSnapshot, traffic: Traffic, now: Instant) -> Option<PartitionHealth> {
    Some(snapshot.partitions.entry(&id(0), traffic)?.health(now, &config()))
}

#[test]
fn automatic_failover_moves_a_partition_s_writes_at_the_first_failure() {
    let (before, now) = (snapshot(account(&["West", "East"], &[]), true), Instant::now());
    let after = after_failures(&before, 0, "West", Traffic::Writes, 1, now);
    assert_eq!(serving(&after, 0, Traffic::Writes).as_deref(), Some("East"));
    assert_eq!(serving(&after, 0, Traffic::Reads), None);
}

#[test]
fn the_circuit_opens_when_more_have_failed_than_the_threshold() {
    let now = Instant::now();
    let everywhere = snapshot(multi_write(&["West", "East"]), false);
    for (traffic, threshold) in [(Traffic::Reads, 2), (Traffic::Writes, 5)] {
        let at_it = after_failures(&everywhere, 0, "West", traffic, threshold, now);
        assert_eq!(serving(&at_it, 0, traffic).as_deref(), Some("West"));
        assert_eq!(health(&at_it, traffic, now), Some(PartitionHealth::Counting));
        let beyond = after_failures(&at_it, 0, "West", traffic, 1, now);
        assert_eq!(serving(&beyond, 0, traffic).as_deref(), Some("East"));
        assert_eq!(health(&beyond, traffic, now), Some(PartitionHealth::Unhealthy));
    }
}

#[test]
fn failures_further_apart_than_the_window_do_not_add_up() {
    let (before, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    let two = after_failures(&before, 0, "West", Traffic::Reads, 2, now);
    let within = now + 300 * SECOND;
    let third = after_failures(&two, 0, "West", Traffic::Reads, 1, within);
    assert_eq!(serving(&third, 0, Traffic::Reads).as_deref(), Some("East"));
    let beyond = now + 301 * SECOND;
    let begun_anew = after_failures(&two, 0, "West", Traffic::Reads, 2, beyond);
    assert_eq!(serving(&begun_anew, 0, Traffic::Reads).as_deref(), Some("West"));
}

#[test]
fn a_partition_moves_region_by_region_and_returns_when_all_failed() {
    let now = Instant::now();
    let moved = moved(&["West", "East", "North"], "West", 0, now);
    let on = after_failures(&moved, 0, "East", Traffic::Reads, 1, now);
    assert_eq!(serving(&on, 0, Traffic::Reads).as_deref(), Some("North"));
    let exhausted = after_failures(&on, 0, "North", Traffic::Reads, 1, now);
    assert!(exhausted.partitions.is_empty());
}

/// Ten operations that failed at once in the first region moved the partition past the second one.
#[test]
fn a_failure_where_a_partition_was_before_does_not_move_it_again() {
    let now = Instant::now();
    let moved = moved(&["West", "East", "North"], "West", 0, now);
    let again = after_failures(&moved, 0, "West", Traffic::Reads, 10, now);
    assert_eq!(serving(&again, 0, Traffic::Reads).as_deref(), Some("East"));
}

#[test]
fn a_region_that_an_operation_s_own_retry_found_failing_is_passed_over() {
    let (before, now) = (snapshot(account(&["West", "East", "North"], &[]), false), Instant::now());
    let counting = after_failures(&before, 0, "West", Traffic::Reads, 1, now);
    let retried = after_failures(&counting, 0, "East", Traffic::Reads, 5, now);
    assert_eq!(serving(&retried, 0, Traffic::Reads).as_deref(), Some("West"), "not its failures");
    let moved = after_failures(&retried, 0, "West", Traffic::Reads, 2, now);
    assert_eq!(serving(&moved, 0, Traffic::Reads).as_deref(), Some("North"));
}

#[test]
fn what_may_move_follows_from_the_account_the_traffic_and_the_settings() {
    let failover = Some(Mechanism::AutomaticFailover);
    let breaker = Some(Mechanism::CircuitBreaker);
    let mechanisms = |account: AccountEndpointState, asks| {
        let snapshot = snapshot(account, asks);
        [Traffic::Reads, Traffic::Writes]
            .map(|traffic| snapshot.partitions.mechanism(&snapshot.account, traffic))
    };
    let single = || account(&["West", "East"], &[]);
    let multi = || multi_write(&["West", "East"]);
    assert_eq!(mechanisms(single(), true), [breaker, failover]);
    assert_eq!(mechanisms(single(), false), [breaker, None]);
    assert_eq!(mechanisms(multi(), true), [breaker, breaker]);
    assert_eq!(mechanisms(multi(), false), [breaker, breaker]);
    assert_eq!(mechanisms(account(&["West"], &[]), true), [None, None], "nowhere to go");
    // Until the account is read, nothing is known to move to.
    let nothing = PartitionEndpointState::default();
    assert_eq!(nothing.mechanism(&single(), Traffic::Reads), None);
}

#[test]
fn settings_turn_mechanisms_off() {
    let runtime = |retry: RetryOptions| {
        let options = CosmosRuntimeOptions { retry, ..CosmosRuntimeOptions::default() };
        let layers = OptionLayers::new(Arc::default(), Arc::new(options), Arc::default());
        PartitionFailoverConfig::of(&layers)
    };
    let enabled = |config: &PartitionFailoverConfig, asks| {
        let account = account(&["West", "East"], &[]);
        let state = PartitionEndpointState::default();
        let state = sync_partition_endpoint_state(&state, &account, asks, config);
        [Traffic::Reads, Traffic::Writes].map(|it| state.mechanism(&account, it).is_some())
    };
    let off = runtime(RetryOptions::default().with_disable_partition_level_failover(true));
    assert_eq!(enabled(&off, true), [false, false]);
    let no_breaker =
        runtime(RetryOptions::default().with_enable_partition_level_circuit_breaker(false));
    assert_eq!(enabled(&no_breaker, false), [false, false]);
    assert_eq!(enabled(&no_breaker, true), [true, true], "the account turns it on");
}

#[test]
fn an_ineligible_failure_leaves_no_entry() {
    let (single, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    let after = after_failures(&single, 0, "West", Traffic::Writes, 10, now);
    assert!(after.partitions.is_empty());
}

#[test]
fn a_moved_partition_is_a_probe_candidate_once_its_time_has_come() {
    let now = Instant::now();
    let moved = moved(&["West", "East"], "West", 0, now);
    let reads = |after| health(&moved, Traffic::Reads, now + after);
    assert_eq!(reads(4 * SECOND), Some(PartitionHealth::Unhealthy));
    assert_eq!(reads(5 * SECOND), Some(PartitionHealth::ProbeCandidate));
    let counting = counting(&["West", "East"], "West", 0, now);
    let later = health(&counting, Traffic::Reads, now + 60 * SECOND);
    assert_eq!(later, Some(PartitionHealth::Counting), "it has not left");
}

#[test]
fn a_probe_that_fails_is_made_again_after_the_same_time() {
    let (now, config) = (Instant::now(), config());
    let moved = moved(&["West", "East"], "West", 0, now);
    let probed_at = now + 5 * SECOND;
    let claimed = claim_probe(&moved.partitions, &id(0), Traffic::Reads, probed_at, &config);
    let claimed = LocationSnapshot { partitions: Arc::new(claimed), ..moved };
    let during = health(&claimed, Traffic::Reads, probed_at + SECOND);
    assert_eq!(during, Some(PartitionHealth::Unhealthy), "others stay where it is served");
    let (partition, west) = (id(0), at(&claimed, "West"));
    let failed = UnavailablePartition {
        partition: &partition,
        endpoint: &west,
        traffic: Traffic::Reads,
        is_probe: true,
    };
    let ended = probed_at + SECOND;
    let partitions =
        mark_partition_unavailable(&claimed.partitions, &claimed.account, &failed, ended, &config);
    let after = LocationSnapshot { partitions: Arc::new(partitions), ..claimed };
    assert_eq!(serving(&after, 0, Traffic::Reads).as_deref(), Some("East"));
    let reads = |at| health(&after, Traffic::Reads, at);
    assert_eq!(reads(ended + 4 * SECOND), Some(PartitionHealth::Unhealthy));
    assert_eq!(reads(ended + 5 * SECOND), Some(PartitionHealth::ProbeCandidate));
}

#[test]
fn partitions_are_probed_apart_from_each_other() {
    let (now, config) = (Instant::now(), config());
    let moved = moved(&["West", "East"], "West", 0, now);
    let both = after_failures(&moved, 1, "West", Traffic::Reads, 3, now);
    let later = now + 5 * SECOND;
    let claimed = claim_probe(&both.partitions, &id(0), Traffic::Reads, later, &config);
    let other = claimed.entry(&id(1), Traffic::Reads).unwrap();
    assert_eq!(other.health(later, &config), PartitionHealth::ProbeCandidate);
}

#[test]
fn a_lease_that_no_clock_can_hold_lasts_until_its_outcome() {
    let now = Instant::now();
    let moved = moved(&["West", "East"], "West", 0, now);
    let config = {
        let mut config = config();
        config.settings.probe_lease = Duration::MAX;
        config
    };
    let later = now + 5 * SECOND;
    let claimed = claim_probe(&moved.partitions, &id(0), Traffic::Reads, later, &config);
    let entry = claimed.entry(&id(0), Traffic::Reads).unwrap();
    assert_eq!(entry.health(later + 1_000 * SECOND, &config), PartitionHealth::Unhealthy);
}

#[test]
fn overrides_go_with_their_endpoints() {
    let (now, config) = (Instant::now(), config());
    let moved = moved(&["West", "East", "North"], "West", 0, now);
    let synced = |regions: &[&str]| {
        let account = account(regions, &[]);
        sync_partition_endpoint_state(&moved.partitions, &account, false, &config)
    };
    assert!(!synced(&["West", "East"]).is_empty());
    assert!(synced(&["West", "North"]).is_empty(), "where it is served has left");
    assert!(synced(&["East", "North"]).is_empty(), "its own region has left");
    assert!(synced(&["West"]).is_empty());
}

#[test]
fn overrides_go_with_their_partitions() {
    let now = Instant::now();
    let moved = moved(&["West", "East"], "West", 0, now);
    let both = after_failures(&moved, 1, "West", Traffic::Reads, 3, now);
    let kept = forget_partitions(&both.partitions, "rid", |id| *id == self::id(1));
    assert!(kept.entry(&id(0), Traffic::Reads).is_none());
    assert!(kept.entry(&id(1), Traffic::Reads).is_some());
    let other = forget_partitions(&both.partitions, "another container", |_| false);
    assert!(other.entry(&id(0), Traffic::Reads).is_some());
}

#[test]
fn the_partitions_are_bounded() {
    let (snapshot, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    let mut full = snapshot.clone();
    let entry = Arc::new(PartitionFailoverEntry::new(&at(&snapshot, "West"), now, 0));
    let reads = PartitionOverrides { reads: Some(entry), writes: None };
    let partitions = PartitionEndpointState {
        overrides: (0..MAX_PARTITIONS as u32).map(|it| (id(it), reads.clone())).collect(),
        ..PartitionEndpointState::clone(&full.partitions)
    };
    full.partitions = Arc::new(partitions);
    let beyond = MAX_PARTITIONS as u32 + 1;
    let after = after_failures(&full, beyond, "West", Traffic::Reads, 1, now);
    assert!(after.partitions.entry(&id(beyond), Traffic::Reads).is_none());
}

/// Partitions of containers that were deleted while they had moved stayed for ever, until no other could be moved.
#[test]
fn partitions_that_nobody_asks_for_make_room_for_others() {
    let (now, hour) = (Instant::now(), 3_600 * SECOND);
    let mut full = moved(&["West", "East"], "West", 0, now);
    let entry = Arc::clone(full.partitions.entry(&id(0), Traffic::Reads).unwrap());
    let reads = PartitionOverrides { reads: Some(entry), writes: None };
    let partitions = PartitionEndpointState {
        overrides: (0..MAX_PARTITIONS as u32).map(|it| (id(it), reads.clone())).collect(),
        ..PartitionEndpointState::clone(&full.partitions)
    };
    full.partitions = Arc::new(partitions);
    // One of them is asked for, and its probe fails.
    let probed = after_failures(&full, 7, "West", Traffic::Reads, 1, now + hour);
    let swept = |after: Duration| {
        let partitions = expire_partition_overrides(&probed.partitions, now + after, &config());
        LocationSnapshot { partitions: Arc::new(partitions), ..probed.clone() }
    };
    assert_eq!(swept(hour).partitions.overrides.len(), MAX_PARTITIONS);
    let later = swept(hour + SECOND);
    assert_eq!(later.partitions.overrides.keys().collect::<Vec<_>>(), [&id(7)]);
    let beyond = MAX_PARTITIONS as u32 + 1;
    let after = after_failures(&later, beyond, "West", Traffic::Reads, 3, now + hour + SECOND);
    assert_eq!(serving(&after, beyond, Traffic::Reads).as_deref(), Some("East"));
}

#[test]
fn a_partition_that_fails_soon_after_it_returned_stays_away_for_longer() {
    let mut now = Instant::now();
    let mut current = snapshot(account(&["West", "East"], &[]), false);
    for seconds in [5, 10, 20, 40, 50, 50] {
        current = after_failures(&current, 0, "West", Traffic::Reads, 3, now);
        let health = |at| health(&current, Traffic::Reads, at);
        let due = now + seconds * SECOND;
        assert_eq!(health(due - SECOND / 10), Some(PartitionHealth::Unhealthy), "{seconds}");
        assert_eq!(health(due), Some(PartitionHealth::ProbeCandidate), "{seconds}");
        let partitions = mark_partition_recovered(&current.partitions, &id(0), Traffic::Reads, due);
        current.partitions = Arc::new(partitions);
        now = due + 300 * SECOND;
    }
    now += SECOND;
    current = after_failures(&current, 0, "West", Traffic::Reads, 3, now);
    let after = health(&current, Traffic::Reads, now + 5 * SECOND);
    assert_eq!(after, Some(PartitionHealth::ProbeCandidate), "the recovery is too long ago");
}

/// Writes were served where the service had moved the partition, and all that had waited went to a region that nothing
/// answered from: the last one on the list of those that were left.
#[test]
fn a_served_write_shows_where_the_service_has_moved_its_partition() {
    let (before, now) = (snapshot(account(&["West", "East", "North"], &[]), true), Instant::now());
    let failed = after_failures(&before, 0, "East", Traffic::Writes, 1, now);
    let failed = after_failures(&failed, 0, "West", Traffic::Writes, 1, now);
    assert_eq!(serving(&failed, 0, Traffic::Writes).as_deref(), Some("North"));
    let served_in = |region: &str| {
        let partitions = note_writes_served_at(&failed.partitions, &id(0), &at(&failed, region));
        LocationSnapshot { partitions: Arc::new(partitions), ..failed.clone() }
    };
    let moved = served_in("West");
    assert_eq!(serving(&moved, 0, Traffic::Writes).as_deref(), Some("West"));
    let entry = moved.partitions.entry(&id(0), Traffic::Writes).unwrap();
    assert!(entry.failed_endpoints().all(|it| *it != endpoint("West")), "it serves there");
    assert_eq!(serving(&served_in("East"), 0, Traffic::Writes), None, "it is back");
    assert_eq!(serving(&served_in("North"), 0, Traffic::Writes).as_deref(), Some("North"));
}
