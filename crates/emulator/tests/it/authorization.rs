//! Who is let in: keys, dates, and what a refusal says.

use std::time::{Duration, SystemTime};

use crate::common::{Answer, Client, Fixture, signed};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request};
use sidereal_emulator::{ClientOrigin, Emulator};
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

/// A token as SDKs' credentials for the emulator make it: unsigned, with a key in its third segment.
fn entra_token(key: &AccountKey) -> String {
    let segment = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let header = segment(r#"{"typ":"JWT","alg":"RS256","kid":"CosmosEmulatorPrimaryMaster"}"#);
    let claims = segment(r#"{"aud":"https://localhost.localhost","scp":"user_impersonation"}"#);
    format!("{header}.{claims}.{}", segment(key.expose_secret()))
}

fn with_entra(token: &str) -> Request<Bytes> {
    let authorization = format!("type%3Daad%26ver%3D1.0%26sig%3D{token}");
    Request::get("/dbs").header("authorization", authorization).body(Bytes::new()).unwrap()
}

fn assert_refused(refused: &Answer, sentence: &str) {
    assert_eq!((refused.status, refused.json()["code"].as_str()), (401, Some("Unauthorized")));
    assert!(refused.text.contains(sentence), "{}", refused.text);
}

#[tokio::test]
async fn an_entra_token_with_the_account_key_is_accepted_from_this_machine() {
    let client = Client::start().await;
    let token = entra_token(client.emulator.key());
    assert_eq!(client.exchange(with_entra(&token)).await.status, 200);
    let header = format!("type=aad&ver=1.0&sig={token}");
    let plain = Request::get("/dbs").header("authorization", header).body(Bytes::new()).unwrap();
    assert_eq!(client.exchange(plain).await.status, 200);
}

#[tokio::test]
async fn any_other_entra_token_is_refused_whatever_it_looks_like() {
    let client = Client::start().await;
    let other = entra_token(&other_key());
    let huge = format!("e30.e30.{}", "A".repeat(16 * 1024));
    let dots = ".".repeat(16 * 1024);
    for token in ["token", "a.b", "..", "%00.%FF.x", &other, &huge, &dots] {
        assert_eq!(client.exchange(with_entra(token)).await.status, 401);
    }
    assert_refused(&client.exchange(with_entra(&other)).await, "base64url of the account key");
}

#[tokio::test]
async fn an_entra_token_from_another_machine_is_refused() {
    let fixture = Fixture::new(|_| ());
    let token = entra_token(&fixture.account.options().key);
    let send = |origin: Option<ClientOrigin>| {
        let mut request = with_entra(&token);
        if let Some(origin) = origin {
            request.extensions_mut().insert(origin);
        }
        Answer::of(fixture.account.handle(request))
    };
    assert_eq!(send(None).status, 200, "a caller in this process is on this machine");
    assert_eq!(send(Some(ClientOrigin::Loopback)).status, 200);
    assert_refused(&send(Some(ClientOrigin::Remote)), "clients on this machine only");
}

#[tokio::test]
async fn an_emulator_for_tests_accepts_any_entra_token() {
    let client = Client::with(Emulator::builder().entra_any(true)).await;
    assert_eq!(client.exchange(with_entra("anything")).await.status, 200);
    // Keys are checked as ever.
    let request = signed(&other_key(), SystemTime::now(), Method::GET, "/dbs", &[], String::new());
    assert_eq!(client.exchange(request).await.status, 401);
}
