//! Batches that are answered with nonsense, on accounts in this process.

use serde_json::json;
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
