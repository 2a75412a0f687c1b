//! Faults: what a rule does to a request, without a connection and over one.

use std::num::NonZeroU64;
use std::time::{Duration, Instant, SystemTime};

use crate::common::{Answer, Client, DOCS, Fixture, KEY, key_of, signed};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use sidereal_emulator::{
    Clock, Emulator, FaultCondition, FaultEffect, FaultRule, HeaderCondition, Occurrence, Operation,
};
use sidereal_protocol::{PartitionKeyRangeId, RegionName, ResourceType};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No test waits longer than this for something that is to happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long a test looks on while nothing is to happen.
const A_WHILE: Duration = Duration::from_millis(100);

const A: (&str, &str) = (KEY, "[\"a\"]");

const UNAVAILABLE: FaultEffect =
    FaultEffect::Answer { status: 503, sub_status: 21008, retry_after: None };

fn upserts() -> FaultCondition {
    FaultCondition { operation: Some(Operation::Upsert), ..Default::default() }
}

fn item(id: &str) -> Value {
    json!({ "id": id, "pk": "a", "text": "x".repeat(200) })
}

/// An account with two regions and a container `db/c` of four partitions.
fn fixture() -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = ["West US", "East US"].map(RegionName::from).to_vec();
        options.partitions = Some(4);
    });
    fixture.create_container(json!({}));
    fixture
}

fn write(fixture: &Fixture, id: &str) -> Answer {
    let upsert = [A, ("x-ms-documentdb-is-upsert", "true")];
    fixture.send(Method::POST, DOCS, &upsert, item(id))
}

fn read(fixture: &Fixture, id: &str) -> Answer {
    fixture.send(Method::GET, &format!("{DOCS}/{id}"), &[A], Value::Null)
}

#[test]
fn an_injected_status_replaces_the_processing() {
    let fixture = fixture();
    let effect = FaultEffect::Answer {
        status: 429,
        sub_status: 3200,
        retry_after: Some(Duration::from_millis(70)),
    };
    fixture
        .account
        .add_fault(FaultRule { condition: upserts(), ..FaultRule::new(effect) })
        .unwrap();
    let refused = write(&fixture, "1");
    assert_eq!((refused.status, refused.sub_status()), (429, 3200));
    assert_eq!(refused.header("x-ms-retry-after-ms"), Some("70"));
    assert_eq!(refused.json()["code"], "TooManyRequests");
    assert_eq!(read(&fixture, "1").status, 404);
}

#[test]
fn every_part_of_a_request_can_be_what_a_rule_looks_at() {
    let fixture = fixture();
    assert_eq!(write(&fixture, "1").status, 201);
    let range =
        read(&fixture, "1").header("x-ms-documentdb-partitionkeyrangeid").unwrap().to_owned();
    let other = if range == "0" { 1 } else { 0 };
    let any = FaultCondition::default;
    let range_of = |id: &str| Some(id.parse::<PartitionKeyRangeId>().unwrap());
    let cases = [
        (FaultCondition { region: Some("West US".into()), ..any() }, true),
        (FaultCondition { region: Some("East US".into()), ..any() }, false),
        (FaultCondition { operation: Some(Operation::Read), ..any() }, true),
        (FaultCondition { operation: Some(Operation::Query), ..any() }, false),
        (FaultCondition { resource: Some(ResourceType::Document), ..any() }, true),
        (FaultCondition { metadata: Some(true), ..any() }, false),
        (FaultCondition { container: Some("db/c".to_owned()), ..any() }, true),
        (FaultCondition { container: Some("db/x".to_owned()), ..any() }, false),
        (FaultCondition { range: range_of(&range), ..any() }, true),
        (FaultCondition { range: Some(PartitionKeyRangeId::from(other)), ..any() }, false),
        (FaultCondition { item: Some("1".to_owned()), ..any() }, true),
        (FaultCondition { item: Some("2".to_owned()), ..any() }, false),
        (
            FaultCondition {
                header: Some(HeaderCondition {
                    name: KEY.to_owned(),
                    value: Some("[\"a\"]".to_owned()),
                }),
                ..any()
            },
            true,
        ),
    ];
    for (condition, expected) in cases {
        let rule = FaultRule { condition, ..FaultRule::new(UNAVAILABLE) };
        fixture.account.add_fault(rule.clone()).unwrap();
        let status = if expected { 503 } else { 200 };
        assert_eq!(read(&fixture, "1").status, status, "{rule:?}");
        fixture.account.clear_faults();
    }
}

