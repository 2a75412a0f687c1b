//! Three workers, one of which is killed and started again, over and over, while ranges split and merge, requests are
//! throttled and lost, and a region goes and comes back.

use std::time::Duration;

use sidereal::models::RegionName;
use sidereal_emulator::{AccountOptions, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::NetworkFaults;

use super::{Followed, LEASE, LOOK, shares, write};

const ROUNDS: usize = 12;

fn throttling() -> FaultRule {
    let effect = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: None };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::ChangeFeed);
    (rule.probability, rule.seed) = (0.2, 7);
    rule
}

#[tokio::test(start_paused = true)]
async fn every_change_is_handled_in_order_while_a_worker_keeps_dying() {
    let regions = ["West US", "East US"].map(RegionName::from).to_vec();
    let options = AccountOptions { regions, partitions: Some(4), ..AccountOptions::default() };
    let network = NetworkFaults {
        latency: Duration::from_millis(5),
        latency_spread: Duration::from_millis(20),
        ..NetworkFaults::NONE
    };
    let followed = Followed::with(options, network).await;
    followed.store.account.account().add_fault(throttling()).unwrap();
    let (_a, _b) = (followed.start("a").await, followed.start("b").await);
    let mut c = Some(followed.start("c").await);
    for round in 1..=ROUNDS {
        write(&followed.store.items, 0..40, round).await;
        disturb(&followed, round).await;
        // Killed within a lease, between two, and while others take over.
        tokio::time::sleep(Duration::from_millis(1_700 * round as u64)).await;
        c = match c.take() {
            Some(alive) => {
                drop(alive);
                None
            }
            None => Some(followed.start("c").await),
        };
    }
    tokio::time::sleep(LEASE + 4 * LOOK + Duration::from_secs(60)).await;
    followed.log.check(40, ROUNDS);
    let lag = followed.worker("watcher").estimate_lag().await.unwrap();
    assert!(lag.iter().all(|it| it.changes == 0 && it.owner.is_some()), "{lag:?}");
    let owners = followed.owners().await;
    let shares = shares(&owners);
    assert_eq!(shares.values().sum::<usize>(), owners.len(), "a range is unattended: {owners:?}");
    let (least, most) = (shares.values().min().unwrap(), shares.values().max().unwrap());
    assert!(most - least <= 1, "{shares:?}");
}

/// An event of the account in a round.
async fn disturb(followed: &Followed, round: usize) {
    let account = followed.store.account.account();
    let west = RegionName::from("West US");
    match round {
        2 | 5 => {
            let ranges = followed.store.stranger_ranges().await;
            followed.store.split(&ranges[0]);
        }
        4 | 8 => {
            let ranges = followed.store.stranger_ranges().await;
            followed.store.merge(&ranges[0], &ranges[1]);
        }
        // Reads go to the other region; leases cannot be written for shorter than they last.
        6 => account.set_online(&west, false).unwrap(),
        _ => {}
    }
    if round == 6 {
        tokio::time::sleep(LEASE / 3).await;
        account.set_online(&west, true).unwrap();
    }
}
