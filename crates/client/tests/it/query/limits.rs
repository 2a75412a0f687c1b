//! Bounds of what a query holds and how much it asks for at once.

use std::time::Duration;

use sidereal::prelude::*;
use sidereal::query::QueryLimits;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::NetworkFaults;

use super::{Partitioned, collect, numbered};

#[tokio::test(start_paused = true)]
async fn too_many_groups_or_distinct_rows_are_an_error_that_names_the_option() {
    let store = Partitioned::new(3).await;
    store.insert(&numbered(30)).await;
    for text in [
        "SELECT DISTINCT VALUE c.n FROM c",
        "SELECT c.n, COUNT(1) AS many FROM c GROUP BY c.n",
        "SELECT VALUE COUNT(1) + 1 FROM c GROUP BY c.n",
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.n FROM c)",
    ] {
        let limited = |max_merged_rows| {
            let limits = QueryLimits { max_merged_rows, ..QueryLimits::default() };
            store.items.query(text).with_limits(limits)
        };
        let error = collect(&limited(29)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{text}");
        assert!(error.to_string().contains("`QueryLimits::max_merged_rows`"), "{error}");
        assert!(collect(&limited(30)).await.is_ok(), "{text}");
    }
}

/// Time here is the paused clock's: it passes as the simulated network says.
#[tokio::test(start_paused = true)]
async fn as_many_ranges_are_asked_at_once_as_the_query_allows() {
    let options = AccountOptions { partitions: Some(20), ..AccountOptions::default() };
    let latency = Duration::from_millis(30);
    let store = Partitioned::with(options, NetworkFaults { latency, ..NetworkFaults::NONE }).await;
    store.insert(&numbered(40)).await;
    for (parallelism, round_trips) in [(1, 20), (4, 5), (7, 3), (20, 1), (32, 1)] {
        let started = tokio::time::Instant::now();
        let query = store.items.query("SELECT VALUE c.n FROM c ORDER BY c.n");
        let first = query.with_max_parallelism(parallelism).first::<u64>().await.unwrap();
        assert_eq!(first, Some(0));
        let took = started.elapsed().as_millis() / latency.as_millis();
        assert_eq!(took, round_trips, "{parallelism} at once");
    }
}

/// Account, container, ranges, what changed of them since, pages.
#[tokio::test(start_paused = true)]
async fn a_client_that_knows_nothing_has_its_first_page_after_five_round_trips() {
    let options = AccountOptions { partitions: Some(20), ..AccountOptions::default() };
    let latency = Duration::from_millis(30);
    let store = Partitioned::with(options, NetworkFaults { latency, ..NetworkFaults::NONE }).await;
    store.insert(&numbered(40)).await;
    let started = tokio::time::Instant::now();
    let query = store.stranger().query("SELECT VALUE c.n FROM c ORDER BY c.n");
    assert_eq!(query.first::<u64>().await.unwrap(), Some(0));
    let round_trips = started.elapsed().as_millis() / latency.as_millis();
    assert!(round_trips <= 5, "{round_trips} round trips");
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_nothing_still_comes_to_an_end() {
    let store = Partitioned::new(7).await;
    store.insert(&numbered(50)).await;
    let limits =
        QueryLimits { max_buffered_pages: 0, max_buffered_bytes: 0, ..QueryLimits::default() };
    for text in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n",
        "SELECT DISTINCT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c GROUP BY c.n",
    ] {
        let query = store.items.query(text).with_page_size(2).with_limits(limits);
        assert_eq!(collect(&query.with_max_parallelism(1)).await.unwrap().len(), 50, "{text}");
    }
}
