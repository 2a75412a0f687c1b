//! Operations that fail, alone and by name; answers that are lost; servers that answer nonsense.

use serde_json::{Value, json};
use sidereal::prelude::*;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::scripting::{answer, refusal};
use sidereal_testing::in_process::{
    InProcessAccount, InterruptingFactory, Interruption, NetworkFaults,
};

use super::{Partitioned, all_succeeded, count, upserts};
use crate::query::client_of;

#[tokio::test(start_paused = true)]
async fn a_poisoned_item_fails_alone_and_by_name() {
    let store = Partitioned::new(2).await;
    let large = json!({"id": "large", "pk": "a", "text": "x".repeat(3_000_000)});
    let poisoned = vec![
        (BulkOperation::upsert_item("a", &large), "bytes long"),
        (BulkOperation::upsert_item("a", json!({"pk": "a"})), "has no id"),
        (BulkOperation::upsert_item("a", json!({"id": "other", "pk": "b"})), "400"),
        (BulkOperation::upsert_item(("a", "b"), json!({"id": "deep", "pk": "a"})), "2 components"),
        (BulkOperation::delete_item("a", "a/b"), "/"),
        (BulkOperation::delete_item("a", "absent"), "404"),
        (BulkOperation::patch_item("a", "empty", Patch::new()), "patch"),
    ];
    let expected: Vec<&str> = poisoned.iter().map(|(_, expected)| *expected).collect();
    let mut operations: Vec<BulkOperation> = upserts(300).collect();
    for (at, (operation, _)) in poisoned.into_iter().enumerate() {
        operations.insert(40 * at, operation);
    }
    let report = store.items.bulk().execute(operations).await.unwrap();
    let failures: Vec<_> = report.failures().collect();
    assert_eq!(failures.len(), expected.len());
    for (at, (failure, expected)) in failures.iter().zip(expected).enumerate() {
        assert_eq!(failure.index(), 40 * at);
        let error = failure.outcome().unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.to_string().starts_with(&format!("operation {} (", 40 * at)), "{error}");
        assert!(!error.may_have_been_applied(), "{error}");
        if let Some(id) = failure.id() {
            assert!(error.to_string().contains(id), "{error}");
        }
    }
    assert_eq!(count(&store.items).await, 300);
}

/// Creates of items on one range, whose requests can be interrupted.
async fn interruptible() -> (Partitioned, InterruptingFactory) {
    let options = AccountOptions { partitions: Some(1), ..AccountOptions::default() };
    let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
    let interrupting = InterruptingFactory::before(account.factory());
    let store = Partitioned::before(account, std::sync::Arc::new(interrupting.clone())).await;
    (store, interrupting)
}

fn creates(ids: std::ops::Range<usize>) -> impl Iterator<Item = BulkOperation> {
    ids.map(|n| {
        let item = json!({"id": n.to_string(), "pk": "a", "n": 0});
        BulkOperation::create_item("a", &item)
    })
}

