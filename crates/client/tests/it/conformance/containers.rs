//! Containers.

use sidereal::FeedRange;
use sidereal::models::{IndexingPolicy, TimeToLive};
use sidereal::options::CreateContainerOptions;
use sidereal::prelude::*;

use super::{Feature, with_store};

fn by(path: &str) -> PartitionKeyDefinition {
    PartitionKeyDefinition::new([path]).unwrap()
}

#[tokio::test]
async fn a_container_is_created_once_read_and_deleted() {
    with_store(&[], async |store| {
        let properties = ContainerProperties::new("invoices", by("/customer"));
        let created = store.database.create_container(properties.clone(), None).await.unwrap();
        assert_eq!(created.status().code(), 201);
        let twice = store.database.create_container(properties.clone(), None).await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::Conflict);
        let there = store.database.create_container_if_not_exists(properties, None).await.unwrap();
        assert_eq!(there.status().code(), 200);

        let invoices = store.database.container("invoices");
        let read = invoices.read(None).await.unwrap().into_properties().unwrap();
        assert_eq!((read.id.as_str(), read.partition_key), ("invoices", by("/customer")));
        invoices.delete(None).await.unwrap();
        assert_eq!(invoices.read(None).await.unwrap_err().kind(), ErrorKind::NotFound);
    })
    .await;
}

#[tokio::test]
async fn an_existing_container_with_another_key_is_not_taken_for_the_wanted_one() {
    with_store(&[], async |store| {
        let other = ContainerProperties::new("orders", by("/country"));
        let error = store.database.create_container_if_not_exists(other, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert!(error.to_string().contains("/customer"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn what_can_be_changed_of_a_container_is_replaced() {
    with_store(&[], async |store| {
        let response = store.orders.read(None).await.unwrap();
        let mut properties = response.into_properties().unwrap();
        properties.default_ttl = Some(TimeToLive::Seconds(600));
        properties.indexing_policy =
            Some(IndexingPolicy { automatic: true, ..IndexingPolicy::default() });
        let replaced = store.orders.replace(properties, None).await.unwrap();
        let ttl = replaced.into_properties().unwrap().default_ttl;
        assert_eq!(ttl, Some(TimeToLive::Seconds(600)));
        let read = store.orders.read(None).await.unwrap().into_properties().unwrap();
        assert_eq!(read.default_ttl, ttl);
    })
    .await;
}

#[tokio::test]
async fn throughput_is_changed_also_between_manual_and_autoscale() {
    with_store(&[Feature::Throughput], async |store| {
        let options = CreateContainerOptions {
            throughput: Some(ThroughputProperties::manual(400)),
            ..CreateContainerOptions::default()
        };
        let properties = ContainerProperties::new("invoices", by("/customer"));
        store.database.create_container(properties, Some(options)).await.unwrap();
        let invoices = store.database.container("invoices");
        let read = invoices.read_throughput(None).await.unwrap();
        assert_eq!(read, Some(ThroughputProperties::manual(400)));

        let more = ThroughputProperties::manual(600);
        assert_eq!(invoices.replace_throughput(more, None).await.unwrap(), more);
        let scaled = ThroughputProperties::autoscale(4000, None);
        let now = invoices.replace_throughput(scaled, None).await.unwrap();
        assert!(now.autoscale_max_throughput().is_some(), "{now:?}");
        let now = invoices.replace_throughput(more, None).await.unwrap();
        assert!(now.manual_throughput().is_some(), "{now:?}");
    })
    .await;
}

#[tokio::test]
async fn a_container_may_be_created_with_autoscale() {
    with_store(&[Feature::Throughput], async |store| {
        let throughput = ThroughputProperties::autoscale(2000, None);
        let options = CreateContainerOptions {
            throughput: Some(throughput),
            ..CreateContainerOptions::default()
        };
        let properties = ContainerProperties::new("invoices", by("/customer"));
        store.database.create_container(properties, Some(options)).await.unwrap();
        let read = store.database.container("invoices").read_throughput(None).await.unwrap();
        assert_eq!(read.and_then(|it| it.autoscale_max_throughput()), Some(2000));
    })
    .await;
}

#[tokio::test]
async fn feed_ranges_cover_the_container_and_round_trip_as_text() {
    with_store(&[], async |store| {
        let ranges = store.orders.read_feed_ranges().await.unwrap();
        assert!(!ranges.is_empty());
        for range in &ranges {
            assert!(FeedRange::full().covers(range));
            let again: FeedRange = range.to_string().parse().unwrap();
            assert_eq!(again, *range);
        }
    })
    .await;
}

#[tokio::test]
async fn an_id_that_no_container_can_have_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        for id in ["", "a/b", "a?b"] {
            let container = store.database.container(id);
            let error = container.read(None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
            assert!(error.diagnostics().is_none(), "it was sent: {id}");
            let error = container.read_item("contoso", "1", None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
            let properties = ContainerProperties::new(id, by("/customer"));
            let error = store.database.create_container(properties, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
        }
    })
    .await;
}
