//! Items.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sidereal::models::SessionToken;
use sidereal::options::ItemWriteOptions;
use sidereal::prelude::*;

use super::{Feature, order, with_store, writing};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    total: u32,
}

impl Order {
    fn new(id: &str, total: u32) -> Self {
        Self { id: id.to_owned(), customer: "contoso".to_owned(), total }
    }
}

#[tokio::test]
async fn an_item_is_created_read_replaced_and_deleted() {
    with_store(&[], async |store| {
        let orders = &store.orders;
        let created = orders.create_item("contoso", &Order::new("1", 10), None).await.unwrap();
        assert_eq!(created.status().code(), 201);
        let read: Order =
            orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(read, Order::new("1", 10));

        orders.replace_item("contoso", "1", &Order::new("1", 20), None).await.unwrap();
        let read: Order =
            orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(read.total, 20);

        let deleted = orders.delete_item("contoso", "1", None).await.unwrap();
        assert_eq!(deleted.status().code(), 204);
    })
    .await;
}

#[tokio::test]
async fn what_is_there_conflicts_and_what_is_not_is_not_found() {
    with_store(&[Feature::MissingItem], async |store| {
        let orders = &store.orders;
        let item = Order::new("1", 10);
        for error in [
            orders.read_item("contoso", "1", None).await.unwrap_err(),
            orders.replace_item("contoso", "1", &item, None).await.unwrap_err(),
            orders.delete_item("contoso", "1", None).await.unwrap_err(),
            orders.patch_item("contoso", "1", Patch::new().set("/a", 1), None).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        }
        orders.create_item("contoso", &item, None).await.unwrap();
        let error = orders.create_item("contoso", &item, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    })
    .await;
}

#[tokio::test]
async fn an_upsert_creates_and_then_replaces() {
    with_store(&[], async |store| {
        let codes = [10, 20].map(|total| {
            let orders = store.orders.clone();
            async move {
                let item = Order::new("1", total);
                orders.upsert_item("contoso", item, None).await.unwrap().status().code()
            }
        });
        let [first, second] = codes;
        assert_eq!([first.await, second.await], [201, 200]);
        let read: Order =
            store.orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(read.total, 20);
    })
    .await;
}

#[tokio::test]
async fn the_same_id_in_two_partition_keys_is_two_items() {
    with_store(&[], async |store| {
        for (customer, total) in [("contoso", 1), ("fabrikam", 2)] {
            store.orders.create_item(customer, order(customer, "1", total), None).await.unwrap();
        }
        for (customer, total) in [("contoso", 1), ("fabrikam", 2)] {
            let read: Value =
                store.orders.read_item(customer, "1", None).await.unwrap().into_model().unwrap();
            assert_eq!(read["total"], total);
        }
    })
    .await;
}

#[tokio::test]
async fn raw_json_goes_in_and_comes_out() {
    with_store(&[], async |store| {
        let text = r#"{"id":"1","customer":"contoso","n":1.50,"list":[null,true]}"#;
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        store.orders.upsert_item("contoso", raw, None).await.unwrap();
        let response = store.orders.read_item("contoso", "1", None).await.unwrap();
        let borrowed: &RawValue = response.model().unwrap();
        assert!(borrowed.get().contains(r#""list":[null,true]"#), "{borrowed}");
        let value: Value = response.into_model().unwrap();
        assert_eq!(value["n"], json!(1.5));
        assert!(value["_etag"].is_string());
    })
    .await;
}

#[tokio::test]
async fn a_model_that_does_not_fit_is_an_error_that_names_its_type() {
    with_store(&[], async |store| {
        let item = json!({"id": "1", "customer": "contoso"});
        store.orders.upsert_item("contoso", &item, None).await.unwrap();
        let response = store.orders.read_item("contoso", "1", None).await.unwrap();
        let error = response.into_model::<Order>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse);
        assert!(
            error.to_string().contains("Order") && error.to_string().contains("total"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test]
async fn a_write_brings_the_item_back_only_where_it_is_asked_to() {
    with_store(&[Feature::MinimalResponses], async |store| {
        let item = Order::new("1", 10);
        let plain = store.orders.upsert_item("contoso", &item, None).await.unwrap();
        assert!(plain.body().is_empty());
        let error = plain.into_model::<Order>().unwrap_err();
        assert!(error.to_string().contains("content_response_on_write"), "{error}");
        let write = ItemWriteOptions::default().with_content_response_on_write(true);
        let full = store.orders.upsert_item("contoso", &item, writing(write)).await.unwrap();
        assert_eq!(full.into_model::<Order>().unwrap(), item);
    })
    .await;
}

#[tokio::test]
async fn a_write_with_a_stale_etag_is_refused_and_the_item_stays() {
    with_store(&[], async |store| {
        let orders = &store.orders;
        let first = orders.upsert_item("contoso", Order::new("1", 10), None).await.unwrap();
        let stale = first.etag().unwrap();
        let second = orders.upsert_item("contoso", Order::new("1", 20), None).await.unwrap();
        let matching =
            |etag: &Etag| writing(ItemWriteOptions::default().with_if_match_etag(etag.clone()));
        let replace = orders.replace_item("contoso", "1", Order::new("1", 30), matching(&stale));
        assert_eq!(replace.await.unwrap_err().kind(), ErrorKind::PreconditionFailed);
        let delete = orders.delete_item("contoso", "1", matching(&stale)).await;
        assert_eq!(delete.unwrap_err().kind(), ErrorKind::PreconditionFailed);
        let read: Order =
            orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(read.total, 20);
        let current = second.etag().unwrap();
        let replace = orders.replace_item("contoso", "1", Order::new("1", 30), matching(&current));
        assert_eq!(replace.await.unwrap().status().code(), 200);
    })
    .await;
}

#[tokio::test]
async fn a_read_of_a_known_version_brings_nothing() {
    with_store(&[Feature::ConditionalReads], async |store| {
        let orders = &store.orders;
        let etag = orders.upsert_item("contoso", Order::new("1", 10), None).await.unwrap().etag();
        let options = ItemOptions { if_none_match_etag: etag, ..ItemOptions::default() };
        let read = orders.read_item("contoso", "1", Some(options.clone())).await.unwrap();
        assert!(read.is_not_modified() && read.body().is_empty());
        orders.upsert_item("contoso", Order::new("1", 20), None).await.unwrap();
        let read = orders.read_item("contoso", "1", Some(options)).await.unwrap();
        assert!(!read.is_not_modified());
        assert_eq!(read.into_model::<Order>().unwrap().total, 20);
    })
    .await;
}

#[tokio::test]
async fn a_session_token_goes_out_with_a_response_and_in_with_a_call() {
    with_store(&[Feature::Sessions], async |store| {
        let written = store.orders.upsert_item("contoso", Order::new("1", 10), None).await.unwrap();
        let token: SessionToken = written.session_token().unwrap();
        // Another process, which has seen nothing: the token is its session.
        let token: SessionToken = token.to_string().parse().unwrap();
        let write = ItemWriteOptions::default().with_session_token(token);
        let read = store.orders.read_item("contoso", "1", writing(write)).await.unwrap();
        assert_eq!(read.into_model::<Order>().unwrap().total, 10);
    })
    .await;
}

#[tokio::test]
async fn an_item_that_cannot_be_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        let orders = &store.orders;
        for id in ["", "a/b", "a\\b"] {
            let error = orders.read_item("contoso", id, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
            let error =
                orders.create_item("contoso", order("contoso", id, 1), None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{id}");
            assert!(error.diagnostics().is_none(), "it was sent: {id}");
        }
        let large = json!({"id": "1", "customer": "contoso", "text": "x".repeat(2 * 1024 * 1024)});
        let error = orders.upsert_item("contoso", large, None).await.unwrap_err();
        assert!(error.to_string().contains("at most 2097152"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn an_item_under_another_key_than_its_own_is_refused() {
    with_store(&[Feature::Refusals], async |store| {
        let item = order("contoso", "1", 1);
        let error = store.orders.create_item("fabrikam", &item, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!(error.status().unwrap().to_string().split('/').next(), Some("400"));
    })
    .await;
}

#[tokio::test]
async fn ids_with_awkward_characters_are_read_back() {
    with_store(&[], async |store| {
        for id in [
            "a b", "a+b", "100%", "%41", "ü", "日本", "a&b=c", "'", "\"", "a;b", "a?b", "a#b", "~",
            "...",
        ] {
            let item = order("contoso", id, 1);
            store.orders.create_item("contoso", &item, None).await.unwrap();
            let read = store.orders.read_item("contoso", id, None).await.unwrap();
            assert_eq!(read.into_model::<Value>().unwrap()["id"], id);
        }
    })
    .await;
}
