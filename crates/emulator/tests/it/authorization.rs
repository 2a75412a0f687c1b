//! Who is let in: keys, dates, and what a refusal says.

use std::time::{Duration, SystemTime};

use crate::common::{Client, signed};
use bytes::Bytes;
use http::{Method, Request};
use sidereal_protocol::AccountKey;

fn other_key() -> AccountKey {
    AccountKey::from_base64("c2VjcmV0LXNlY3JldC1zZWNyZXQ=").unwrap()
}

#[tokio::test]
async fn a_signature_of_another_key_is_refused() {
    let client = Client::start().await;
    let request = signed(&other_key(), SystemTime::now(), Method::GET, "/dbs", &[], String::new());
    let refused = client.exchange(request).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (401, Some("Unauthorized")));
    assert!(!refused.text.contains(client.emulator.key().expose_secret()));
}

#[tokio::test]
async fn a_signature_of_another_request_is_refused() {
    let client = Client::start().await;
    let mut request =
        signed(client.emulator.key(), SystemTime::now(), Method::GET, "/dbs", &[], String::new());
    *request.method_mut() = Method::DELETE;
    *request.uri_mut() = "/dbs/db".parse().unwrap();
    assert_eq!(client.exchange(request).await.status, 401);
}

#[tokio::test]
async fn a_date_outside_the_window_is_refused() {
    let client = Client::start().await;
    let hour = Duration::from_secs(3600);
    for moment in [SystemTime::now() - hour, SystemTime::now() + hour] {
        let request =
            signed(client.emulator.key(), moment, Method::GET, "/dbs", &[], String::new());
        let refused = client.exchange(request).await;
        assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("Forbidden")));
    }
    let within = SystemTime::now() - Duration::from_secs(600);
    let request = signed(client.emulator.key(), within, Method::GET, "/dbs", &[], String::new());
    assert_eq!(client.exchange(request).await.status, 200);
}

#[tokio::test]
async fn a_request_without_a_readable_token_is_refused() {
    let client = Client::start().await;
    for authorization in [
        "",
        "nonsense",
        "type=master&ver=1.0&sig=",
        "type=aad&ver=1.0&sig=token",
        "type=resource&ver=1&sig=x",
    ] {
        let request = Request::get("/dbs")
            .header("x-ms-date", httpdate::fmt_http_date(SystemTime::now()))
            .header("authorization", authorization)
            .body(Bytes::new())
            .unwrap();
        let refused = client.exchange(request).await;
        assert_eq!(refused.status, 401, "{authorization}: {}", refused.text);
    }
    let request = Request::get("/dbs").body(Bytes::new()).unwrap();
    assert_eq!(client.exchange(request).await.status, 401);
}

#[tokio::test]
async fn the_probe_needs_no_signature() {
    let client = Client::start().await;
    let request = Request::get("/probe").body(Bytes::new()).unwrap();
    assert_eq!(client.exchange(request).await.status, 200);
}

#[tokio::test]
async fn a_path_that_is_not_one_is_refused() {
    let client = Client::start().await;
    for path in ["/nowhere", "/dbs/db/dbs", "/dbs//colls", "/dbs/%ff/colls", "/docs/1"] {
        let request = Request::get(path).body(Bytes::new()).unwrap();
        let refused = client.exchange(request).await;
        assert_eq!(
            (refused.status, refused.json()["code"].as_str()),
            (400, Some("BadRequest")),
            "{path}"
        );
    }
}
