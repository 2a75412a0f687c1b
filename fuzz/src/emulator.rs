//! What holds for the account of `sidereal-emulator`, whatever requests it is given.
//!
//! It never panics, it never answers with a server error, and every error has a code and a
//! message. An input is a list of requests in a plain form: `METHOD /path`, header lines, an empty line,
//! a body, and `---` between two of them. Each is signed, so that it gets past authorization.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use serde_json::Value;
use sidereal_emulator::{Account, AccountOptions, ManualClock, Timestamp};
use sidereal_protocol::{HttpDate, RequestPath};

/// Requests of one input, so that a long one does not slow the fuzzer down.
const MAX_REQUESTS: usize = 8;

/// A moment at which all requests happen.
const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Options are shared: reading the key again for every input would be most of the work.
static OPTIONS: LazyLock<AccountOptions> = LazyLock::new(|| AccountOptions {
    partitions: Some(2),
    clock: Arc::new(ManualClock::new(NOW)),
    ..AccountOptions::default()
});

/// Requests to an account that has a container `db/c` with one item in it.
pub fn handle(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let account = Account::new(OPTIONS.clone());
    for prepared in [
        "POST /dbs\n\n{\"id\":\"db\"}",
        "POST /dbs/db/colls\n\n{\"id\":\"c\",\"partitionKey\":{\"paths\":[\"/pk\"],\"version\":2},\"defaultTtl\":-1}",
        "POST /dbs/db/colls/c/docs\n\n{\"id\":\"1\",\"pk\":\"a\",\"n\":1,\"list\":[1,2]}",
    ] {
        send(&account, prepared);
    }
    for request in text.split("\n---\n").take(MAX_REQUESTS) {
        send(&account, request);
    }
}

fn send(account: &Account, text: &str) {
    if let Some(request) = parse(account, text) {
        check(&account.handle(request));
    }
}

/// The plain form to a signed request; what HTTP itself would refuse is left out.
fn parse(account: &Account, text: &str) -> Option<Request<Bytes>> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let method = Method::from_bytes(method.as_bytes()).ok()?;
    let mut request =
        Request::builder().method(method.clone()).uri(path).body(body.to_owned().into()).ok()?;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        let (Ok(name), Ok(value)) =
            (name.parse::<HeaderName>(), value.trim().parse::<HeaderValue>())
        else {
            continue;
        };
        request.headers_mut().insert(name, value);
    }
    sign(account, &method, &mut request);
    Some(request)
}

fn sign(account: &Account, method: &Method, request: &mut Request<Bytes>) {
    let now: SystemTime = account.options().clock.now().system_time();
    let Ok(date) = HttpDate::new(now) else { return };
    let Ok(path) = request.uri().path().parse::<RequestPath>() else { return };
    let link = path.signed_link().into_owned();
    let authorization = account.options().key.authorize(&path.signed(method, &link, date.as_str()));
    request.headers_mut().insert("authorization", authorization);
    if let Ok(date) = HeaderValue::from_str(date.as_str()) {
        request.headers_mut().insert("x-ms-date", date);
    }
}

fn check(response: &Response<Bytes>) {
    let status = response.status().as_u16();
    assert!((200..500).contains(&status), "a server error: {status}");
    assert!(response.headers().contains_key("x-ms-request-charge"));
    if status >= 400 {
        let body: Value = serde_json::from_slice(response.body()).expect("an error is JSON");
        assert!(body["code"].is_string() && body["message"].is_string(), "{body}");
    } else if !response.body().is_empty() {
        serde_json::from_slice::<Value>(response.body()).expect("an answer is JSON");
    }
}
