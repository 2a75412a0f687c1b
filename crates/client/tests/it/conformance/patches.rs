//! Patches.

use serde_json::{Value, json};
use sidereal::options::ItemWriteOptions;
use sidereal::prelude::*;

use super::{with_store, writing};

#[tokio::test]
async fn each_kind_of_change_is_applied_in_order() {
    with_store(&[], async |store| {
        let item =
            json!({"id": "1", "customer": "contoso", "n": 1, "tags": ["a"], "old": 1, "b": 2});
        store.orders.create_item("contoso", item, None).await.unwrap();
        let patch = Patch::new()
            .set("/status", "open")
            .add("/tags/-", "b")
            .replace("/n", 5)
            .increment("/n", 2)
            .remove("/old")
            .move_value("/b", "/c");
        let write = ItemWriteOptions::default().with_content_response_on_write(true);
        let patched = store.orders.patch_item("contoso", "1", patch, writing(write)).await.unwrap();
        let item: Value = patched.into_model().unwrap();
        assert_eq!(item["status"], "open");
        assert_eq!(item["tags"], json!(["a", "b"]));
        assert_eq!(item["n"], 7);
        assert_eq!((item.get("old"), item.get("b"), &item["c"]), (None, None, &json!(2)));
    })
    .await;
}

#[tokio::test]
async fn a_condition_that_does_not_hold_leaves_the_item_as_it_was() {
    with_store(&[], async |store| {
        let item = json!({"id": "1", "customer": "contoso", "n": 1});
        store.orders.create_item("contoso", item, None).await.unwrap();
        let on = |condition: &str| Patch::new().increment("/n", 1).with_condition(condition);
        let refused = on("FROM c WHERE c.n > 1");
        let error = store.orders.patch_item("contoso", "1", refused, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
        let patch = on("FROM c WHERE c.n = 1");
        store.orders.patch_item("contoso", "1", patch, None).await.unwrap();
        let item: Value =
            store.orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(item["n"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_patch_that_does_not_fit_the_item_changes_nothing() {
    with_store(&[], async |store| {
        let item = json!({"id": "1", "customer": "contoso", "n": 1});
        store.orders.create_item("contoso", item, None).await.unwrap();
        let patch = Patch::new().set("/n", 2).remove("/absent");
        let error = store.orders.patch_item("contoso", "1", patch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let item: Value =
            store.orders.read_item("contoso", "1", None).await.unwrap().into_model().unwrap();
        assert_eq!(item["n"], 1);
    })
    .await;
}

#[tokio::test]
async fn a_patch_of_eleven_changes_is_refused_before_it_is_sent() {
    with_store(&[], async |store| {
        let patch = (0..11).fold(Patch::new(), |patch, n| patch.set("/n", n));
        let error = store.orders.patch_item("contoso", "1", patch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.diagnostics().is_none(), "it was sent");
    })
    .await;
}
