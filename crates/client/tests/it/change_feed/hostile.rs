//! Servers that answer a read of the feed with nonsense.

use http::StatusCode;
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_testing::in_process::scripting::{answer, header, page};

use super::Partitioned;

/// What a read after a position is answered with.
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
