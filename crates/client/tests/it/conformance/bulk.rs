//! Bulk, and reading many by id.

use serde_json::Value;
use sidereal::prelude::*;

use super::{Feature, order, with_store};

fn customer(n: usize) -> String {
    format!("customer {}", n % 17)
}

#[tokio::test]
async fn a_bulk_writes_many_items_and_names_what_fails() {
    with_store(&[Feature::Bulk], async |store| {
        let operations = (0..250).map(|n| {
            let item = order(&customer(n), &n.to_string(), n as u32);
            BulkOperation::create_item(customer(n), &item)
        });
        // One that is there already, by then or after it: one of the two fails.
        let twice = BulkOperation::create_item(customer(7), order(&customer(7), "7", 0));
        let report = store.orders.bulk().execute(operations.chain([twice])).await.unwrap();
        assert_eq!(report.results().len(), 251);
        assert!(report.requests() <= 20 && report.request_charge() > 0.0);
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].id(), Some("7"));
        assert_eq!(failures[0].outcome().unwrap_err().kind(), ErrorKind::Conflict);

        let deletes = (0..250).map(|n| BulkOperation::delete_item(customer(n), &n.to_string()));
        let report = store.orders.bulk().execute(deletes).await.unwrap();
        assert!(report.is_success());
        let left = store.orders.query("SELECT VALUE COUNT(1) FROM c").first::<u32>().await;
        assert_eq!(left.unwrap(), Some(0));
    })
    .await;
}

#[tokio::test]
async fn many_items_are_read_by_their_ids() {
    with_store(&[Feature::QueryScopes], async |store| {
        for n in 0..30 {
            let item = order(&customer(n), &n.to_string(), n as u32);
            store.orders.create_item(customer(n), &item, None).await.unwrap();
        }
        let wanted = (0..40).map(|n| (customer(n), n.to_string()));
        let response = store.orders.read_many(wanted).execute::<Value>().await.unwrap();
        for (n, item) in response.items().iter().enumerate() {
            let total = item.as_ref().map(|it| it["total"].as_u64().unwrap() as usize);
            assert_eq!(total, (n < 30).then_some(n));
        }
        assert!(response.request_charge() > 0.0 && response.requests() < 30);
    })
    .await;
}
