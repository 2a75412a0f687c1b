//! Queries that the network, the account or their caller ends or disturbs.

use std::time::Duration;

use serde_json::{Value, json};
use sidereal::options::{AvailabilityOptions, ClientMethodOptions};
use sidereal::prelude::*;
use sidereal_emulator::{AccountOptions, FaultCondition, FaultEffect, FaultRule, Operation};
use sidereal_testing::in_process::NetworkFaults;
use tokio_util::sync::CancellationToken;

use super::{Partitioned, collect, numbered};

const SORTED: &str = "SELECT VALUE c.n FROM c ORDER BY c.n";
const SHAPES: [&str; 3] = [SORTED, "SELECT VALUE c.n FROM c", "SELECT DISTINCT VALUE c.n FROM c"];

async fn over_network(latency: u64, regions: &[&str]) -> Partitioned {
    let options = AccountOptions {
        partitions: Some(4),
        regions: regions.iter().map(|name| RegionName::from(*name)).collect(),
        ..AccountOptions::default()
    };
    let latency = Duration::from_millis(latency);
    let store = Partitioned::with(options, NetworkFaults { latency, ..NetworkFaults::NONE }).await;
    store.insert(&numbered(40)).await;
    store
}

fn sorted(mut rows: Vec<Value>) -> Vec<u64> {
    rows.sort_by_key(Value::as_u64);
    rows.iter().filter_map(Value::as_u64).collect()
}

fn inject(store: &Partitioned, effect: FaultEffect, hit_limit: Option<u64>) {
    let condition = FaultCondition { operation: Some(Operation::Query), ..Default::default() };
    let rule = FaultRule { condition, hit_limit, ..FaultRule::new(effect) };
    store.account.account().add_fault(rule).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_cancelled_ends_with_an_error_that_says_so() {
    let store = over_network(10, &["West US"]).await;
    for text in SHAPES {
        let cancellation = CancellationToken::new();
        let method_options =
            ClientMethodOptions { cancellation: Some(&cancellation), ..Default::default() };
        let options = QueryOptions { method_options, ..Default::default() };
        let query = store.items.query(text).with_page_size(1).with_options(options);
        let mut rows = query.items::<Value>();
        rows.next().await.unwrap().unwrap();
        cancellation.cancel();
        let error = loop {
            match rows.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error,
                None => panic!("{text}: it went on to its end"),
            }
        };
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{text}: {error}");
        assert!(rows.next().await.is_none(), "after an error there is nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_query_is_that_of_all_its_requests() {
    let store = over_network(100, &["West US"]).await;
    for text in SHAPES {
        let availability =
            AvailabilityOptions::default().with_end_to_end_timeout(Duration::from_millis(450));
        let options = QueryOptions { availability, ..Default::default() };
        let query = store.items.query(text).with_page_size(1).with_options(options);
        let error = collect(&query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{text}: {error}");
    }
    // Reading the container counts as well.
    let availability =
        AvailabilityOptions::default().with_end_to_end_timeout(Duration::from_millis(50));
    let options = QueryOptions { availability, ..Default::default() };
    let error = collect(&store.stranger().query(SORTED).with_options(options)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
}

#[tokio::test(start_paused = true)]
async fn throttling_delays_a_query_and_ends_it_where_it_does_not_stop() {
    let store = over_network(1, &["West US"]).await;
    let busy = || FaultEffect::Answer {
        status: 429,
        sub_status: 3200,
        retry_after: Some(Duration::from_millis(20)),
    };
    inject(&store, busy(), Some(24));
    for text in SHAPES {
        let rows = collect(&store.items.query(text).with_page_size(7)).await.unwrap();
        assert_eq!(sorted(rows), (0..40).collect::<Vec<_>>(), "{text}");
    }
    inject(&store, busy(), None);
    for text in SHAPES {
        let error = collect(&store.items.query(text)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled, "{text}: {error}");
        assert!(error.diagnostics().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_is_lost_in_the_middle_of_a_query_loses_no_row() {
    for text in SHAPES {
        let store = over_network(5, &["West US", "East US"]).await;
        let query = store.items.query(text).with_page_size(3);
        let mut rows = query.items::<Value>();
        let mut found = vec![rows.next().await.unwrap().unwrap()];
        let west = RegionName::from("West US");
        store.account.account().set_online(&west, false).unwrap();
        while let Some(row) = rows.next().await {
            found.push(row.unwrap());
        }
        assert_eq!(sorted(found), (0..40).collect::<Vec<_>>(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_waits_for_a_split_that_takes_its_time() {
    for text in SHAPES {
        let store = over_network(5, &["West US"]).await;
        let range = store.ranges().await.remove(1);
        let account = store.account.account();
        account.split_range("db", "items", &range, Duration::from_secs(3)).unwrap();
        let rows = collect(&store.items.query(text).with_page_size(3)).await.unwrap();
        assert_eq!(sorted(rows), (0..40).collect::<Vec<_>>(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_of_another_type_is_an_error_and_the_others_follow() {
    let store = Partitioned::new(1).await;
    store
        .insert(&[json!({"id": "1", "pk": "a", "n": "one"}), json!({"id": "2", "pk": "a", "n": 2})])
        .await;
    for text in ["SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.id"] {
        let mut rows = store.items.query(text).items::<u32>();
        let error = rows.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse);
        assert!(error.to_string().contains("u32"), "{error}");
        assert_eq!(rows.next().await.unwrap().unwrap(), 2);
        assert!(rows.next().await.is_none());
    }
}

/// A reader that takes a row and then does something else.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_stops_the_requests_ahead_of_it_and_a_gone_one_ends_them() {
    let store = over_network(5, &["West US"]).await;
    let seen = |store: &Partitioned| -> u64 {
        let rows = store.account.account().counters();
        rows.iter().filter(|row| row.operation == Operation::Query).map(|it| it.requests).sum()
    };
    for text in ["SELECT VALUE c.n FROM c", SORTED] {
        store.account.account().reset_counters();
        let limits = sidereal::query::QueryLimits { max_buffered_pages: 6, ..Default::default() };
        let query = store.items.query(text).with_page_size(1).with_limits(limits);
        let mut rows = query.items::<Value>();
        rows.next().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let ahead = seen(&store);
        // Of 40 pages and more: one of each of the four ranges that was read, and those in the budget.
        assert!((4..=14).contains(&ahead), "{text}: {ahead} requests");
        drop(rows);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(seen(&store), ahead, "{text}");
    }
}
