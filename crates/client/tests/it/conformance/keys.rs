//! Partition keys of every kind.

use serde_json::{Value, json};
use sidereal::prelude::*;

use super::{Feature, with_store};

#[tokio::test]
async fn a_key_may_be_a_text_a_number_a_boolean_null_or_absent() {
    with_store(&[Feature::EveryKey], async |store| {
        let keys: [(PartitionKey, Value); 6] = [
            (PartitionKey::from("text"), json!({"customer": "text"})),
            (PartitionKey::from(42), json!({"customer": 42})),
            (PartitionKey::from(true), json!({"customer": true})),
            (PartitionKey::from(None::<&str>), json!({"customer": null})),
            (PartitionKey::undefined(), json!({})),
            (PartitionKey::from(""), json!({"customer": ""})),
        ];
        for (key, mut item) in keys {
            item["id"] = "1".into();
            store.orders.create_item(key.clone(), &item, None).await.unwrap();
            let read = store.orders.read_item(key.clone(), "1", None).await.unwrap();
            let read: Value = read.into_model().unwrap();
            assert_eq!(read.get("customer"), item.get("customer"), "{key}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_hierarchical_key_has_all_its_levels() {
    with_store(&[], async |store| {
        let levels = PartitionKeyDefinition::new(["/tenant", "/user", "/session"]).unwrap();
        let properties = ContainerProperties::new("events", levels);
        store.database.create_container(properties, None).await.unwrap();
        let events = store.database.container("events");
        let item = json!({"id": "1", "tenant": "contoso", "user": 7, "session": "s"});
        events.create_item(("contoso", 7, "s"), &item, None).await.unwrap();
        let read = events.read_item(("contoso", 7, "s"), "1", None).await.unwrap();
        assert_eq!(read.into_model::<Value>().unwrap()["user"], 7);
    })
    .await;
}

#[tokio::test]
async fn a_key_of_the_wrong_number_of_levels_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        // The container is known from here on.
        store.orders.read_feed_ranges().await.unwrap();
        let item = json!({"id": "1", "customer": "contoso"});
        let error = store.orders.create_item(("contoso", "x"), &item, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("/customer"), "{error}");
        assert!(error.diagnostics().is_none_or(|it| it.attempts().is_empty()), "it was sent");
    })
    .await;
}

#[tokio::test]
async fn a_prefix_of_a_hierarchical_key_is_no_key_of_an_item() {
    with_store(&[], async |store| {
        let levels = PartitionKeyDefinition::new(["/tenant", "/user"]).unwrap();
        let properties = ContainerProperties::new("events", levels);
        store.database.create_container(properties, None).await.unwrap();
        let events = store.database.container("events");
        // The container is known from here on.
        events.read_feed_ranges().await.unwrap();
        let error = events.read_item("contoso", "1", None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("/tenant"), "{error}");
    })
    .await;
}
