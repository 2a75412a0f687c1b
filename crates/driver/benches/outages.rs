//! Availability during each outage, on each kind of account, as an application notices it. On a paused clock, so that hours take minutes.
//!
//!     cargo bench -p sidereal-driver --bench outages [-- WORD...]
//!
//! Words select rows: a part of the account's kind, of the outage, `near` or `far`, `20ms` or `1s`.

use std::time::Duration;

use sidereal_testing::outages::{Kind, Outage, Scenario, run};

const MS: Duration = Duration::from_millis(1);

/// 333 calls a second.
const BETWEEN_CALLS: Duration = Duration::from_millis(3);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let near = [5 * MS, 7 * MS, 9 * MS];
    let far = [30 * MS, 40 * MS, 50 * MS];
    for kind in Kind::ALL {
        for (place, distances) in [("near", near), ("far", far)] {
            for (lag_name, lag) in [("20ms", 20 * MS), ("1s", Duration::from_secs(1))] {
                for outage in Outage::ALL {
                    let row = format!("{kind:?} {place} {lag_name} {outage:?}");
                    if words.iter().all(|word| row.to_lowercase().contains(&word.to_lowercase())) {
                        let between_calls = BETWEEN_CALLS;
                        let scenario = Scenario { kind, outage, distances, lag, between_calls };
                        println!("{row:<44} {}", run(&scenario, 7));
                    }
                }
            }
        }
    }
}
