//! Partition ranges that are split or merged, and containers that are recreated, while a query runs.

use serde_json::{Value, json};
use sidereal::prelude::*;

use super::Partitioned;

/// Items with three tags each, so that pages of a JOIN end inside of items.
fn tagged(count: usize) -> Vec<Value> {
    let item = |n: usize| json!({"id": n.to_string(), "pk": format!("p{n}"), "v": n % 3, "tags": ["x", "y", "z"]});
    (0..count).map(item).collect()
}

/// The emulator went on at the same place of another item, where the interrupted one was in the other half.
#[tokio::test(start_paused = true)]
async fn a_join_that_is_interrupted_inside_of_an_item_loses_no_row_to_a_split() {
    for text in [
        "SELECT c.id, t FROM c JOIN t IN c.tags",
        "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.v",
    ] {
        for page_size in [1, 2, 4] {
            let store = Partitioned::new(1).await;
            store.insert(&tagged(12)).await;
            let mut rows = Vec::new();
            let mut pages = store.items.query(text).with_page_size(page_size).pages::<Value>();
            while let Some(page) = pages.next().await {
                rows.extend(page.unwrap().into_items().into_iter().map(|row| row.to_string()));
                let ranges = store.ranges().await;
                if ranges.len() < 5 {
                    store.split(&ranges[0]);
                }
            }
            let given = rows.len();
            rows.sort_unstable();
            rows.dedup();
            assert_eq!((given, rows.len()), (36, 36), "{text}, pages of {page_size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_ends_when_its_container_is_created_anew() {
    for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.v", "SELECT DISTINCT * FROM c"] {
        let store = Partitioned::new(2).await;
        store.insert(&tagged(30)).await;
        let query = store.items.query(text).with_page_size(2);
        let mut rows = query.items::<Value>();
        rows.next().await.unwrap().unwrap();
        store.items.delete(None).await.unwrap();
        let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
        store.client.database("db").create_container(properties, None).await.unwrap();
        let (mut given, mut error) = (1, None);
        while let Some(row) = rows.next().await {
            match row {
                Ok(_) => given += 1,
                Err(failure) => error = Some(failure),
            }
        }
        assert!(given < 30, "{text}: {given} rows");
        let error = error.expect("rows of another container do not continue this one's");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{text}: {error}");
        assert!(error.to_string().contains("created again"), "{text}: {error}");
    }
}
