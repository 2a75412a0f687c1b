//! Bulk, on accounts in this process and a paused clock.

mod failures;
mod partitions;
mod throttling;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sidereal::options::{AvailabilityOptions, ItemWriteOptions};
use sidereal::prelude::*;
use sidereal::{BulkProgress, BulkReport};

use crate::query::{Partitioned, numbered};

/// Upserts of numbered items.
pub(crate) fn upserts(count: usize) -> impl Iterator<Item = BulkOperation> {
    numbered(count).into_iter().map(|item| {
        let key = item["pk"].as_str().unwrap_or_default().to_owned();
        BulkOperation::upsert_item(key, &item)
    })
}

/// How many items there are.
pub(crate) async fn count(items: &ContainerClient) -> usize {
    items.query("SELECT VALUE COUNT(1) FROM c").first().await.unwrap().unwrap()
}

/// Every operation has a result at its own place, and it succeeded.
pub(crate) fn all_succeeded(report: &BulkReport, expected: usize) {
    let failures: Vec<_> = report.failures().map(|it| it.outcome().unwrap_err()).collect();
    assert!(failures.is_empty(), "{failures:?}");
    let ids: Vec<String> = report.results().iter().map(|it| it.id().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..expected).map(|n| n.to_string()).collect::<Vec<_>>());
    assert!(report.results().iter().enumerate().all(|(at, it)| it.index() == at));
}

#[tokio::test(start_paused = true)]
async fn a_bulk_takes_as_few_requests_as_its_operations_fit_into() {
    let store = Partitioned::new(4).await;
    let report = store.items.bulk().execute(upserts(2_000)).await.unwrap();
    all_succeeded(&report, 2_000);
    assert_eq!(count(&store.items).await, 2_000);
    // A batch that is not full for each range, at most.
    assert!(report.requests() <= 20 + 4, "{}", report.requests());
    assert!(report.request_charge() > 2_000.0);
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_operation_has_its_result() {
    let store = Partitioned::new(3).await;
    store.insert(&numbered(4)).await;
    let item = |n: usize| json!({"id": n.to_string(), "pk": format!("p{n}"), "n": 10 + n});
    let operations = vec![
        BulkOperation::create_item("p9", item(9)),
        BulkOperation::upsert_item("p0", item(0)),
        BulkOperation::replace_item("p1", "1", item(1)),
        BulkOperation::patch_item("p2", "2", Patch::new().increment("/n", 5)),
        BulkOperation::delete_item("p3", "3"),
        BulkOperation::read_item("p0", "0"),
    ];
    let write = ItemWriteOptions::default().with_content_response_on_write(true);
    let options = ItemOptions { write, ..ItemOptions::default() };
    let report = store.items.bulk().with_options(options).execute(operations).await.unwrap();
    let outcome = |at: usize| report.results()[at].outcome().unwrap();
    let codes: Vec<u16> = (0..6).map(|at| outcome(at).status().code()).collect();
    assert_eq!(codes, [201, 200, 200, 200, 204, 200]);
    let n = |at: usize| outcome(at).model::<Value>().unwrap()["n"].as_u64().unwrap();
    assert_eq!([n(0), n(1), n(2), n(3)], [19, 10, 11, 7]);
    assert!(outcome(0).etag().is_some() && outcome(4).model::<Value>().is_err());
}

#[tokio::test(start_paused = true)]
async fn conditions_are_each_operation_s_own() {
    let store = Partitioned::new(2).await;
    store.insert(&numbered(2)).await;
    let read = store.items.read_item("p0", "0", None).await.unwrap();
    let (current, other) = (read.etag().unwrap(), Etag::new("\"other\"").unwrap());
    let item = |n: usize| json!({"id": n.to_string(), "pk": format!("p{n}")});
    let report = store.items.bulk().execute([
        BulkOperation::replace_item("p0", "0", item(0)).with_if_match(current),
        BulkOperation::replace_item("p1", "1", item(1)).with_if_match(other),
    ]);
    let report = report.await.unwrap();
    assert!(report.results()[0].outcome().is_ok());
    let error = report.results()[1].outcome().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PreconditionFailed);
    assert_eq!(error.status().unwrap().code(), 412);
}

