//! Queries.

use serde_json::{Value, json};
use sidereal::prelude::*;

use super::{Feature, Store, with_store};

/// Six orders of three customers.
async fn fill(store: &Store) {
    for (id, customer, total) in [
        ("1", "contoso", 30),
        ("2", "contoso", 10),
        ("3", "fabrikam", 20),
        ("4", "fabrikam", 60),
        ("5", "tailspin", 50),
        ("6", "tailspin", 40),
    ] {
        let item = super::order(customer, id, total);
        store.orders.create_item(customer, item, None).await.unwrap();
    }
}

async fn rows(store: &Store, text: &str) -> Vec<Value> {
    store.orders.query(text).items().collect().await.unwrap()
}

#[tokio::test]
async fn a_query_across_partitions_filters_and_sorts() {
    with_store(&[], async |store| {
        fill(store).await;
        let ids: Vec<String> = store
            .orders
            .query("SELECT VALUE c.id FROM c WHERE c.total > @least ORDER BY c.total DESC")
            .with_parameter("@least", 20)
            .items()
            .collect()
            .await
            .unwrap();
        assert_eq!(ids, ["4", "5", "6", "1"]);
    })
    .await;
}

#[tokio::test]
async fn a_query_of_one_partition_key_sees_nothing_else() {
    with_store(&[Feature::QueryScopes], async |store| {
        fill(store).await;
        let query = store.orders.query("SELECT VALUE c.id FROM c ORDER BY c.id");
        let ids = query.with_partition_key("contoso").items::<String>().collect().await.unwrap();
        assert_eq!(ids, ["1", "2"]);
    })
    .await;
}

#[tokio::test]
async fn the_feed_ranges_of_a_container_have_each_item_once() {
    with_store(&[Feature::QueryScopes], async |store| {
        fill(store).await;
        let mut ids: Vec<String> = Vec::new();
        for range in store.orders.read_feed_ranges().await.unwrap() {
            let query = store.orders.query("SELECT VALUE c.id FROM c").with_feed_range(range);
            ids.extend(query.items::<String>().collect().await.unwrap());
        }
        ids.sort_unstable();
        assert_eq!(ids, ["1", "2", "3", "4", "5", "6"]);
    })
    .await;
}

#[tokio::test]
async fn aggregates_are_those_of_all_partitions() {
    with_store(&[Feature::Aggregates], async |store| {
        fill(store).await;
        let queries = [
            ("SELECT VALUE COUNT(1) FROM c", json!(6)),
            ("SELECT VALUE SUM(c.total) FROM c", json!(210)),
            ("SELECT VALUE MIN(c.total) FROM c", json!(10)),
            ("SELECT VALUE MAX(c.total) FROM c", json!(60)),
        ];
        for (text, expected) in queries {
            let found: Option<f64> = store.orders.query(text).first().await.unwrap();
            assert_eq!(found, expected.as_f64(), "{text}");
        }
        let average: Option<f64> =
            store.orders.query("SELECT VALUE AVG(c.total) FROM c").first().await.unwrap();
        assert_eq!(average, Some(35.0));
    })
    .await;
}

#[tokio::test]
async fn groups_distinct_values_and_windows_are_merged() {
    with_store(&[Feature::EveryQuery], async |store| {
        fill(store).await;
        let groups = rows(
            store,
            "SELECT c.customer, SUM(c.total) AS total FROM c GROUP BY c.customer ORDER BY c.customer",
        )
        .await;
        assert_eq!(
            groups,
            [
                json!({"customer": "contoso", "total": 40}),
                json!({"customer": "fabrikam", "total": 80}),
                json!({"customer": "tailspin", "total": 90}),
            ]
        );
        let distinct = rows(store, "SELECT DISTINCT VALUE c.customer FROM c ORDER BY c.customer").await;
        assert_eq!(distinct, ["contoso", "fabrikam", "tailspin"]);
        let window = rows(store, "SELECT VALUE c.id FROM c ORDER BY c.total OFFSET 1 LIMIT 3").await;
        assert_eq!(window, ["3", "1", "6"]);
        assert_eq!(rows(store, "SELECT TOP 2 VALUE c.id FROM c ORDER BY c.total").await, ["2", "3"]);
    })
    .await;
}

#[tokio::test]
async fn a_query_goes_on_from_each_of_its_pages() {
    with_store(&[Feature::QueryPaging], async |store| {
        fill(store).await;
        let query =
            store.orders.query("SELECT VALUE c.id FROM c ORDER BY c.total").with_page_size(2);
        let (mut ids, mut token): (Vec<String>, Option<String>) = (Vec::new(), None);
        loop {
            let next = match &token {
                Some(text) => query.clone().with_continuation(text.parse().unwrap()),
                None => query.clone(),
            };
            let Some(page) = next.pages::<String>().next().await else { break };
            let page = page.unwrap();
            assert!(page.items().len() <= 2 && page.request_charge() > 0.0);
            token = page.continuation().unwrap().map(|token| token.to_string());
            ids.extend(page.into_items());
            if token.is_none() {
                break;
            }
        }
        assert_eq!(ids, ["2", "3", "1", "6", "5", "4"]);
    })
    .await;
}

#[tokio::test]
async fn a_continuation_of_another_query_is_refused() {
    with_store(&[Feature::QueryPaging], async |store| {
        fill(store).await;
        let query = store.orders.query("SELECT * FROM c ORDER BY c.total").with_page_size(1);
        let page = query.pages::<Value>().next().await.unwrap().unwrap();
        let token: ContinuationToken = page.continuation().unwrap().unwrap();
        let other = store.orders.query("SELECT * FROM c ORDER BY c.id").with_continuation(token);
        let error = other.items::<Value>().collect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        assert!("garbage".parse::<ContinuationToken>().is_err());
    })
    .await;
}

#[tokio::test]
async fn what_is_no_query_is_refused_with_the_place() {
    with_store(&[], async |store| {
        let query = store.orders.query("SELECT * FROM c WHERE c.total >");
        let error = query.items::<Value>().collect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert_eq!(error.status().unwrap().code(), 400);
        assert!(error.to_string().contains("line 1, column 32"), "{error}");
    })
    .await;
}

#[tokio::test]
async fn databases_and_containers_are_found_by_their_ids() {
    with_store(&[], async |store| {
        let text = format!("SELECT * FROM c WHERE c.id = '{}'", store.database.id());
        let databases = store.client.query_databases(&text, None).collect().await.unwrap();
        assert_eq!(databases.len(), 1);
        let containers =
            store.database.query_containers("SELECT * FROM c", None).collect().await.unwrap();
        let ids: Vec<&str> = containers.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["orders"]);
    })
    .await;
}
