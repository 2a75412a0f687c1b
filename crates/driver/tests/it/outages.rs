//! Outages on each kind of account: what fails, what is added, and that all returns. On a paused clock;
//! `cargo bench -p sidereal-driver --bench outages` has the whole table.

use std::time::Duration;

use sidereal_testing::outages::{CHANGE_AFTER, Kind, Outage, Scenario, run};

/// Two requests a second for each of the eight partitions, for half a minute.
const MOST_PROBES: f64 = 2.0 * 8.0 * 30.0;

/// How long after an outage the preferred region serves again.
const FAIL_BACK: Duration = Duration::from_secs(60);

const MS: Duration = Duration::from_millis(1);

fn scenario(kind: Kind, outage: Outage) -> Scenario {
    let distances = [5 * MS, 7 * MS, 9 * MS];
    Scenario { kind, outage, distances, lag: 20 * MS, between_calls: 20 * MS }
}

#[test]
fn no_read_fails_in_any_outage_and_writes_only_until_they_are_moved() {
    for kind in Kind::ALL {
        for outage in Outage::ALL {
            let outcome = run(&scenario(kind, outage), 7);
            let last = outcome.failed_writes().max();
            let told = format!("{kind:?}, {outage:?}: {outcome}");
            assert_eq!(outcome.failed_reads(), 0, "{told}");
            match kind {
                Kind::MultiWrite => assert_eq!(last, None, "{told}"),
                _ => assert!(last <= Some(CHANGE_AFTER + Duration::from_secs(1)), "{told}"),
            }
            // So few reads are hedged that a slow region is not left within this run; the benchmark has more.
            let is_left = !matches!(outage, Outage::Flapping | Outage::RegionSlow);
            assert!(!is_left || outcome.read_p99_ratio() <= 2.0, "{told}");
            // Each partition has a write that probes, however few calls there are beside it.
            let calls = outcome.during.calls + outcome.moved.calls;
            let added = outcome.added_requests() / 100.0 * calls as f64;
            assert!(outcome.added_requests() <= 10.0 || added <= MOST_PROBES, "{told}");
            assert!(outcome.fail_back.is_some_and(|it| it <= FAIL_BACK), "{told}");
        }
    }
}
