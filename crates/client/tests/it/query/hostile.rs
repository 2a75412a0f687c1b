//! Servers that answer garbage or never come to an end: bounded, with an error that says so.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::StatusCode;
use serde_json::{Value, json};
use sidereal::driver::transport::{HttpRequest, HttpResponse};
use sidereal::prelude::*;
use sidereal::query::QueryLimits;
use sidereal_testing::in_process::scripting::{answer, header, page, refusal};

use super::{Partitioned, collect};

const SORTED: &str = "SELECT * FROM c ORDER BY c.v";
const STREAMED: &str = "SELECT * FROM c";
const GROUPED: &str = "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k";

fn sorted_row(value: usize) -> Value {
    json!({"_rid": "", "orderByItems": [{"item": value}], "payload": {"v": value}})
}

/// A row that fits each of the three queries.
fn row(value: usize) -> Value {
    let mut row = sorted_row(value);
    row["groupByItems"] = json!([{"item": value}]);
    row["payload"] = json!({"k": value, "n": {"item": 1}});
    row
}

async fn failure(
    text: &str,
    limits: QueryLimits,
    script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
) -> sidereal::Error {
    let store = Partitioned::scripted(2, script).await;
    let query = store.items.query(text).with_limits(limits);
    collect(&query).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn the_same_continuation_again_is_an_error() {
    for text in [STREAMED, SORTED, GROUPED] {
        let pages = AtomicUsize::new(0);
        let error = failure(text, QueryLimits::default(), move |_| {
            let number = pages.fetch_add(1, Ordering::Relaxed);
            Some(page(&[row(number)], Some("again")))
        });
        let error = error.await;
        assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{text}");
        assert!(error.to_string().contains("same continuation twice"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn empty_pages_without_end_are_an_error() {
    for text in [STREAMED, SORTED, GROUPED] {
        let pages = AtomicUsize::new(0);
        let limits = QueryLimits { max_empty_pages: 20, ..QueryLimits::default() };
        let error = failure(text, limits, move |_| {
            let number = pages.fetch_add(1, Ordering::Relaxed);
            Some(page(&[] as &[Value], Some(&number.to_string())))
        });
        let error = error.await;
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{text}");
        assert!(error.to_string().contains("max_empty_pages"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_without_end_are_an_error_and_a_window_ends_before_them() {
    let endless = || {
        let pages = AtomicUsize::new(0);
        move |_: &HttpRequest| {
            let number = pages.fetch_add(1, Ordering::Relaxed);
            Some(page(&[row(number)], Some(&number.to_string())))
        }
    };
    let limits = QueryLimits { max_pages_per_range: 50, ..QueryLimits::default() };
    for text in [STREAMED, SORTED, GROUPED] {
        let error = failure(text, limits, endless()).await;
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{text}");
        assert!(error.to_string().contains("max_pages_per_range"), "{error}");
    }
    let store = Partitioned::scripted(2, endless()).await;
    for text in ["SELECT TOP 5 * FROM c", "SELECT TOP 5 * FROM c ORDER BY c.v"] {
        let rows = collect(&store.items.query(text).with_limits(limits)).await.unwrap();
        assert_eq!(rows.len(), 5, "{text}");
    }
    let window = store.items.query("SELECT * FROM c OFFSET 3 LIMIT 4").with_limits(limits);
    assert_eq!(collect(&window).await.unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_an_error() {
    for body in ["", "{", "[]", "{}", r#"{"Documents":1}"#, r#"{"Documents":[1}"#, "\u{1f4a5}"] {
        for text in [STREAMED, SORTED, GROUPED] {
            let script = |_: &HttpRequest| Some(answer(StatusCode::OK, body, None));
            let error = failure(text, QueryLimits::default(), script).await;
            assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{body} {text}");
            assert!(error.to_string().contains("no page of rows"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_do_not_fit_the_plan_are_an_error() {
    for (text, row) in [
        (SORTED, json!({"id": "1"})),
        (SORTED, json!({"_rid": "", "orderByItems": [1], "payload": 1})),
        (SORTED, json!({"_rid": "", "orderByItems": [{"item": 1}]})),
        (SORTED, json!(null)),
        (GROUPED, json!({"payload": {}})),
        (GROUPED, json!([1])),
        ("SELECT VALUE COUNT(1) FROM c", json!(7)),
    ] {
        let given = row.clone();
        let script = move |_: &HttpRequest| Some(page(std::slice::from_ref(&given), None));
        let error = failure(text, QueryLimits::default(), script).await;
        assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{text} {row}");
        assert!(error.to_string().contains("do not fit the query's plan"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_continuation_that_no_header_can_carry_is_an_error() {
    let long = "x".repeat(40_000);
    let script = move |_: &HttpRequest| Some(page(&[row(1)], Some(&long)));
    let error = failure(STREAMED, QueryLimits::default(), script).await;
    assert_eq!(error.kind(), ErrorKind::InvalidResponse);
    assert!(error.to_string().contains("40000 bytes long"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_range_that_is_always_gone_is_an_error() {
    for (text, sub_status) in [(STREAMED, 1002), (SORTED, 1007), (GROUPED, 1002)] {
        let script = move |_: &HttpRequest| Some(refusal(410, sub_status));
        let error = failure(text, QueryLimits::default(), script).await;
        assert_eq!(
            error.status().map(sidereal::models::CosmosStatus::code),
            Some(410),
            "{error:?}"
        );
    }
}

/// Answers plan requests, and leaves the rest to another script.
fn planning(
    plan: Value,
    rows: impl Fn(&HttpRequest) -> HttpResponse + Send + Sync,
) -> impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync {
    move |request| match header(request, "x-ms-cosmos-is-query-plan-request") {
        Some(_) => Some(answer(StatusCode::OK, &plan.to_string(), None)),
        None => Some(rows(request)),
    }
}

const VECTOR: &str = "SELECT TOP 3 c.id FROM c ORDER BY VectorDistance(c.v, [1, 2])";

#[tokio::test(start_paused = true)]
async fn a_plan_that_cannot_be_carried_out_is_an_error() {
    let everything = json!([{"min": "", "max": "FF"}]);
    for (plan, expected) in [
        (json!([]), "cannot be read"),
        (json!({"queryInfo": null, "queryRanges": everything}), "does not say how to merge"),
        (json!({"queryInfo": {}, "queryRanges": []}), "names no ranges"),
        (
            json!({"queryInfo": {"distinctType": "Odd"}, "queryRanges": everything}),
            "cannot be read",
        ),
        (json!({"queryInfo": {}, "queryRanges": [{"min": "1F", "max": "0F"}]}), "range"),
        (json!({"hybridSearchQueryInfo": {}, "queryRanges": everything}), "hybrid"),
    ] {
        let script = planning(plan.clone(), |_| page(&[] as &[Value], None));
        let error = failure(VECTOR, QueryLimits::default(), script).await;
        assert!(error.to_string().contains(expected), "{plan}: {error}");
    }
}

/// An order that no range can stream: every range is read to its end, the first rows of all are given.
#[tokio::test(start_paused = true)]
async fn an_order_that_no_range_can_stream_is_sorted_in_memory() {
    let info = json!({
        "orderBy": ["Ascending"], "hasNonStreamingOrderBy": true, "top": 3, "rewrittenQuery": "SELECT 1",
    });
    let plan = json!({"queryInfo": info, "queryRanges": [{"min": [], "max": "Infinity"}]});
    let store = Partitioned::scripted(
        2,
        planning(plan, |request| {
            let range = header(request, "x-ms-documentdb-partitionkeyrangeid").unwrap();
            match (range, header(request, "x-ms-continuation")) {
                ("0", None) => page(&[sorted_row(7), sorted_row(2)], Some("more")),
                ("0", Some(_)) => page(&[sorted_row(1)], None),
                _ => page(&[sorted_row(5), sorted_row(3)], None),
            }
        }),
    );
    let store = store.await;
    let query = store.items.query(VECTOR);
    let rows = collect(&query).await.unwrap();
    assert_eq!(rows, [json!({"v": 1}), json!({"v": 2}), json!({"v": 3})]);
    let first = query.pages::<Value>().next().await.unwrap().unwrap();
    let error = first.continuation().unwrap_err();
    assert!(error.to_string().contains("from the beginning"), "{error}");
}
