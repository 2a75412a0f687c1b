//! The change feed over a socket.

use crate::common::{Answer, Client, DOCS, KEY};
use http::Method;
use serde_json::{Value, json};

const FEED: (&str, &str) = ("a-im", "Incremental Feed");
const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");

fn item(id: &str, key: &str) -> Value {
    json!({ "id": id, "pk": key })
}

async fn changes(client: &Client, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![FEED];
    headers.extend_from_slice(more);
    client.get(DOCS, &headers).await
}

#[tokio::test]
async fn changes_come_in_the_order_they_were_made_latest_version_only() {
    let client = Client::with_container(1).await;
    for id in ["1", "2", "3"] {
        client.create(item(id, "a")).await;
    }
    client.send(Method::PUT, &format!("{DOCS}/1"), &[(KEY, "[\"a\"]")], item("1", "a")).await;
    client.send(Method::DELETE, &format!("{DOCS}/2"), &[(KEY, "[\"a\"]")], Value::Null).await;
    let all = changes(&client, &[RANGE]).await;
    assert_eq!(all.ids(), ["3", "1"]);
    assert!(all.rows()[0]["_lsn"].is_u64());
}

#[tokio::test]
async fn a_reader_goes_on_where_it_stopped_and_hears_when_there_is_nothing_new() {
    let client = Client::with_container(1).await;
    client.create(item("1", "a")).await;
    let first = changes(&client, &[RANGE]).await;
    let cursor = first.header("etag").unwrap().to_owned();
    let nothing = changes(&client, &[RANGE, ("if-none-match", &cursor)]).await;
    assert_eq!((nothing.status, nothing.text.as_str()), (304, ""));
    let cursor = nothing.header("etag").unwrap().to_owned();
    client.create(item("2", "a")).await;
    assert_eq!(changes(&client, &[RANGE, ("if-none-match", &cursor)]).await.ids(), ["2"]);
    let malformed = changes(&client, &[RANGE, ("if-none-match", "\"yesterday\"")]).await;
    assert_eq!(malformed.status, 400);
}

#[tokio::test]
async fn a_reader_that_starts_now_sees_only_what_comes() {
    let client = Client::with_container(1).await;
    client.create(item("old", "a")).await;
    let now = changes(&client, &[RANGE, ("if-none-match", "*")]).await;
    assert_eq!(now.status, 304);
    let cursor = now.header("etag").unwrap().to_owned();
    client.create(item("new", "a")).await;
    assert_eq!(changes(&client, &[RANGE, ("if-none-match", &cursor)]).await.ids(), ["new"]);
}

#[tokio::test]
async fn a_page_never_ends_inside_a_batch() {
    let client = Client::with_container(1).await;
    client.create(item("0", "a")).await;
    let batch: Vec<Value> = (1..=5)
        .map(|id| json!({ "operationType": "Create", "resourceBody": item(&id.to_string(), "a") }))
        .collect();
    let headers = [
        (KEY, "[\"a\"]"),
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "True"),
    ];
    assert_eq!(client.send(Method::POST, DOCS, &headers, json!(batch)).await.status, 200);
    client.create(item("6", "a")).await;

    let first = changes(&client, &[RANGE, ("x-ms-max-item-count", "2")]).await;
    assert_eq!(first.ids(), ["0", "1", "2", "3", "4", "5"]);
    let cursor = first.header("etag").unwrap().to_owned();
    let second =
        changes(&client, &[RANGE, ("x-ms-max-item-count", "2"), ("if-none-match", &cursor)]).await;
    assert_eq!(second.ids(), ["6"]);
}

#[tokio::test]
async fn the_feed_can_be_read_by_key_and_by_window() {
    let client = Client::with_container(1).await;
    client.create(item("1", "a")).await;
    client.create(item("2", "b")).await;
    assert_eq!(changes(&client, &[(KEY, "[\"a\"]")]).await.ids(), ["1"]);
    let window = [
        RANGE,
        ("x-ms-read-key-type", "EffectivePartitionKeyRange"),
        ("x-ms-start-epk", "3A5381E1114EB8D3FCC90795045B49B7"),
        ("x-ms-end-epk", "3A5381E1114EB8D3FCC90795045B49B8"),
    ];
    assert_eq!(changes(&client, &window).await.ids(), ["1"]);
}

#[tokio::test]
async fn the_feed_of_several_partitions_names_one_of_them() {
    let client = Client::with_container(5).await;
    assert_eq!(changes(&client, &[]).await.status, 400);
    assert_eq!(changes(&client, &[RANGE]).await.status, 304);
    let full = client.get(DOCS, &[("a-im", "Full-Fidelity Feed"), RANGE]).await;
    assert_eq!(full.status, 400, "{}", full.text);
}

#[tokio::test]
async fn changes_can_come_in_envelopes() {
    let client = Client::with_container(1).await;
    client.create(item("1", "a")).await;
    let enveloped =
        changes(&client, &[RANGE, ("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15")])
            .await;
    let row = &enveloped.rows()[0];
    assert_eq!(row["current"]["id"], "1");
    assert!(row["metadata"]["lsn"].is_u64());
}