#[test]
fn an_item_is_known_by_its_body_and_a_container_by_its_rid() {
    let fixture = fixture();
    let created = write(&fixture, "1").json();
    let container = fixture.send(Method::GET, "/dbs/db/colls/c", &[], Value::Null).json();
    let condition = FaultCondition {
        item: Some("2".to_owned()),
        container: Some("db/c".to_owned()),
        ..Default::default()
    };
    fixture.account.add_fault(FaultRule { condition, ..FaultRule::new(UNAVAILABLE) }).unwrap();
    assert_eq!([write(&fixture, "1").status, write(&fixture, "2").status], [200, 503]);
    fixture.account.clear_faults();

    let condition = FaultCondition { container: Some("db/c".to_owned()), ..Default::default() };
    fixture.account.add_fault(FaultRule { condition, ..FaultRule::new(UNAVAILABLE) }).unwrap();
    let by_rid = format!("/{}docs", container["_self"].as_str().unwrap());
    assert!(created["_self"].as_str().unwrap().starts_with(&by_rid[1..]));
    assert_eq!(fixture.send(Method::GET, &by_rid, &[], Value::Null).status, 503);
}

#[test]
fn a_rule_starts_and_ends_by_the_accounts_clock() {
    let fixture = fixture();
    let start = fixture.clock.now().after(Duration::from_secs(10));
    let rule = FaultRule {
        start: Some(start),
        end: Some(start.after(Duration::from_secs(5))),
        ..FaultRule::new(UNAVAILABLE)
    };
    fixture.account.add_fault(rule).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(write(&fixture, "1").status);
        fixture.clock.advance(Duration::from_secs(5));
    }
    assert_eq!(seen, [201, 200, 503, 200]);
}

#[test]
fn rules_count_what_they_match_and_what_they_hit() {
    let fixture = fixture();
    let occurrence = Some(Occurrence::Every(NonZeroU64::new(3).unwrap()));
    let condition = FaultCondition { occurrence, ..upserts() };
    let rule = FaultRule { condition, hit_limit: Some(2), ..FaultRule::new(UNAVAILABLE) };
    let name = fixture.account.add_fault(rule).unwrap();
    let statuses: Vec<u16> = (0..10).map(|_| write(&fixture, "1").status).collect();
    assert_eq!(statuses, [201, 200, 503, 200, 200, 503, 200, 200, 200, 200]);
    let report = &fixture.account.faults()[0];
    assert_eq!((report.matches, report.hits), (10, 2));
    assert!(fixture.account.remove_fault(&name));
    assert!(fixture.account.faults().is_empty());
}

