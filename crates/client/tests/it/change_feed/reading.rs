//! Where a feed begins, what it is of, where it goes on.

use std::time::Duration;

use serde_json::{Value, json};
use sidereal::change_feed::{ChangeFeedStart, ChangeFeedToken};
use sidereal::prelude::*;

use super::{Partitioned, changes, each, named, sorted, version, write};

#[tokio::test(start_paused = true)]
async fn a_feed_begins_at_the_beginning_with_the_latest_versions() {
    let store = Partitioned::new(3).await;
    write(&store.items, 0..30, 1).await;
    write(&store.items, 0..10, 2).await;
    store.items.delete_item("p29", "29", None).await.unwrap();
    let found = changes(&store.items.change_feed().with_page_size(4)).await;
    assert_eq!(sorted(found), [each(0..10, 2), each(10..29, 1)].concat());
}

#[tokio::test(start_paused = true)]
async fn a_feed_from_now_has_what_comes_after_it_was_first_read() {
    let store = Partitioned::new(3).await;
    write(&store.items, 0..10, 1).await;
    let feed = store.items.change_feed().with_start(ChangeFeedStart::Now);
    let mut pages = feed.pages::<Value>();
    let first = pages.next().await.unwrap().unwrap();
    assert!(first.is_caught_up() && first.items().is_empty() && first.requests() == 3);
    assert!(pages.next().await.is_none());
    write(&store.items, 5..20, 2).await;
    // The same stream, asked again.
    let mut found = Vec::new();
    while let Some(page) = pages.next().await {
        found.extend(page.unwrap().items().iter().map(named));
    }
    assert_eq!(sorted(found), each(5..20, 2));
    // Another one, from the token of the first.
    let resumed = store.items.change_feed().with_continuation(first.continuation().clone());
    assert_eq!(sorted(changes(&resumed).await), each(5..20, 2));
}

#[tokio::test(start_paused = true)]
async fn a_feed_from_a_moment_leaves_out_what_is_older() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..10, 1).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // The account's time is that of the simulation.
    let moment = store.account.driver_clock().wall();
    tokio::time::sleep(Duration::from_secs(60)).await;
    write(&store.items, 10..20, 1).await;
    let feed = store.items.change_feed().with_start(ChangeFeedStart::At(moment));
    assert_eq!(sorted(changes(&feed).await), each(10..20, 1));
    let ancient = std::time::UNIX_EPOCH - Duration::from_secs(1);
    let feed = store.items.change_feed().with_start(ChangeFeedStart::At(ancient));
    let error = feed.items::<Value>().next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

#[tokio::test(start_paused = true)]
async fn a_feed_may_be_of_a_key_of_a_range_or_of_the_first_levels_of_a_key() {
    let store = Partitioned::new(3).await;
    write(&store.items, 0..30, 1).await;
    let of_key = store.items.change_feed().with_partition_key("p7");
    assert_eq!(changes(&of_key).await, [(7, 1)]);
    let (mut all, ranges) = (Vec::new(), store.items.read_feed_ranges().await.unwrap());
    for range in ranges {
        let part = changes(&store.items.change_feed().with_feed_range(range.clone())).await;
        assert!(!part.is_empty() && part.len() < 30);
        all.extend(part);
    }
    assert_eq!(sorted(all), each(0..30, 1));

    let by = PartitionKeyDefinition::new(["/tenant", "/user"]).unwrap();
    let properties = ContainerProperties::new("deep", by);
    store.client.database("db").create_container(properties, None).await.unwrap();
    let deep = store.client.database("db").container("deep");
    for n in 0..20 {
        let (tenant, user) = (format!("t{}", n % 2), format!("u{n}"));
        let item = json!({"id": n.to_string(), "tenant": tenant, "user": user, "v": 1});
        deep.create_item((tenant.as_str(), user.as_str()), &item, None).await.unwrap();
    }
    let found = changes(&deep.change_feed().with_partition_key("t1")).await;
    assert_eq!(sorted(found), (0..20).filter(|n| n % 2 == 1).map(|n| (n, 1)).collect::<Vec<_>>());
}