/// The items are there, and whose they are is not known: neither a success nor a plain conflict.
#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_may_have_been_applied() {
    let (store, interrupting) = interruptible().await;
    interrupting.arm(0, Interruption::LoseAnswers(1));
    let report = store.items.bulk().execute(creates(0..5)).await.unwrap();
    assert_eq!(report.failures().count(), 5);
    for failure in report.failures() {
        let error = failure.outcome().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.may_have_been_applied(), "{error}");
        assert!(error.to_string().contains("may have been applied"), "{error}");
        assert!(error.diagnostics().is_some_and(|it| it.attempts().len() > 1));
    }
    assert_eq!(count(&store.items).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_lost_on_its_way_is_sent_again() {
    let (store, interrupting) = interruptible().await;
    // Beyond the retries of the driver.
    interrupting.arm(0, Interruption::LoseRequests(12));
    let report = store.items.bulk().execute(creates(0..5)).await.unwrap();
    assert!(report.is_success(), "{report:?}");
    assert!(interrupting.disarm() > 12);
    assert_eq!(count(&store.items).await, 5);
}

#[tokio::test(start_paused = true)]
async fn an_increment_whose_answer_was_lost_is_not_applied_twice() {
    let (store, interrupting) = interruptible().await;
    store.items.bulk().execute(creates(0..3)).await.unwrap();
    interrupting.arm(0, Interruption::LoseAnswers(1));
    let patches = ["0", "1", "2"]
        .map(|id| BulkOperation::patch_item("a", id, Patch::new().increment("/n", 1)));
    let report = store.items.bulk().execute(patches).await.unwrap();
    interrupting.disarm();
    for failure in report.results() {
        let error = failure.outcome().unwrap_err();
        assert!(error.may_have_been_applied(), "{error}");
    }
    let read: Value = store.items.read_item("a", "0", None).await.unwrap().into_model().unwrap();
    assert_eq!(read["n"], 1);
}

/// Results that are too large for one answer are asked for with fewer others.
#[tokio::test(start_paused = true)]
async fn reads_whose_items_do_not_fit_into_one_answer_are_spread_over_several() {
    let store = Partitioned::new(1).await;
    for n in 0..10 {
        let item = json!({"id": n.to_string(), "pk": "a", "text": "x".repeat(1_000_000)});
        store.items.create_item("a", &item, None).await.unwrap();
    }
    let reads = (0..10).map(|n| BulkOperation::read_item("a", &n.to_string()));
    let report = store.items.bulk().execute(reads).await.unwrap();
    all_succeeded(&report, 10);
    let read: Value = report.results()[9].outcome().unwrap().model().unwrap();
    assert_eq!(read["text"].as_str().unwrap().len(), 1_000_000);
}

/// A service that refuses a batch because of one operation does not say of which.
#[tokio::test(start_paused = true)]
async fn a_refused_batch_is_halved_until_the_wrong_operation_is_alone() {
    let store = Partitioned::scripted(1, |request| {
        let is_batch = request.headers().contains_key("x-ms-cosmos-is-batch-request");
        let body = String::from_utf8_lossy(request.body()).into_owned();
        (is_batch && body.contains("\"id\":\"17\"")).then(|| refusal(400, 0))
    })
    .await;
    let report = store.items.bulk().execute(upserts(100)).await.unwrap();
    let failed: Vec<_> = report.failures().map(|it| it.id().unwrap()).collect();
    assert_eq!(failed, ["17"]);
    assert_eq!(count(&store.items).await, 99);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_fails_what_it_answers() {
    for body in ["", "{}", "[]", "[{\"statusCode\":201}]", "nonsense"] {
        let store = Partitioned::scripted(1, move |request| {
            let is_batch = request.headers().contains_key("x-ms-cosmos-is-batch-request");
            is_batch.then(|| answer(http::StatusCode::OK, body, None))
        })
        .await;
        let report = store.items.bulk().execute(upserts(2)).await.unwrap();
        for result in report.results() {
            let error = result.outcome().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{body}");
            assert!(error.may_have_been_applied(), "{body}: the service answered 200");
        }
    }
}

/// One result of a hundred with an odd field failed the others too, as not applied.
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_read_fails_its_own_operation_alone() {
    let body = r#"[{"statusCode":201.0,"eTag":""},{"status":201},{"statusCode":200,"retryAfterMilliseconds":0.5}]"#;
    let store = Partitioned::scripted(1, move |request| {
        let is_batch = request.headers().contains_key("x-ms-cosmos-is-batch-request");
        is_batch.then(|| answer(http::StatusCode::MULTI_STATUS, body, None))
    })
    .await;
    let mut operations: Vec<_> = upserts(2).collect();
    operations.push(BulkOperation::read_item("p0", "0"));
    let report = store.items.bulk().execute(operations.clone()).await.unwrap();
    let failed: Vec<_> = report.failures().map(sidereal::BulkResult::index).collect();
    assert_eq!(failed, [1]);
    assert!(report.results()[1].outcome().unwrap_err().may_have_been_applied());
    // A read that cannot be read was not a write.
    operations.swap(1, 2);
    let report = store.items.bulk().execute(operations).await.unwrap();
    assert!(!report.results()[1].outcome().unwrap_err().may_have_been_applied());
}

/// Another client's batch after the container was created again under the same name.
#[tokio::test(start_paused = true)]
async fn a_container_that_was_created_anew_is_found() {
    let store = Partitioned::new(2).await;
    store.items.bulk().execute(upserts(10)).await.unwrap();
    let other = client_of(&store.account, store.account.factory());
    other.database("db").container("items").delete(None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    other.database("db").create_container(properties, None).await.unwrap();
    let report = store.items.bulk().execute(upserts(10)).await.unwrap();
    all_succeeded(&report, 10);
}