#[test]
fn a_probability_draws_the_same_with_the_same_seed() {
    let run = |seed| {
        let fixture = fixture();
        let rule = FaultRule { probability: 0.5, seed, ..FaultRule::new(UNAVAILABLE) };
        fixture.account.add_fault(rule).unwrap();
        (0..40).map(|_| write(&fixture, "1").status == 503).collect::<Vec<bool>>()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn without_a_connection_delays_are_skipped_and_a_reset_is_no_response() {
    let fixture = fixture();
    let wait = Duration::from_secs(3600);
    let in_west = |id: &str| {
        let upsert = [A, ("x-ms-documentdb-is-upsert", "true")];
        fixture
            .send_in("West US", Method::POST, DOCS, &upsert, item(id))
            .map(|answer| answer.status)
    };
    let cases = [
        (FaultEffect::DelayBefore { wait }, Some(201), 200),
        (FaultEffect::DelayAfter { wait }, Some(201), 200),
        (FaultEffect::ResetBefore, None, 404),
        (FaultEffect::ResetAfter, None, 200),
        (FaultEffect::ResetMidBody, None, 200),
        (FaultEffect::Hang, None, 404),
    ];
    for (number, (effect, answered, stored)) in cases.into_iter().enumerate() {
        let id = number.to_string();
        fixture.account.add_fault(FaultRule::new(effect.clone())).unwrap();
        assert_eq!(in_west(&id), answered, "{effect:?}");
        fixture.account.clear_faults();
        assert_eq!(read(&fixture, &id).status, stored, "{effect:?}");
    }
    fixture.account.add_fault(FaultRule::new(FaultEffect::Hang)).unwrap();
    assert_eq!(write(&fixture, "x").status, 503);
}

#[test]
fn a_body_can_end_early_or_be_another() {
    let fixture = fixture();
    write(&fixture, "1");
    let whole = read(&fixture, "1").text;
    let with = |effect| {
        fixture.account.add_fault(FaultRule::new(effect)).unwrap();
        let answer = read(&fixture, "1");
        fixture.account.clear_faults();
        assert_eq!(answer.status, 200);
        answer.text
    };
    assert_eq!(with(FaultEffect::TruncatedBody { keep: None }), whole[..whole.len() / 2]);
    assert_eq!(with(FaultEffect::TruncatedBody { keep: Some(7) }), whole[..7]);
    assert_eq!(with(FaultEffect::TruncatedBody { keep: Some(usize::MAX) }), whole);
    assert_eq!(with(FaultEffect::WrongBody { body: Some("[]".to_owned()) }), "[]");
    let wrong = with(FaultEffect::WrongBody { body: None });
    assert!(serde_json::from_str::<Value>(&wrong).is_err());
}

/// How a request over a connection went.
#[derive(Debug, PartialEq, Eq)]
enum Went {
    Answered(u16, String),
    /// An answer began, and its body broke off.
    BrokeOff(u16),
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

fn upsert_request(client: &Client, id: &str) -> Request<Full<Bytes>> {
    let body = item(id);
    let key = key_of(&body);
    let headers = [(KEY, key.as_str()), ("x-ms-documentdb-is-upsert", "true")];
    let key = client.emulator.key();
    let request = signed(key, SystemTime::now(), Method::POST, DOCS, &headers, body.to_string());
    request.map(Full::new)
}

/// Sends a request over a connection of its own.
async fn send(client: &Client, version: Version, mut request: Request<Full<Bytes>>) -> Went {
    let endpoint = client.emulator.http_endpoint().trim_end_matches('/');
    let authority = endpoint.trim_start_matches("http://");
    let stream = TokioIo::new(TcpStream::connect(authority).await.unwrap());
    let sent = match version {
        Version::Http1 => {
            request.headers_mut().insert("host", authority.parse().unwrap());
            let (mut sender, connection) = http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            timeout(TIMEOUT, sender.send_request(request)).await
        }
        Version::Http2 => {
            *request.uri_mut() = format!("{endpoint}{}", request.uri()).parse().unwrap();
            let (mut sender, connection) =
                http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            timeout(TIMEOUT, sender.send_request(request)).await
        }
    };
    let Ok(response) = sent.expect("an end in time") else { return Went::Broken };
    let status = response.status().as_u16();
    match timeout(TIMEOUT, response.into_body().collect()).await.expect("an end in time") {
        Ok(body) => Went::Answered(status, String::from_utf8(body.to_bytes().to_vec()).unwrap()),
        Err(_) => Went::BrokeOff(status),
    }
}

/// Runs an upsert of `id` under a rule, and tells whether it was done.
async fn upsert_under(
    client: &Client,
    version: Version,
    effect: FaultEffect,
    id: &str,
) -> (Went, bool) {
    let rule = FaultRule { condition: upserts(), ..FaultRule::new(effect) };
    let name = client.emulator.account().add_fault(rule).unwrap();
    let went = send(client, version, upsert_request(client, id)).await;
    client.emulator.account().remove_fault(&name);
    (went, client.read(id, "a").await.status == 200)
}

#[tokio::test]
async fn a_reset_before_processing_leaves_nothing_done() {
    let client = Client::with_container(1).await;
    for version in VERSIONS {
        let (went, done) = upsert_under(&client, version, FaultEffect::ResetBefore, "1").await;
        assert_eq!((went, done), (Went::Broken, false), "{version:?}");
    }
}

#[tokio::test]
async fn a_reset_after_processing_leaves_it_done() {
    let client = Client::with_container(1).await;
    for (version, id) in VERSIONS.into_iter().zip(["1", "2"]) {
        let (went, done) = upsert_under(&client, version, FaultEffect::ResetAfter, id).await;
        assert_eq!((went, done), (Went::Broken, true), "{version:?}");
    }
}

#[tokio::test]
async fn a_reset_in_the_middle_of_the_body_comes_after_the_head() {
    let client = Client::with_container(1).await;
    for (version, id) in VERSIONS.into_iter().zip(["1", "2"]) {
        let (went, done) = upsert_under(&client, version, FaultEffect::ResetMidBody, id).await;
        assert_eq!((went, done), (Went::BrokeOff(201), true), "{version:?}");
    }
}

#[tokio::test]
async fn a_reset_is_one_to_the_socket() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let client = Client::with_container(1).await;
    client.emulator.account().add_fault(FaultRule::new(FaultEffect::ResetBefore)).unwrap();
    let authority = client.emulator.http_endpoint().trim_start_matches("http://");
    let mut stream = TcpStream::connect(authority.trim_end_matches('/')).await.unwrap();
    stream.write_all(b"GET /probe HTTP/1.1\r\nhost: sidereal\r\n\r\n").await.unwrap();
    let error = timeout(TIMEOUT, stream.read(&mut [0; 16])).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_truncated_and_a_wrong_body_arrive_in_good_form() {
    let client = Client::with_container(1).await;
    for version in VERSIONS {
        let truncated = FaultEffect::TruncatedBody { keep: Some(10) };
        let (went, _) = upsert_under(&client, version, truncated, "1").await;
        let Went::Answered(status, text) = went else { panic!("{went:?}") };
        assert!((200..300).contains(&status) && text.len() == 10, "{text}");
        let wrong = FaultEffect::WrongBody { body: Some("no".to_owned()) };
        let (went, _) = upsert_under(&client, version, wrong, "1").await;
        assert_eq!(went, Went::Answered(200, "no".to_owned()));
    }
}

/// The answer must come no sooner than the delay; how much later is the machine's business.
#[tokio::test]
async fn a_delay_before_processing_holds_back_processing_and_response() {
    let client = Client::with_container(1).await;
    for (version, id) in VERSIONS.into_iter().zip(["1", "2"]) {
        for effect in
            [FaultEffect::DelayBefore { wait: A_WHILE }, FaultEffect::DelayAfter { wait: A_WHILE }]
        {
            let began = Instant::now();
            let (went, done) = upsert_under(&client, version, effect.clone(), id).await;
            assert!(began.elapsed() >= A_WHILE, "{effect:?}");
            assert!(matches!(went, Went::Answered(200 | 201, _)) && done, "{went:?}");
        }
    }
}

#[tokio::test]
async fn a_delay_after_processing_shows_the_write_before_its_response() {
    let client = Client::with_container(1).await;
    let wait = TIMEOUT; // Longer than it takes to look, and never waited for.
    for (effect, done) in
        [(FaultEffect::DelayAfter { wait }, true), (FaultEffect::DelayBefore { wait }, false)]
    {
        let id = if done { "after" } else { "before" };
        let rule = FaultRule { condition: upserts(), ..FaultRule::new(effect) };
        let name = client.emulator.account().add_fault(rule).unwrap();
        let pending = send(&client, Version::Http1, upsert_request(&client, id));
        assert!(timeout(A_WHILE, pending).await.is_err());
        client.emulator.account().remove_fault(&name);
        assert_eq!(client.read(id, "a").await.status == 200, done, "{id}");
    }
}

#[tokio::test]
async fn a_request_that_hangs_ends_with_the_client() {
    let client = Client::with_container(1).await;
    for version in VERSIONS {
        let name = client.emulator.account().add_fault(FaultRule::new(FaultEffect::Hang)).unwrap();
        let hanging = send(&client, version, upsert_request(&client, "1"));
        assert!(timeout(A_WHILE, hanging).await.is_err(), "{version:?}");
        client.emulator.account().remove_fault(&name);
        assert_eq!(client.read("1", "a").await.status, 404);
    }
}

#[tokio::test]
async fn a_request_that_hangs_ends_with_the_server() {
    let client = Client::with_container(1).await;
    client.emulator.account().add_fault(FaultRule::new(FaultEffect::Hang)).unwrap();
    let endpoint = client.emulator.http_endpoint().trim_start_matches("http://").to_owned();
    let stream = TcpStream::connect(endpoint.trim_end_matches('/')).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = upsert_request(&client, "1");
    request.headers_mut().insert("host", "sidereal".parse().unwrap());
    let hanging = tokio::spawn(async move { sender.send_request(request).await });
    while client.emulator.account().faults()[0].hits == 0 {
        tokio::task::yield_now().await;
    }
    timeout(TIMEOUT, client.emulator.shutdown())
        .await
        .expect("the hanging request holds nothing up");
    assert!(timeout(TIMEOUT, hanging).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn a_region_can_fail_while_the_others_answer() {
    let client = Client::with(Emulator::builder().regions(["West US", "East US"])).await;
    let condition = FaultCondition { region: Some("East US".into()), ..Default::default() };
    let rule = FaultRule { condition, ..FaultRule::new(UNAVAILABLE) };
    client.emulator.account().add_fault(rule).unwrap();
    for (region, endpoint) in client.emulator.regions() {
        let address = endpoint.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let stream = TcpStream::connect(&address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let key = client.emulator.key();
        let mut request = signed(key, SystemTime::now(), Method::GET, "/", &[], String::new());
        request.headers_mut().insert("host", address.parse().unwrap());
        let response = sender.send_request(request.map(Full::new)).await.unwrap();
        let expected = if region == RegionName::from("East US") { 503 } else { 200 };
        assert_eq!(response.status().as_u16(), expected, "{region}");
    }
}
