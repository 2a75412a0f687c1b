//! The change feed.

use std::collections::BTreeSet;

use serde_json::Value;
use sidereal::change_feed::ChangeFeedStart;
use sidereal::change_feed::processor::{Changes, HandlerError};
use sidereal::prelude::*;

use super::{Feature, order, with_store};

async fn ids(feed: &sidereal::change_feed::ChangeFeed) -> BTreeSet<String> {
    let (mut items, mut ids) = (feed.items::<Value>(), BTreeSet::new());
    while let Some(item) = items.next().await {
        ids.insert(item.unwrap()["id"].as_str().unwrap().to_owned());
    }
    ids
}

async fn create(orders: &ContainerClient, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let customer = format!("customer {}", n % 7);
        let item = order(&customer, &n.to_string(), n as u32);
        orders.create_item(customer, &item, None).await.unwrap();
    }
}

fn expected(numbers: std::ops::Range<usize>) -> BTreeSet<String> {
    numbers.map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn a_feed_is_read_from_the_beginning_from_now_and_from_where_it_stopped() {
    with_store(&[Feature::ChangeFeed], async |store| {
        create(&store.orders, 0..20).await;
        let feed = store.orders.change_feed().with_page_size(3);
        assert_eq!(ids(&feed).await, expected(0..20));
        let from_now = store.orders.change_feed().with_start(ChangeFeedStart::Now);
        let first = from_now.pages::<Value>().next().await.unwrap().unwrap();
        assert!(first.is_caught_up());
        create(&store.orders, 20..30).await;
        let token = first.continuation().to_string().parse().unwrap();
        let rest = store.orders.change_feed().with_continuation(token);
        assert_eq!(ids(&rest).await, expected(20..30));
    })
    .await;
}

#[tokio::test]
async fn a_feed_of_a_key_or_of_a_part_has_no_more_than_that() {
    with_store(&[Feature::ChangeFeed], async |store| {
        create(&store.orders, 0..21).await;
        let of_key = store.orders.change_feed().with_partition_key("customer 3");
        let three: BTreeSet<String> = ["3", "10", "17"].map(str::to_owned).into();
        assert_eq!(ids(&of_key).await, three);
        let mut all = BTreeSet::new();
        for range in store.orders.read_feed_ranges().await.unwrap() {
            let part = ids(&store.orders.change_feed().with_feed_range(range)).await;
            assert!(all.is_disjoint(&part));
            all.extend(part);
        }
        assert_eq!(all, expected(0..21));
    })
    .await;
}

#[tokio::test]
async fn a_processor_handles_every_change() {
    with_store(&[Feature::ChangeFeed, Feature::Batch], async |store| {
        let leases = ContainerProperties::new("leases", "/processor".parse().unwrap());
        store.database.create_container(leases, None).await.unwrap();
        let leases = store.database.container("leases");
        create(&store.orders, 0..20).await;
        let (sender, mut handled) = tokio::sync::mpsc::unbounded_channel();
        let processor = store.orders.change_feed_processor("billing", &leases);
        let worker = processor.start(move |changes: Changes<Value>| {
            for item in changes.items() {
                let _ = sender.send(item["id"].as_str().unwrap_or_default().to_owned()); // The test has ended.
            }
            async { Ok::<_, HandlerError>(()) }
        });
        let (worker, mut found) = (worker.await.unwrap(), BTreeSet::new());
        while found.len() < 20 {
            found.insert(handled.recv().await.unwrap());
        }
        worker.stop().await;
        let lag = store.orders.change_feed_processor("billing", &leases).estimate_lag().await;
        assert!(lag.unwrap().iter().all(|it| it.changes == 0 && it.owner.is_none()));
    })
    .await;
}
