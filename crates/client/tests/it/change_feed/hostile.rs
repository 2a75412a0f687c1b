//! Servers that answer a read of the feed with nonsense.

use http::StatusCode;
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_testing::in_process::scripting::{answer, header, page};

use super::Partitioned;

/// The answer to a read after a position.
type Script = fn(Option<&str>) -> http::Response<bytes::Bytes>;

/// The first item or error of a feed whose reads are answered by a script.
async fn first(script: Script) -> sidereal::Result<Value> {
    let store = Partitioned::scripted(1, move |request| {
        header(request, "a-im").is_some().then(|| script(header(request, "if-none-match")))
    })
    .await;
    let mut items = store.items.change_feed().items::<Value>();
    let mut last = items.next().await.unwrap();
    for _ in 0..5 {
        match (&last, items.next().await) {
            (Ok(_), Some(next)) => last = next,
            _ => break,
        }
    }
    last
}

fn with_etag(mut response: http::Response<bytes::Bytes>) -> http::Response<bytes::Bytes> {
    response.headers_mut().insert("etag", http::HeaderValue::from_static("\"5\""));
    response
}

#[tokio::test(start_paused = true)]
async fn pages_without_a_position_or_with_one_that_stays_end_the_feed() {
    let scripts: [Script; 4] = [
        |_| page(&[1], None),
        |_| answer(StatusCode::NOT_MODIFIED, "", None),
        // The same page for ever.
        |_| with_etag(page(&[1], None)),
        |_| with_etag(answer(StatusCode::OK, "nonsense", None)),
    ];
    for script in scripts {
        let error = first(script).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{error}");
    }
}

/// An empty 200 was taken for the end, and the changes behind it came late or never.
#[tokio::test(start_paused = true)]
async fn an_empty_page_is_not_the_end_of_the_feed() {
    let store = Partitioned::scripted(1, |request| {
        header(request, "a-im")?;
        let after = header(request, "if-none-match");
        let mut response = match after {
            Some("\"3\"") => page(&[1], None),
            Some("\"4\"") => answer(StatusCode::NOT_MODIFIED, "", None),
            _ => page(&[] as &[u8], None),
        };
        let next = match after {
            None => "\"2\"",
            Some("\"2\"") => "\"3\"",
            Some(_) => "\"4\"",
        };
        response.headers_mut().insert("etag", http::HeaderValue::from_static(next));
        Some(response)
    })
    .await;
    let mut pages = store.items.change_feed().pages::<Value>();
    let first = pages.next().await.unwrap().unwrap();
    assert!(!first.is_caught_up());
    assert_eq!(first.request_charge(), 0.0);
    assert_eq!((first.requests(), first.into_items()), (3, vec![Value::from(1)]));
    assert!(pages.next().await.unwrap().unwrap().is_caught_up());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_304_ends_a_feed_all_the_same() {
    let store = Partitioned::scripted(1, |request| {
        header(request, "a-im").map(|_| with_etag(page(&[] as &[u8], None)))
    })
    .await;
    let first = store.items.change_feed().pages::<Value>().next().await.unwrap().unwrap();
    assert!(first.is_caught_up());
    assert!(first.requests() < 30, "{}", first.requests());
}
