//! Continuation tokens: what they survive, and what refuses them.

use serde_json::Value;
use sidereal::prelude::*;

use super::{Partitioned, collect, numbered};

const SORTED: &str = "SELECT VALUE c.n FROM c WHERE c.n >= @least ORDER BY c.n";
const STREAMED: &str = "SELECT VALUE c.n FROM c WHERE c.n >= @least";

fn query(store: &Partitioned, text: &str) -> Query {
    store.items.query(text).with_parameter("@least", 0).with_page_size(4)
}

/// The first page of a query, and where it ended.
async fn first_page(query: &Query) -> (Vec<Value>, ContinuationToken) {
    let page = query.pages::<Value>().next().await.unwrap().unwrap();
    let token = page.continuation().unwrap().unwrap();
    // As text: a token that is kept for later is no value in this process.
    let token = token.to_string().parse().unwrap();
    (page.into_items(), token)
}

fn numbers(rows: &[Value]) -> Vec<u64> {
    let mut numbers: Vec<u64> = rows.iter().filter_map(Value::as_u64).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(start_paused = true)]
async fn a_token_survives_splits_and_merges_between_stop_and_resume() {
    for text in [SORTED, STREAMED] {
        let store = Partitioned::new(4).await;
        store.insert(&numbered(30)).await;
        let query = query(&store, text);
        let (mut rows, token) = first_page(&query).await;
        let ranges = store.ranges().await;
        for range in &ranges[..2] {
            store.split(range);
        }
        store.merge(&ranges[2], &ranges[3]);
        rows.extend(collect(&query.with_continuation(token)).await.unwrap());
        assert_eq!(numbers(&rows), (0..30).collect::<Vec<_>>(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_one_partition_key_resumes_there() {
    let store = Partitioned::new(4).await;
    let mut items = numbered(10);
    items.iter_mut().for_each(|item| item["pk"] = "one".into());
    store.insert(&items).await;
    for text in [SORTED, STREAMED] {
        let query = query(&store, text).with_partition_key("one");
        let (mut rows, token) = first_page(&query).await;
        rows.extend(collect(&query.with_continuation(token)).await.unwrap());
        assert_eq!(numbers(&rows), (0..10).collect::<Vec<_>>(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_query_is_refused() {
    let store = Partitioned::new(2).await;
    store.insert(&numbered(20)).await;
    let (_, token) = first_page(&query(&store, SORTED)).await;
    let parts = store.items.read_feed_ranges().await.unwrap();
    for other in [
        query(&store, STREAMED),
        query(&store, SORTED).with_parameter("@least", 1),
        query(&store, SORTED).with_partition_key("p1"),
        query(&store, SORTED).with_feed_range(parts[0].clone()),
    ] {
        let error = collect(&other.with_continuation(token.clone())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("belongs to another query"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_container_that_was_created_anew_is_refused() {
    let store = Partitioned::new(2).await;
    store.insert(&numbered(20)).await;
    let (_, token) = first_page(&query(&store, SORTED)).await;
    let properties = store.items.read(None).await.unwrap().into_properties().unwrap();
    store.items.delete(None).await.unwrap();
    let properties = ContainerProperties::new("items", properties.partition_key);
    store.client.database("db").create_container(properties, None).await.unwrap();
    let resumed = store.stranger().query(SORTED).with_parameter("@least", 0);
    let error = collect(&resumed.with_continuation(token)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
    assert!(error.to_string().contains("created again"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_shape_that_cannot_be_resumed_says_so_and_takes_no_token() {
    let store = Partitioned::new(2).await;
    store.insert(&numbered(20)).await;
    let (_, token) = first_page(&query(&store, SORTED)).await;
    for text in [
        "SELECT DISTINCT VALUE c.n FROM c",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT c.n FROM c GROUP BY c.n",
        "SELECT VALUE SUM(c.n) / 2 FROM c",
    ] {
        let query = store.items.query(text);
        let page = query.pages::<Value>().next().await.unwrap().unwrap();
        let error = page.continuation().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains("from the beginning"), "{error}");
        assert!(!query.explain().await.unwrap().is_resumable(), "{text}");
        let error = collect(&query.with_continuation(token.clone())).await.unwrap_err();
        assert!(error.to_string().contains("no continuation token for this query"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_text_that_serde_knows() {
    let store = Partitioned::new(2).await;
    store.insert(&numbered(20)).await;
    let (_, token) = first_page(&query(&store, SORTED)).await;
    let text = token.to_string();
    assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    let json = serde_json::to_string(&token).unwrap();
    assert_eq!(json, format!("\"{text}\""));
    assert_eq!(serde_json::from_str::<ContinuationToken>(&json).unwrap(), token);
    assert!(serde_json::from_str::<ContinuationToken>("\"x\"").is_err());
}
