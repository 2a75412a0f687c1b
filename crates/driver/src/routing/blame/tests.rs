use std::time::Duration;

use super::super::account_endpoint_state::tests::{account, endpoint, multi_write, snapshot};
use super::*;
use crate::options::OptionLayers;

const SERVING: [UnavailableReason; 3] = [
    UnavailableReason::ServiceUnavailable,
    UnavailableReason::RequestTimeout,
    UnavailableReason::InternalServerError,
];

fn config() -> PartitionFailoverConfig {
    PartitionFailoverConfig::of(&OptionLayers::default())
}

/// The effects of a failure of a partition in a region.
fn failed(
    snapshot: &LocationSnapshot,
    range: Option<u32>,
    region: &str,
    reason: UnavailableReason,
    traffic: Traffic,
) -> [LocationEffect; 2] {
    let mut all = snapshot.account.read_endpoints().iter();
    let at = all.find(|it| it.endpoint == endpoint(region)).unwrap().clone();
    let partition =
        range.map(|range| Arc::new(Partition::new("rid".into(), range.into(), Vec::new())));
    [
        LocationEffect::MarkPartitionUnavailable {
            partition,
            endpoint: at.clone(),
            traffic,
            is_probe: false,
        },
        LocationEffect::MarkEndpointUnavailable { endpoint: at, reason, traffic },
    ]
}

fn is_up(snapshot: &LocationSnapshot, region: &str, traffic: Traffic, now: Instant) -> bool {
    snapshot.account.is_available(&endpoint(region), traffic == Traffic::Writes, now)
}

/// Partitions of West fail one after another; says after how many the endpoint is down.
fn partitions_until_down(asked: usize, config: &PartitionFailoverConfig) -> Option<u32> {
    let (mut current, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    (0..200)
        .find(|range| {
            let reason = UnavailableReason::ServiceUnavailable;
            let effects = failed(&current, Some(*range), "West", reason, Traffic::Reads);
            current = applied(&current, &effects, now, config, &|_| asked);
            !is_up(&current, "West", Traffic::Reads, now)
        })
        .map(|range| range + 1)
}

#[test]
fn an_endpoint_goes_down_when_half_of_its_partitions_have_failed() {
    assert_eq!(partitions_until_down(20, &config()), Some(10));
    assert_eq!(partitions_until_down(7, &config()), Some(4));
    assert_eq!(partitions_until_down(1_000, &config()), None);
}

#[test]
fn fewer_than_three_partitions_are_never_a_verdict() {
    assert_eq!(partitions_until_down(1, &config()), Some(3));
    assert_eq!(partitions_until_down(2, &config()), Some(3));
}

#[test]
fn failures_outside_the_window_do_not_add_up() {
    let (mut current, start) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    for range in 0..50 {
        let now = start + Duration::from_secs(6) * range;
        let reason = UnavailableReason::ServiceUnavailable;
        let effects = failed(&current, Some(range), "West", reason, Traffic::Reads);
        current = applied(&current, &effects, now, &config(), &|_| 3);
        assert!(is_up(&current, "West", Traffic::Reads, now), "two within ten seconds");
    }
    let endless = {
        let mut config = config();
        config.settings.endpoint_failure_window = Duration::MAX;
        config
    };
    assert_eq!(partitions_until_down(20, &endless), Some(10), "no window panics");
}

#[test]
fn a_partition_that_is_not_known_leaves_the_blame_with_its_endpoint() {
    let (before, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    for reason in SERVING {
        let effects = failed(&before, None, "East", reason, Traffic::Reads);
        let after = applied(&before, &effects, now, &config(), &|_| 0);
        assert!(!is_up(&after, "East", Traffic::Reads, now));
    }
}

#[test]
fn a_write_that_fails_in_the_only_write_region_does_not_mark_it() {
    let now = Instant::now();
    let (single, multi) = (
        snapshot(account(&["West", "East"], &[]), false),
        snapshot(multi_write(&["West", "East"]), false),
    );
    for reason in SERVING {
        let effects = failed(&single, None, "West", reason, Traffic::Writes);
        let after = applied(&single, &effects, now, &config(), &|_| 0);
        assert!(is_up(&after, "West", Traffic::Writes, now));
        let effects = failed(&multi, None, "West", reason, Traffic::Writes);
        let after = applied(&multi, &effects, now, &config(), &|_| 0);
        assert!(!is_up(&after, "West", Traffic::Writes, now));
    }
}

#[test]
fn a_forbidden_write_blames_the_partition_under_automatic_failover() {
    let now = Instant::now();
    let reason = UnavailableReason::WriteForbidden;
    let cases = [
        (snapshot(account(&["West", "East"], &[]), true), true),
        (snapshot(account(&["West", "East"], &[]), false), false),
        (snapshot(multi_write(&["West", "East"]), false), false),
    ];
    for (before, moves_partition) in cases {
        let effects = failed(&before, Some(0), "West", reason, Traffic::Writes);
        let after = applied(&before, &effects, now, &config(), &|_| 0);
        assert_eq!(is_up(&after, "West", Traffic::Writes, now), moves_partition);
        assert_eq!(!after.partitions.is_empty(), moves_partition);
    }
}

#[test]
fn what_the_service_moves_one_by_one_is_no_evidence_for_the_region() {
    let (mut current, now) = (snapshot(account(&["West", "East"], &[]), true), Instant::now());
    for range in 0..50 {
        let reason = UnavailableReason::ServiceUnavailable;
        let effects = failed(&current, Some(range), "West", reason, Traffic::Writes);
        current = applied(&current, &effects, now, &config(), &|_| 50);
    }
    assert!(is_up(&current, "West", Traffic::Reads, now));
}

#[test]
fn a_connection_that_fails_is_the_endpoint_s() {
    let (before, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    let [_, mark] =
        failed(&before, Some(0), "West", UnavailableReason::TransportError, Traffic::Writes);
    let after = applied(&before, &[mark], now, &config(), &|_| 100);
    assert!(!is_up(&after, "West", Traffic::Reads, now));
    assert!(after.partitions.is_empty());
}

#[test]
fn two_containers_have_their_own_range_of_a_number() {
    let (before, now) = (snapshot(account(&["West", "East"], &[]), false), Instant::now());
    let mut current = before;
    for _ in 0..3 {
        let reason = UnavailableReason::ServiceUnavailable;
        let effects = failed(&current, Some(0), "West", reason, Traffic::Reads);
        current = applied(&current, &effects, now, &config(), &|_| 100);
    }
    let entry = |rid: &str| {
        let id = crate::routing::PartitionId { container_rid: rid.into(), range: 0.into() };
        current.partitions.entry(&id, Traffic::Reads).is_some()
    };
    assert!(entry("rid") && !entry("another container"));
}
