//! Batches that are answered with nonsense, on accounts in this process.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sidereal::options::ItemWriteOptions;
use sidereal::prelude::*;
use sidereal_testing::in_process::scripting::answer;

use crate::query::Partitioned;

/// The error of a batch that is answered 200 and this.
async fn error_of(batch: TransactionalBatch, body: &'static str) -> sidereal::Error {
    let store = Partitioned::scripted(1, move |request| {
        let is_batch = request.headers().contains_key("x-ms-cosmos-is-batch-request");
        is_batch.then(|| answer(http::StatusCode::OK, body, None))
    });
    let error = store.await.items.execute_batch(batch, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{body}: {error}");
    error
}

/// The service said 200, so the batch was applied; its answer cannot be read, so that is not known for certain.
#[tokio::test(start_paused = true)]
async fn a_batch_whose_answer_cannot_be_read_may_have_been_applied() {
    for body in ["", "{}", "[]", r#"[{"statusCode":201},{"statusCode":201}]"#, "nonsense"] {
        let writing = TransactionalBatch::new("a").create_item(json!({"id": "1", "pk": "a"}));
        let error = error_of(writing, body).await;
        assert!(error.may_have_been_applied(), "{body}");
        assert!(error.diagnostics().is_some_and(|it| it.attempts().len() == 1), "{body}");
        let reading = TransactionalBatch::new("a").read_item("1", None);
        assert!(!error_of(reading, body).await.may_have_been_applied(), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_read_whatever_its_optional_fields_are() {
    let body = r#"[{"statusCode":201.0,"subStatusCode":0,"requestCharge":"5","eTag":"","retryAfterMilliseconds":0.5,"new":1}]"#;
    let store = Partitioned::scripted(1, move |request| {
        let is_batch = request.headers().contains_key("x-ms-cosmos-is-batch-request");
        is_batch.then(|| answer(http::StatusCode::OK, body, None))
    });
    let batch = TransactionalBatch::new("a").create_item(json!({"id": "1", "pk": "a"}));
    let response = store.await.items.execute_batch(batch, None).await.unwrap();
    assert_eq!(response.results()[0].status().code(), 201);
    assert!(response.results()[0].etag().is_none());
}

/// The header of a whole batch, which no other SDK sends, asked for this.
#[tokio::test(start_paused = true)]
async fn each_write_of_a_batch_says_whether_its_item_comes_back() {
    let sent = Arc::new(Mutex::new(Vec::<(bool, Value)>::new()));
    let seen = Arc::clone(&sent);
    let store = Partitioned::scripted(1, move |request| {
        if request.headers().contains_key("x-ms-cosmos-is-batch-request") {
            let body = serde_json::from_slice(request.body()).unwrap();
            seen.lock().unwrap().push((request.headers().contains_key("prefer"), body));
        }
        None
    });
    let items = store.await.items;
    let item = json!({"id": "1", "pk": "a"});
    for wants_items in [false, true] {
        let write = ItemWriteOptions::default().with_content_response_on_write(wants_items);
        let options = ItemOptions { write, ..ItemOptions::default() };
        let batch = TransactionalBatch::new("a").upsert_item(&item, None).read_item("1", None);
        let response = items.execute_batch(batch, Some(options.clone())).await.unwrap();
        assert_eq!(response.results()[0].model::<Value>().is_ok(), wants_items);
        assert!(response.results()[1].model::<Value>().is_ok(), "a read's item comes always");
        let operations =
            [BulkOperation::upsert_item("a", &item), BulkOperation::read_item("a", "1")];
        let report = items.bulk().with_options(options).execute(operations).await.unwrap();
        let outcome = |at: usize| report.results()[at].outcome().unwrap();
        assert_eq!(outcome(0).model::<Value>().is_ok(), wants_items);
        assert!(outcome(1).model::<Value>().is_ok());
    }
    let sent = sent.lock().unwrap();
    let told: Vec<_> = sent
        .iter()
        .map(|(prefers, body)| {
            let minimal = |at: usize| body[at]["minimalReturnPreference"].as_bool();
            (*prefers, minimal(0), minimal(1))
        })
        .collect();
    let (minimal, whole) = ((false, Some(true), None), (false, None, None));
    assert_eq!(told, [minimal, minimal, whole, whole]);
}