/// From every page on, through text, in a process that knows nothing.
#[tokio::test(start_paused = true)]
async fn a_token_goes_on_after_each_page_wherever_it_is_kept() {
    let store = Partitioned::new(3).await;
    write(&store.items, 0..40, 1).await;
    let feed = store.items.change_feed().with_page_size(3);
    let (mut pages, mut seen) = (feed.pages::<Value>(), Vec::new());
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        seen.extend(page.items().iter().map(named));
        let text = page.continuation().to_string();
        let token: ChangeFeedToken = text.parse().unwrap();
        let rest = changes(&store.stranger().change_feed().with_continuation(token)).await;
        assert_eq!(sorted([seen.clone(), rest].concat()), each(0..40, 1));
    }
    assert_eq!(seen.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_refused_where_it_does_not_belong() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..5, 1).await;
    let page = store.items.change_feed().pages::<Value>().next().await.unwrap().unwrap();
    let token = page.continuation().clone();
    let of_key = store.items.change_feed().with_partition_key("p1");
    let properties = ContainerProperties::new("other", "/pk".parse().unwrap());
    store.client.database("db").create_container(properties, None).await.unwrap();
    let other = store.client.database("db").container("other").change_feed();
    for (feed, expected) in [(of_key, "another part"), (other, "another container")] {
        let mut items = feed.with_continuation(token.clone()).items::<Value>();
        let error = items.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_a_poll_interval_waits_for_what_comes() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..5, 1).await;
    let feed = store.items.change_feed().with_poll_interval(Duration::from_secs(1));
    let mut items = feed.items::<Value>();
    let mut found = Vec::new();
    for _ in 0..5 {
        found.push(named(&items.next().await.unwrap().unwrap()));
    }
    let writer = store.items.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        writer.upsert_item("p9", version(9, 1), None).await.unwrap();
    });
    found.push(named(&items.next().await.unwrap().unwrap()));
    assert_eq!(sorted(found), [each(0..5, 1), each(9..10, 1)].concat());
}

/// Waiting for a page and giving up on it, as `select!` does, loses none.
#[tokio::test(start_paused = true)]
async fn a_read_that_is_dropped_loses_no_page() {
    let network = sidereal_testing::in_process::NetworkFaults {
        latency: Duration::from_millis(20),
        ..sidereal_testing::in_process::NetworkFaults::NONE
    };
    let options = sidereal_emulator::AccountOptions { partitions: Some(3), ..Default::default() };
    let store = Partitioned::with(options, network).await;
    write(&store.items, 0..50, 1).await;
    let (mut pages, mut found) =
        (store.items.change_feed().with_page_size(3).pages::<Value>(), Vec::new());
    let mut tries = 0;
    loop {
        tries += 1;
        match tokio::time::timeout(Duration::from_millis(7), pages.next()).await {
            Err(_) => {}
            Ok(Some(page)) => found.extend(page.unwrap().items().iter().map(named)),
            Ok(None) => break,
        }
    }
    assert_eq!(sorted(found), each(0..50, 1));
    assert!(tries > 10);
}

#[tokio::test(start_paused = true)]
async fn pages_say_what_they_cost_and_where_they_are_from() {
    let store = Partitioned::new(2).await;
    write(&store.items, 0..20, 1).await;
    let (mut pages, mut charge, mut requests) =
        (store.items.change_feed().pages::<Value>(), 0.0, 0);
    let ranges = store.items.read_feed_ranges().await.unwrap();
    while let Some(page) = pages.next().await {
        let page = page.unwrap();
        (charge, requests) = (charge + page.request_charge(), requests + page.requests());
        assert!(page.diagnostics().is_some());
        assert!(page.is_caught_up() || ranges.contains(&page.feed_range()));
    }
    assert!(charge > 0.0);
    // A page and a 304 of each range.
    assert_eq!(requests, 4);
}
