//! Parts of partition ranges, on a service that refuses windows of the key space.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sidereal::FeedRange;
use sidereal::models::CosmosStatus;
use sidereal_testing::in_process::scripting::{header, refusal};

use super::{Partitioned, collect, numbered};

const ITEMS: usize = 60;

/// A container of one partition range that were two: their feed ranges are parts of it. The service refuses windows, and
/// counts how often it did.
async fn merged() -> (Partitioned, Vec<FeedRange>, Arc<AtomicUsize>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&refused);
    let store = Partitioned::scripted(2, move |request| {
        header(request, "x-ms-start-epk")?;
        counter.fetch_add(1, Ordering::Relaxed);
        Some(refusal(400, 0))
    });
    let store = store.await;
    store.insert(&numbered(ITEMS)).await;
    let halves = store.items.read_feed_ranges().await.unwrap();
    let ranges = store.ranges().await;
    store.merge(&ranges[0], &ranges[1]);
    store.ranges().await;
    (store, halves, refused)
}

fn numbers(rows: &[Value]) -> Vec<u64> {
    let number = |row: &Value| row["n"].as_u64().unwrap();
    rows.iter().map(number).collect()
}

#[tokio::test(start_paused = true)]
async fn whole_items_of_a_refused_window_are_told_apart_by_the_client() {
    for text in [
        "SELECT * FROM c",
        "SELECT VALUE c FROM c WHERE c.n >= 0",
        "SELECT * FROM c ORDER BY c.n DESC",
    ] {
        let (store, halves, refused) = merged().await;
        let mut all = Vec::new();
        for half in halves {
            let before = refused.load(Ordering::Relaxed);
            let query = store.items.query(text).with_feed_range(half).with_page_size(7);
            let rows = numbers(&collect(&query).await.unwrap());
            assert!(rows.len() > ITEMS / 6, "{text}: {}", rows.len());
            let is_in_order = !text.contains("DESC") || rows.is_sorted_by(|a, b| a >= b);
            assert!(is_in_order, "{text}: {rows:?}");
            assert_eq!(refused.load(Ordering::Relaxed) - before, 1, "{text}: one page found out");
            all.extend(rows);
        }
        all.sort_unstable();
        assert_eq!(all, (0..ITEMS as u64).collect::<Vec<_>>(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_refused_window_are_told_apart_by_the_client() {
    let (store, halves, refused) = merged().await;
    let mut all = Vec::new();
    for half in halves {
        let feed = store.items.change_feed().with_feed_range(half).with_page_size(5);
        let mut items = feed.items::<Value>();
        while let Some(item) = items.next().await {
            all.push(item.unwrap());
        }
    }
    let mut all = numbers(&all);
    all.sort_unstable();
    assert_eq!(all, (0..ITEMS as u64).collect::<Vec<_>>());
    assert_eq!(refused.load(Ordering::Relaxed), 2, "once for each feed");
}

/// Rows that were computed from items cannot be told apart, so the operation fails with the service's refusal.
#[tokio::test(start_paused = true)]
async fn rows_computed_from_items_fail_with_the_refusal() {
    let (store, halves, refused) = merged().await;
    for text in
        ["SELECT VALUE COUNT(1) FROM c", "SELECT c.n FROM c", "SELECT TOP 5 * FROM c ORDER BY c.n"]
    {
        let query = store.items.query(text).with_feed_range(halves[0].clone());
        let error = collect(&query).await.unwrap_err();
        assert_eq!(error.status().map(CosmosStatus::code), Some(400), "{text}");
    }
    assert_eq!(refused.load(Ordering::Relaxed), 3);
}