/// Taken one by one: an input that does not fit into memory is not asked for what is not sent yet.
#[tokio::test(start_paused = true)]
async fn operations_are_taken_as_there_is_room_for_them() {
    let store = Partitioned::new(2).await;
    let (taken, most) = (Rc::new(Cell::new(0)), Arc::new(Mutex::new(0)));
    let text = "x".repeat(10_000);
    let (counter, highest) = (Rc::clone(&taken), Arc::clone(&most));
    let operations = (0..500).map(move |n| {
        counter.set(counter.get() + 1);
        let item = json!({"id": n.to_string(), "pk": format!("p{n}"), "text": text});
        BulkOperation::create_item(format!("p{n}"), &item)
    });
    let bulk = store.items.bulk().with_max_held_bytes(200_000).with_progress(move |progress| {
        let held = progress.taken - progress.succeeded - progress.failed;
        let mut highest = highest.lock().unwrap();
        *highest = held.max(*highest);
    });
    let report = bulk.execute(operations).await.unwrap();
    all_succeeded(&report, 500);
    assert_eq!(taken.get(), 500);
    assert!(*most.lock().unwrap() <= 21, "{most:?} operations of 10 KB were held");
}

#[tokio::test(start_paused = true)]
async fn the_smallest_bounds_are_slow_and_come_to_an_end() {
    let store = Partitioned::new(2).await;
    let bulk = store.items.bulk().with_max_held_bytes(0);
    let bulk = bulk.with_max_concurrency(0).with_max_concurrency_per_range(0);
    let report = bulk.execute(upserts(5)).await.unwrap();
    all_succeeded(&report, 5);
    assert_eq!(report.requests(), 5);
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_after_each_request_and_ends_with_all() {
    let store = Partitioned::new(2).await;
    let told: Arc<Mutex<Vec<BulkProgress>>> = Arc::default();
    let list = Arc::clone(&told);
    let bulk = store.items.bulk().with_progress(move |it| list.lock().unwrap().push(it));
    let report = bulk.execute(upserts(450)).await.unwrap();
    let told = told.lock().unwrap();
    assert_eq!(told.len(), report.requests());
    assert!(told.windows(2).all(|pair| pair[0].succeeded < pair[1].succeeded));
    let last = told.last().unwrap();
    assert_eq!((last.taken, last.succeeded, last.failed), (450, 450, 0));
    assert_eq!(last.request_charge, report.request_charge());
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_pauses_is_sent_as_far_as_it_has_come() {
    let store = Partitioned::new(2).await;
    let operations = futures_util::stream::unfold(0, |n| async move {
        if n == 5 {
            // Nothing is ready: what has come is to be sent meanwhile.
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let item = json!({"id": n.to_string(), "pk": format!("p{n}")});
        (n < 10).then(|| (BulkOperation::create_item(format!("p{n}"), &item), n + 1))
    });
    let items = store.items.clone();
    let bulk = tokio::spawn(async move { items.bulk().execute_stream(operations).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(count(&store.items).await, 5);
    all_succeeded(&bulk.await.unwrap().unwrap(), 10);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_executed_without_a_request() {
    let store = Partitioned::new(2).await;
    let report = store.items.bulk().execute([]).await.unwrap();
    assert!(report.is_success() && report.requests() == 0 && report.results().is_empty());
    let missing = store.client.database("db").container("missing");
    let error = missing.bulk().execute(upserts(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_bulk_with_a_result_for_every_taken_operation() {
    let store = Partitioned::new(1).await;
    store.ranges().await;
    let rule = sidereal_emulator::FaultRule::new(sidereal_emulator::FaultEffect::DelayBefore {
        wait: Duration::from_secs(1),
    });
    store.account.account().add_fault(rule).unwrap();
    let availability =
        AvailabilityOptions::default().with_end_to_end_timeout(Duration::from_millis(2_500));
    let options = ItemOptions { availability, ..ItemOptions::default() };
    let bulk = store.items.bulk().with_options(options).with_max_concurrency(1);
    let report = bulk.execute(upserts(1_000)).await.unwrap();
    assert_eq!(report.results().len(), 1_000);
    let succeeded = report.results().iter().filter(|it| it.outcome().is_ok()).count();
    assert_eq!(succeeded, 200);
    for failure in report.failures() {
        let error = failure.outcome().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded, "{error}");
        // What was under way may have arrived; what was not sent has not.
        assert_eq!(error.may_have_been_applied(), failure.index() < 300, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bulk_that_is_cancelled_ends_with_a_result_for_all_that_was_taken() {
    use sidereal::options::ClientMethodOptions;
    let store = Partitioned::new(1).await;
    store.ranges().await;
    let rule = sidereal_emulator::FaultRule::new(sidereal_emulator::FaultEffect::DelayBefore {
        wait: Duration::from_secs(1),
    });
    store.account.account().add_fault(rule).unwrap();
    let token = sidereal::CancellationToken::new();
    let method_options =
        ClientMethodOptions { cancellation: Some(&token), ..ClientMethodOptions::default() };
    let options = ItemOptions { method_options, ..ItemOptions::default() };
    let bulk = store.items.bulk().with_options(options).with_max_concurrency(1);
    let cancelled = async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        token.cancel();
    };
    let (report, ()) = tokio::join!(bulk.execute(upserts(500)), cancelled);
    let report = report.unwrap();
    assert_eq!((report.results().len(), report.failures().count()), (500, 400));
    for failure in report.failures() {
        assert_eq!(failure.outcome().unwrap_err().kind(), ErrorKind::Cancelled);
    }
}

/// An input that always had more was taken to its end after the call was over, for every operation to fail.
#[tokio::test(start_paused = true)]
async fn nothing_more_is_taken_from_an_input_once_the_call_is_over() {
    use sidereal::options::ClientMethodOptions;
    let store = Partitioned::new(2).await;
    let token = sidereal::CancellationToken::new();
    let cancelling = token.clone();
    let operations = (0..20_000).map(move |n: usize| {
        if n == 2_000 {
            cancelling.cancel();
        }
        BulkOperation::delete_item("p0", &n.to_string())
    });
    let method_options =
        ClientMethodOptions { cancellation: Some(&token), ..ClientMethodOptions::default() };
    let options = ItemOptions { method_options, ..ItemOptions::default() };
    let report = store.items.bulk().with_options(options).execute(operations).await.unwrap();
    let taken = report.results().len();
    assert!((2_000..4_000).contains(&taken), "{taken}");
    let last = report.results().last().unwrap();
    assert_eq!(last.outcome().unwrap_err().kind(), ErrorKind::Cancelled);
}

/// A report with a result for each of 10^8 operations does not fit into memory.
#[tokio::test(start_paused = true)]
async fn results_that_go_to_a_handler_are_not_kept() {
    let store = Partitioned::new(2).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let bulk = store.items.bulk().with_results(move |result| {
        told.lock().unwrap().push((result.index(), result.outcome().is_ok()));
    });
    let absent = (0..50).map(|n| BulkOperation::delete_item("p0", &format!("absent {n}")));
    let report = bulk.execute(upserts(500).chain(absent)).await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..550).map(|n| (n, n < 500)).collect::<Vec<_>>());
    let progress = report.progress();
    assert_eq!((progress.taken, progress.succeeded, progress.failed), (550, 500, 50));
    let kept: Vec<usize> = report.results().iter().map(sidereal::BulkResult::index).collect();
    assert_eq!(kept, (500..550).collect::<Vec<_>>(), "the failures, in the order of the input");
    assert!(!report.is_success() && report.interruption().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_given_every_failure_and_the_report_keeps_some() {
    let store = Partitioned::new(1).await;
    let given = Arc::new(Mutex::new(0));
    let count = Arc::clone(&given);
    let bulk = store.items.bulk().with_results(move |_| *count.lock().unwrap() += 1);
    let refused = (0..10_500).map(|_| BulkOperation::delete_item("a", "a/b"));
    let report = bulk.execute(refused).await.unwrap();
    assert_eq!((*given.lock().unwrap(), report.progress().failed), (10_500, 10_500));
    assert_eq!(report.results().len(), 10_000);
}

/// A bulk whose input had nothing ready when the deadline passed ended as if the input had.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_while_the_input_is_pending_is_told() {
    let store = Partitioned::new(1).await;
    let availability =
        AvailabilityOptions::default().with_end_to_end_timeout(Duration::from_secs(5));
    let options = ItemOptions { availability, ..ItemOptions::default() };
    let input = futures_util::StreamExt::chain(
        futures_util::stream::iter(upserts(10)),
        futures_util::stream::pending(),
    );
    let bulk = store.items.bulk().with_options(options);
    let report = bulk.execute_stream(input).await.unwrap();
    all_succeeded(&report, 10);
    assert_eq!(report.interruption().unwrap().kind(), ErrorKind::DeadlineExceeded);
    assert!(!report.is_success());
}
