//! Numbers: IEEE doubles, however they come in.

use crate::common::{Client, DOCS, KEY};
use http::Method;
use serde_json::{Value, json};

const KEYED: (&str, &str) = (KEY, "[\"a\"]");

/// Sends an item as text: `json!` would round or reword its numbers first.
async fn create(client: &Client, text: &str) -> u16 {
    client.send_text(Method::POST, DOCS, &[KEYED], text.to_owned()).await.status
}

#[tokio::test]
async fn numbers_are_stored_as_doubles() {
    let client = Client::with_container(1).await;
    let item = r#"{"id":"1","pk":"a","big":9007199254740993,"deep":[{"one":1.0}],"half":0.5}"#;
    assert_eq!(create(&client, item).await, 201);
    let read = client.read("1", "a").await.text;
    assert!(read.contains(r#""big":9007199254740992,"deep":[{"one":1}],"half":0.5"#), "{read}");
    let found =
        client.query("SELECT VALUE c.big FROM c WHERE c.big = 9007199254740993", &[KEYED]).await;
    assert_eq!(found.rows(), [json!(9_007_199_254_740_992_i64)]);
    let body = json!({ "query": "SELECT VALUE @p", "parameters": [{ "name": "@p", "value": 9_007_199_254_740_993_i64 }] });
    let headers = [("x-ms-documentdb-isquery", "True"), KEYED];
    let answer = client.send(Method::POST, DOCS, &headers, body).await;
    assert_eq!(answer.rows(), [json!(9_007_199_254_740_992_i64)]);
}

#[tokio::test]
async fn batches_and_patches_store_doubles_too() {
    let client = Client::with_container(1).await;
    let batch =
        r#"[{"operationType":"Create","resourceBody":{"id":"1","pk":"a","n":9007199254740993}}]"#;
    let headers =
        [KEYED, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
    let answer = client.send_text(Method::POST, DOCS, &headers, batch.to_owned()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let patch = async |operations: &str| -> Value {
        let body = format!("{{\"operations\":[{operations}]}}");
        let path = format!("{DOCS}/1");
        client.send_text(Method::PATCH, &path, &[KEYED], body).await.json()
    };
    let stored = patch(r#"{"op":"set","path":"/one","value":[1.0]}"#).await;
    assert_eq!(
        (stored["n"].to_string(), stored["one"].to_string()),
        ("9007199254740992".to_owned(), "[1]".to_owned())
    );
    // One more than 2^53 is 2^53 again; two more is the next double.
    let stored = patch(r#"{"op":"incr","path":"/n","value":1}"#).await;
    assert_eq!(stored["n"].to_string(), "9007199254740992");
    let stored = patch(r#"{"op":"incr","path":"/n","value":2}"#).await;
    assert_eq!(stored["n"].to_string(), "9007199254740994");
    let stored = patch(r#"{"op":"incr","path":"/new","value":2.0}"#).await;
    assert_eq!(stored["new"].to_string(), "2");
}

#[tokio::test]
async fn one_point_zero_is_one_in_unique_keys_and_partition_keys() {
    let client = Client::start().await;
    client
        .create_container(json!({
            "id": "c",
            "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/n"] }] },
        }))
        .await;
    assert_eq!(create(&client, r#"{"id":"1","pk":"a","n":1}"#).await, 201);
    assert_eq!(create(&client, r#"{"id":"2","pk":"a","n":1.0}"#).await, 409);
    assert_eq!(create(&client, r#"{"id":"3","pk":"a","n":9007199254740993}"#).await, 201);
    assert_eq!(create(&client, r#"{"id":"4","pk":"a","n":9007199254740992}"#).await, 409);
    let text = r#"{"id":"5","pk":7.0,"n":1}"#.to_owned();
    assert_eq!(client.send_text(Method::POST, DOCS, &[(KEY, "[7]")], text).await.status, 201);
    assert_eq!(client.get(&format!("{DOCS}/5"), &[(KEY, "[7.0]")]).await.status, 200);
}
