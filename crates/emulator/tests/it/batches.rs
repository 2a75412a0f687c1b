//! Batches over a socket: all or nothing, and each for itself.

use crate::common::{Answer, Client, DOCS, KEY, key_of};
use http::Method;
use serde_json::{Value, json};

const A: (&str, &str) = (KEY, "[\"a\"]");
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");

fn item(id: &str) -> Value {
    json!({ "id": id, "pk": "a", "v": 1 })
}

async fn batch(client: &Client, operations: Value) -> Answer {
    client.send(Method::POST, DOCS, &[A, BATCH, ATOMIC], operations).await
}

fn statuses(answer: &Answer) -> Vec<u64> {
    let results = answer.json();
    results
        .as_array()
        .unwrap()
        .iter()
        .map(|result| result["statusCode"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn a_batch_does_every_kind_of_operation_together() {
    let client = Client::with_container(5).await;
    client.create(item("old")).await;
    client.create(item("gone")).await;
    let answer = batch(&client, json!([
        { "operationType": "Create", "resourceBody": item("new") },
        { "operationType": "Upsert", "resourceBody": item("up") },
        { "operationType": "Replace", "id": "old", "resourceBody": { "id": "old", "pk": "a", "v": 2 } },
        { "operationType": "Patch", "id": "new", "resourceBody": { "operations": [{ "op": "incr", "path": "/v", "value": 5 }] } },
        { "operationType": "Read", "id": "new" },
        { "operationType": "Delete", "id": "gone" },
    ]))
    .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(statuses(&answer), [201, 201, 200, 200, 200, 204]);
    assert_eq!(answer.json()[4]["resourceBody"]["v"], 6);
    assert!(answer.json()[0]["eTag"].is_string());
    assert_eq!(client.read("new", "a").await.json()["v"], 6);
    assert_eq!(client.read("gone", "a").await.status, 404);
}

/// .NET says it of each operation, JavaScript of the request.
#[tokio::test]
async fn a_batch_leaves_out_the_items_of_writes_that_prefer_it() {
    let client = Client::with_container(1).await;
    client.create(item("there")).await;
    let operations = |minimal: Value| {
        json!([
            { "operationType": "Upsert", "resourceBody": item("new"), "minimalReturnPreference": minimal },
            { "operationType": "Upsert", "resourceBody": item("other") },
            { "operationType": "Read", "id": "there" },
        ])
    };
    let has_body = |answer: &Answer| {
        let results = answer.json();
        let results = results.as_array().unwrap().iter();
        results.map(|result| result["resourceBody"].is_object()).collect::<Vec<_>>()
    };
    let by_operation = batch(&client, operations(json!(true))).await;
    assert_eq!(has_body(&by_operation), [false, true, true]);
    let headers = [A, BATCH, ATOMIC, ("prefer", "return=minimal")];
    let by_request = client.send(Method::POST, DOCS, &headers, operations(json!(false))).await;
    assert_eq!(has_body(&by_request), [false, false, true]);
}

#[tokio::test]
async fn a_batch_with_a_failing_operation_changes_nothing() {
    let client = Client::with_container(1).await;
    client.create(item("there")).await;
    let answer = batch(
        &client,
        json!([
            { "operationType": "Create", "resourceBody": item("new") },
            { "operationType": "Create", "resourceBody": item("there") },
            { "operationType": "Delete", "id": "there" },
        ]),
    )
    .await;
    assert_eq!(answer.status, 207);
    assert_eq!(statuses(&answer), [424, 409, 424]);
    assert_eq!(client.read("new", "a").await.status, 404);
    assert_eq!(client.read("there", "a").await.status, 200);
}

#[tokio::test]
async fn the_operations_of_a_batch_share_one_sequence_number() {
    let client = Client::with_container(1).await;
    let first: u64 = client.create(item("0")).await.header("lsn").unwrap().parse().unwrap();
    let operations: Vec<Value> = (1..=5)
        .map(|id| json!({ "operationType": "Create", "resourceBody": item(&id.to_string()) }))
        .collect();
    let answer = batch(&client, json!(operations)).await;
    assert_eq!(answer.header("lsn").unwrap().parse::<u64>().unwrap(), first + 1);
}

#[tokio::test]
async fn conditions_hold_within_a_batch() {
    let client = Client::with_container(1).await;
    let etag = client.create(item("1")).await.header("etag").unwrap().to_owned();
    let replace = json!({ "operationType": "Replace", "id": "1", "resourceBody": item("1"), "ifMatch": etag });
    let answer = batch(&client, json!([replace.clone()])).await;
    assert_eq!(statuses(&answer), [200]);
    let answer = batch(&client, json!([replace])).await;
    assert_eq!((answer.status, statuses(&answer)), (207, vec![412]));
}

#[tokio::test]
async fn the_limits_of_a_batch_are_kept() {
    let client = Client::with_container(1).await;
    let many: Vec<Value> =
        (0..101).map(|id| json!({ "operationType": "Read", "id": id.to_string() })).collect();
    let refused = |answer: Answer, status: u16, words: &str| {
        assert_eq!(answer.status, status);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(words), "{message}");
    };
    let too_many = "Batch request has more operations than what is supported.";
    refused(batch(&client, json!(many)).await, 400, too_many);
    refused(batch(&client, json!([])).await, 400, "Batch request has no operations.");
    assert_eq!(batch(&client, json!([{ "operationType": "Explode" }])).await.status, 400);
    let large = json!([{ "operationType": "Create", "resourceBody": { "id": "1", "pk": "a", "text": "x".repeat(2 * 1024 * 1024) } }]);
    let too_large = r#"Message: {"Errors":["Request size is too large"]}"#;
    refused(batch(&client, large).await, 413, too_large);
    let unkeyed = client
        .send(Method::POST, DOCS, &[BATCH, ATOMIC], json!([{ "operationType": "Read", "id": "1" }]))
        .await;
    assert_eq!(unkeyed.status, 400);
}

#[tokio::test]
async fn an_item_of_another_key_fails_the_batch() {
    let client = Client::with_container(5).await;
    let foreign = json!({ "id": "1", "pk": "b" });
    let answer =
        batch(&client, json!([{ "operationType": "Create", "resourceBody": foreign }])).await;
    assert_eq!((answer.status, statuses(&answer)), (207, vec![400]));
}

#[tokio::test]
async fn a_bulk_request_does_each_operation_for_itself() {
    let client = Client::with_container(1).await;
    client.create(item("there")).await;
    let operations = json!([
        { "operationType": "Create", "partitionKey": "[\"a\"]", "resourceBody": item("new") },
        { "operationType": "Create", "partitionKey": "[\"a\"]", "resourceBody": item("there") },
        { "operationType": "Upsert", "partitionKey": "[\"b\"]", "resourceBody": { "id": "1", "pk": "b" } },
        { "operationType": "Read", "partitionKey": "[\"a\"]", "id": "none" },
    ]);
    let headers = [
        BATCH,
        ("x-ms-cosmos-batch-atomic", "false"),
        ("x-ms-cosmos-batch-continue-on-error", "true"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let answer = client.send(Method::POST, DOCS, &headers, operations).await;
    assert_eq!(answer.status, 207);
    assert_eq!(statuses(&answer), [201, 409, 201, 404]);
    assert_eq!(client.read("new", "a").await.status, 200);
}

#[tokio::test]
async fn a_bulk_operation_sent_to_the_wrong_range_is_refused() {
    let client = Client::with_container(5).await;
    let headers = [
        BATCH,
        ("x-ms-cosmos-batch-atomic", "false"),
        ("x-ms-cosmos-batch-continue-on-error", "true"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let mut seen = [0_u64; 2];
    for number in 0..20 {
        let item = json!({ "id": "1", "pk": number });
        let key = key_of(&item);
        let operations =
            json!([{ "operationType": "Create", "partitionKey": key, "resourceBody": item }]);
        let answer = client.send(Method::POST, DOCS, &headers, operations).await;
        match statuses(&answer)[0] {
            201 => seen[0] += 1,
            410 => seen[1] += 1,
            other => panic!("{other}: {}", answer.text),
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    let gone = client
        .send(
            Method::POST,
            DOCS,
            &[BATCH, ("x-ms-documentdb-partitionkeyrangeid", "77")],
            json!([{ "operationType": "Read", "id": "1" }]),
        )
        .await;
    assert_eq!((gone.status, gone.sub_status()), (410, 1002));
}
