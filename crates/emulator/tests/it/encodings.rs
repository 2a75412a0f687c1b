//! Forms of bodies: the service's binary JSON, gzip, and versions of the API.

use std::io::Read;

use crate::common::{Client, DOCS, KEY, signed};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sidereal_protocol::{decode_binary_json, encode_binary_json, is_binary_json};
use tokio::net::TcpStream;

const A: (&str, &str) = (KEY, "[\"a\"]");
const BINARY: (&str, &str) = ("x-ms-cosmos-supported-serialization-formats", "CosmosBinary");
const EITHER: (&str, &str) =
    ("x-ms-cosmos-supported-serialization-formats", "JsonText,CosmosBinary");

fn item(id: &str) -> Value {
    json!({ "id": id, "pk": "a", "n": -1.5, "big": 70_000, "list": [1, null, true, "ü"], "deep": { "x": {} } })
}

/// Sends bytes and takes bytes, which may be no text.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Response<Bytes> {
    let key = client.emulator.key();
    let now = std::time::SystemTime::now();
    let request = signed(key, now, method, path, headers, String::new());
    let (mut parts, _) = request.into_parts();
    let endpoint = client.emulator.http_endpoint();
    let authority = endpoint.trim_start_matches("http://").trim_end_matches('/');
    parts.headers.insert("host", authority.parse().unwrap());
    let stream = TcpStream::connect(authority).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::from_parts(parts, Full::new(Bytes::from(body)));
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn items_are_written_and_read_in_binary() {
    let client = Client::with_container(1).await;
    let binary = |value: &Value| encode_binary_json(value);
    let created = send(&client, Method::POST, DOCS, &[A, BINARY], binary(&item("1"))).await;
    assert_eq!(created.status(), 201);
    let document = decode_binary_json(created.body()).unwrap();
    assert_eq!(document["list"], item("1")["list"]);
    // The same item as text, for who does not ask.
    assert_eq!(client.read("1", "a").await.json(), document);
    let path = format!("{DOCS}/1");
    let read = send(&client, Method::GET, &path, &[A, BINARY], Vec::new()).await;
    assert_eq!(decode_binary_json(read.body()), Ok(document));

    let replaced = send(&client, Method::PUT, &path, &[A], binary(&item("1"))).await;
    assert!((replaced.status(), is_binary_json(replaced.body())) == (http::StatusCode::OK, false));
    let upsert = [A, BINARY, ("x-ms-documentdb-is-upsert", "true")];
    let upserted = send(&client, Method::POST, DOCS, &upsert, binary(&item("2"))).await;
    assert!(upserted.status() == 201 && is_binary_json(upserted.body()));
    let patch = binary(&json!({ "operations": [{ "op": "set", "path": "/n", "value": 7 }] }));
    let patched = send(&client, Method::PATCH, &path, &[A, BINARY], patch).await;
    assert_eq!(decode_binary_json(patched.body()).unwrap()["n"], 7);
    let minimal = [A, BINARY, ("prefer", "return=minimal")];
    let replaced = send(&client, Method::PUT, &path, &minimal, binary(&item("1"))).await;
    assert!(replaced.status() == 200 && replaced.body().is_empty());
}

#[tokio::test]
async fn a_query_is_answered_in_binary_and_feeds_and_errors_are_not() {
    let client = Client::with_container(1).await;
    client.create(item("1")).await;
    let query = json!({ "query": "SELECT c.id, c.n FROM c" }).to_string().into_bytes();
    let headers = [A, EITHER, ("x-ms-documentdb-isquery", "true")];
    let rows = send(&client, Method::POST, DOCS, &headers, query).await;
    assert_eq!(
        decode_binary_json(rows.body()).unwrap()["Documents"],
        json!([{ "id": "1", "n": -1.5 }])
    );
    for more in [vec![], vec![("a-im", "Incremental Feed")]] {
        let headers: Vec<_> = [A, EITHER].into_iter().chain(more).collect();
        let feed = send(&client, Method::GET, DOCS, &headers, Vec::new()).await;
        assert!(feed.status() == 200 && !is_binary_json(feed.body()));
    }
    let missing =
        send(&client, Method::GET, &format!("{DOCS}/none"), &[A, BINARY], Vec::new()).await;
    let error: Value = serde_json::from_slice(missing.body()).unwrap();
    assert_eq!(error["code"], "NotFound");
}

#[tokio::test]
async fn binary_that_cannot_be_read_is_a_bad_request() {
    let client = Client::with_container(1).await;
    let whole = encode_binary_json(&item("1"));
    for body in [&whole[..whole.len() - 1], &[0x80], &[0x80, 0xff], &[0x80, 0xe2, 0xff]] {
        let refused = send(&client, Method::POST, DOCS, &[A], body.to_vec()).await;
        assert_eq!(refused.status(), 400);
        let error: Value = serde_json::from_slice(refused.body()).unwrap();
        assert!(error["message"].as_str().unwrap().contains("binary JSON"), "{error}");
    }
    // A value that is no item is refused as its text would be.
    let refused = send(&client, Method::POST, DOCS, &[A], encode_binary_json(&json!([1]))).await;
    assert_eq!(refused.status(), 400);
}

#[tokio::test]
async fn long_responses_come_in_gzip_where_it_is_asked_for() {
    let client = Client::with_container(1).await;
    let text = "x".repeat(100_000);
    client.create(json!({ "id": "long", "pk": "a", "text": text })).await;
    client.create(item("short")).await;
    let gzip = ("accept-encoding", "gzip, deflate");
    let long = format!("{DOCS}/long");
    let packed = send(&client, Method::GET, &long, &[A, gzip], Vec::new()).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert!(packed.body().len() < 2_000, "{}", packed.body().len());
    let mut unpacked = String::new();
    GzDecoder::new(&packed.body()[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&unpacked).unwrap()["text"], text);
    for (path, headers) in [(long.as_str(), vec![A]), (&format!("{DOCS}/short"), vec![A, gzip])] {
        let plain = send(&client, Method::GET, path, &headers, Vec::new()).await;
        assert!(plain.headers().get("content-encoding").is_none());
    }
    let both = send(&client, Method::GET, &long, &[A, gzip, BINARY], Vec::new()).await;
    let mut unpacked = Vec::new();
    GzDecoder::new(&both.body()[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(decode_binary_json(&unpacked).unwrap()["text"], text);
}

#[tokio::test]
async fn a_version_that_the_service_does_not_know_is_refused() {
    let client = Client::with_container(1).await;
    for (version, status) in
        [("2018-12-31", 200), ("2020-07-15", 200), ("2021-01-01", 400), ("", 400)]
    {
        let key = client.emulator.key();
        let now = std::time::SystemTime::now();
        let mut request = signed(key, now, Method::GET, "/dbs", &[], String::new());
        request.headers_mut().insert("x-ms-version", version.parse().unwrap());
        let answer = client.exchange(request).await;
        assert_eq!(answer.status, status, "{version}: {}", answer.text);
        assert!(status == 200 || answer.text.contains("x-ms-version"), "{}", answer.text);
    }
    // Without one the client speaks the newest.
    let now = std::time::SystemTime::now();
    let mut request = signed(client.emulator.key(), now, Method::GET, "/dbs", &[], String::new());
    request.headers_mut().remove("x-ms-version");
    assert_eq!(client.exchange(request).await.status, 200);
}
