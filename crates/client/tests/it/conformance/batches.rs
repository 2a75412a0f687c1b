//! Batches.

use serde_json::Value;
use sidereal::BatchItemOptions;
use sidereal::models::BatchOperationType;
use sidereal::options::ItemWriteOptions;
use sidereal::prelude::*;

use super::{Feature, order, with_store, writing};

#[tokio::test]
async fn every_operation_of_a_batch_has_its_result() {
    with_store(&[Feature::Batch], async |store| {
        for id in ["replaced", "patched", "deleted", "read"] {
            let item = order("contoso", id, 1);
            store.orders.create_item("contoso", item, None).await.unwrap();
        }
        let batch = TransactionalBatch::new("contoso")
            .create_item(order("contoso", "created", 1))
            .upsert_item(order("contoso", "upserted", 2), None)
            .replace_item("replaced", order("contoso", "replaced", 3), None)
            .patch_item("patched", Patch::new().increment("/total", 3), None)
            .delete_item("deleted", None)
            .read_item("read", None);
        let write = ItemWriteOptions::default().with_content_response_on_write(true);
        let response = store.orders.execute_batch(batch, writing(write)).await.unwrap();
        let codes: Vec<u16> = response.results().iter().map(|it| it.status().code()).collect();
        assert_eq!(codes, [201, 201, 200, 200, 204, 200]);
        let totals = [(0, 1), (1, 2), (2, 3), (3, 4), (5, 1)];
        for (index, total) in totals {
            let item: Value = response.results()[index].model().unwrap();
            assert_eq!(item["total"], total, "{index}");
            assert!(response.results()[index].etag().is_some(), "{index}");
        }
        assert!(response.results()[4].model::<Value>().is_err());
        assert!(response.request_charge() > 0.0);
        assert!(response.session_token().is_some());
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_fails_names_the_operation_and_applies_nothing() {
    with_store(&[Feature::Batch], async |store| {
        store.orders.create_item("contoso", order("contoso", "there", 1), None).await.unwrap();
        let batch = TransactionalBatch::new("contoso")
            .create_item(order("contoso", "new", 1))
            .replace_item("absent", order("contoso", "absent", 1), None)
            .delete_item("there", None);
        let error = store.orders.execute_batch(batch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("operation 1 of 3 (Replace absent)"), "{error}");
        let failure = error.batch_failure().unwrap();
        assert_eq!((failure.index(), failure.id()), (1, Some("absent")));
        assert_eq!(failure.operation(), BatchOperationType::Replace);
        assert_eq!(error.status().unwrap().code(), 404);
        assert!(error.diagnostics().is_some());
        let missing = store.orders.read_item("contoso", "new", None).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        store.orders.read_item("contoso", "there", None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_etag_of_one_operation_holds_the_whole_batch() {
    with_store(&[Feature::Batch], async |store| {
        let first = store.orders.create_item("contoso", order("contoso", "1", 1), None).await;
        let stale = first.unwrap().etag();
        store.orders.upsert_item("contoso", order("contoso", "1", 2), None).await.unwrap();
        let options = BatchItemOptions { if_match_etag: stale, ..BatchItemOptions::default() };
        let batch = TransactionalBatch::new("contoso")
            .create_item(order("contoso", "2", 1))
            .replace_item("1", order("contoso", "1", 3), Some(options));
        let error = store.orders.execute_batch(batch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
        assert_eq!(error.batch_failure().unwrap().index(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_batch_beyond_the_limits_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        let batch = (0..101).fold(TransactionalBatch::new("contoso"), |batch, n| {
            batch.create_item(order("contoso", &n.to_string(), 1))
        });
        let empty = TransactionalBatch::new("contoso");
        for batch in [batch, empty] {
            let error = store.orders.execute_batch(batch, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.diagnostics().is_none(), "it was sent");
        }
    })
    .await;
}
