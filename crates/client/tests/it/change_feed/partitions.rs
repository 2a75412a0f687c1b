//! Partition ranges that are split and merged, throttling, and regions that are lost, while a feed is read.

use std::time::Duration;

use serde_json::Value;
use sidereal::models::RegionName;
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::NetworkFaults;

use super::{Partitioned, by_item, each, named, sorted, write};

#[tokio::test(start_paused = true)]
async fn splits_and_merges_neither_lose_nor_repeat_nor_reorder_changes() {
    for page_size in [1, 7] {
        let store = Partitioned::new(2).await;
        write(&store.items, 0..60, 1).await;
        let mut pages = store.items.change_feed().with_page_size(page_size).pages::<Value>();
        let (mut found, mut round) = (Vec::new(), 0);
        while let Some(page) = pages.next().await {
            let page = page.unwrap();
            found.extend(page.items().iter().map(named));
            round += 1;
            match round {
                2 => drop(store.split("0")),
                4 => drop(store.split("1")),
                5 => drop(store.merge("2", "3")),
                6 => write(&store.items, 0..60, 2).await,
                8 => {
                    let ranges = store.ranges().await;
                    store.merge(&ranges[0], &ranges[1]);
                }
                _ => {}
            }
        }
        let versions = by_item(&found);
        assert_eq!(versions.len(), 60);
        for (id, versions) in versions {
            // The latest once; the first only if it was read before the second was written.
            assert!(versions == [1, 2] || versions == [2], "{id}: {versions:?}");
        }
    }
}

/// A token from before splits and merges is used after them.
#[tokio::test(start_paused = true)]
async fn a_token_outlives_splits_and_merges() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..40, 1).await;
    let mut pages = store.items.change_feed().with_page_size(3).pages::<Value>();
    let mut seen = Vec::new();
    let mut token = None;
    for _ in 0..4 {
        let page = pages.next().await.unwrap().unwrap();
        seen.extend(page.items().iter().map(named));
        token = Some(page.continuation().clone());
    }
    let [left, right] = store.split("0");
    store.split("1");
    store.split(&left);
    let ranges = store.stranger_ranges().await;
    store.merge(&ranges[1], &right);
    let resumed = store.items.change_feed().with_continuation(token.unwrap());
    let rest = super::changes(&resumed).await;
    assert_eq!(sorted([seen, rest].concat()), each(0..40, 1));
}

#[tokio::test(start_paused = true)]
async fn throttling_and_a_lost_region_are_waited_out_or_left() {
    let regions = ["West US", "East US"].map(RegionName::from).to_vec();
    let options = AccountOptions { regions, partitions: Some(3), ..AccountOptions::default() };
    let network = NetworkFaults { latency: Duration::from_millis(10), ..NetworkFaults::NONE };
    let store = Partitioned::with(options, network).await;
    write(&store.items, 0..100, 1).await;
    let effect = FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: None };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::ChangeFeed);
    rule.hit_limit = Some(5);
    store.account.account().add_fault(rule).unwrap();
    let mut pages = store.items.change_feed().with_page_size(5).pages::<Value>();
    let (mut found, mut round) = (Vec::new(), 0);
    while let Some(page) = pages.next().await {
        found.extend(page.unwrap().items().iter().map(named));
        round += 1;
        if round == 3 {
            store.account.account().set_online(&RegionName::from("West US"), false).unwrap();
        }
    }
    assert_eq!(sorted(found), each(0..100, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failure_does_not_end_the_feed() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..20, 1).await;
    let effect = FaultEffect::Answer { status: 400, sub_status: 0, retry_after: None };
    let mut rule = FaultRule::new(effect);
    rule.condition.operation = Some(Operation::ChangeFeed);
    rule.hit_limit = Some(1);
    store.account.account().add_fault(rule).unwrap();
    let mut pages = store.items.change_feed().pages::<Value>();
    let (mut found, mut errors) = (Vec::new(), 0);
    while let Some(page) = pages.next().await {
        match page {
            Ok(page) => found.extend(page.items().iter().map(named)),
            Err(_) => errors += 1,
        }
    }
    assert_eq!((sorted(found), errors), (each(0..20, 1), 1));
}

#[tokio::test(start_paused = true)]
async fn a_feed_ends_when_its_container_is_created_anew() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..20, 1).await;
    let mut pages = store.items.change_feed().with_page_size(2).pages::<Value>();
    pages.next().await.unwrap().unwrap();
    store.items.delete(None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    store.client.database("db").create_container(properties, None).await.unwrap();
    let mut last = None;
    for _ in 0..20 {
        match pages.next().await {
            Some(Ok(page)) => assert!(!page.is_caught_up()),
            Some(Err(error)) => {
                last = Some(error);
                break;
            }
            None => break,
        }
    }
    let error = last.expect("changes of another container do not continue this one's");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}
