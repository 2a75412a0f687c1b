//! Response headers that SDKs read beside the body.

use std::time::Duration;

use crate::common::{Answer, Client, DOCS, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{FaultEffect, FaultRule};

const A: (&str, &str) = (KEY, "[\"a\"]");
const MINIMAL: (&str, &str) = ("prefer", "return=minimal");
const DURATION: &str = "x-ms-request-duration-ms";
const MISMATCH: &str = "Partition key provided either doesn't correspond to definition in the collection or \
                        doesn't match partition key field values specified in the document.";

#[tokio::test]
async fn a_read_names_the_url_of_its_item() {
    let client = Client::with_container(1).await;
    let created = client.create(json!({ "id": "a b", "pk": "a" })).await;
    let path = format!("{DOCS}/a%20b");
    let location = format!("{}{path}", client.emulator.http_endpoint().trim_end_matches('/'));
    let read = client.get(&path, &[A]).await;
    assert_eq!((read.status, read.header("content-location")), (200, Some(location.as_str())));
    let etag = created.header("etag").unwrap();
    let known = client.get(&path, &[A, ("if-none-match", etag)]).await;
    // RFC 9110, section 15.4.5: a 304 has what a 200 would have had.
    assert_eq!((known.status, known.header("etag")), (304, Some(etag)));
    assert_eq!(known.header("content-location"), Some(location.as_str()));
    let missing = client.get(&format!("{DOCS}/none"), &[A]).await;
    assert_eq!((missing.status, missing.header("content-location")), (404, None));
}

#[test]
fn every_response_says_how_long_it_took() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    let item = json!({ "id": "1", "pk": "a" });
    let answers = [
        fixture.send(Method::GET, "/", &[], Value::Null),
        fixture.send(Method::POST, DOCS, &[A], item.clone()),
        fixture.send(Method::POST, DOCS, &[A], item),
        fixture.send(Method::GET, DOCS, &[A], Value::Null),
        fixture.send(Method::GET, "/dbs/none", &[], Value::Null),
        fixture.send(Method::DELETE, "/dbs/db", &[], Value::Null),
    ];
    let taken: Vec<_> = answers.iter().map(|it| (it.status, it.header(DURATION))).collect();
    let expected = [200, 201, 409, 200, 404, 204].map(|status| (status, Some("0.000")));
    assert_eq!(taken, expected, "the clock stands still");
}

#[tokio::test]
async fn the_time_that_a_fault_rule_takes_is_part_of_the_duration() {
    let client = Client::with_container(1).await;
    let wait = Duration::from_millis(20);
    let rule = FaultRule::new(FaultEffect::DelayBefore { wait });
    client.emulator.account().add_fault(rule).unwrap();
    let read = client.get(&format!("{DOCS}/1"), &[A]).await;
    let took: f64 = read.header(DURATION).unwrap().parse().unwrap();
    assert!(took >= 20.0, "{took}");
}

#[tokio::test]
async fn metadata_writes_have_a_session_token_and_may_be_minimal() {
    let client = Client::start().await;
    let definition =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let container = "/dbs/db/colls/c";
    let of = |answer: &Answer| {
        let token = answer.header("x-ms-session-token").map(str::to_owned);
        (answer.status, answer.text.is_empty(), token)
    };
    let created = client.send(Method::POST, "/dbs", &[MINIMAL], json!({ "id": "db" })).await;
    assert!(created.header("etag").is_some());
    let token = Some("0:1#0".to_owned());
    assert_eq!(of(&created), (201, true, token.clone()));
    let created = client.send(Method::POST, "/dbs/db/colls", &[MINIMAL], definition.clone()).await;
    assert_eq!(of(&created), (201, true, token.clone()));
    assert!(created.header("etag").is_some());
    assert_eq!(client.create(json!({ "id": "1", "pk": "a" })).await.status, 201);
    let replaced = client.send(Method::PUT, container, &[], definition).await;
    // The token is one of the container's: an SDK that keeps it can read items with it.
    let token = Some("0:1#1".to_owned());
    assert_eq!(of(&replaced), (200, false, token.clone()));
    let session = ("x-ms-session-token", "0:1#1");
    assert_eq!(client.get(&format!("{DOCS}/1"), &[A, session]).await.status, 200);
    let deleted = client.send(Method::DELETE, container, &[], Value::Null).await;
    assert_eq!(of(&deleted), (204, true, token));
    let deleted = client.send(Method::DELETE, "/dbs/db", &[], Value::Null).await;
    assert_eq!(of(&deleted), (204, true, Some("0:1#0".to_owned())));
}

#[tokio::test]
async fn a_part_of_a_hierarchical_key_addresses_no_item() {
    let client = Client::start().await;
    let key = json!({ "paths": ["/t", "/u"], "kind": "MultiHash", "version": 2 });
    client.create_container(json!({ "id": "c", "partitionKey": key })).await;
    let item = json!({ "id": "1", "t": "A", "u": "B" });
    let whole = (KEY, "[\"A\",\"B\"]");
    assert_eq!(client.send(Method::POST, DOCS, &[whole], item.clone()).await.status, 201);
    let path = format!("{DOCS}/1");
    assert_eq!(client.get(&path, &[whole]).await.status, 200);

    let batch = [("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
    let reads = json!([{ "operationType": "Read", "id": "1" }]);
    for part in [(KEY, "[\"A\"]"), (KEY, "[\"A\",\"B\",\"C\"]")] {
        let refusals = [
            client.get(&path, &[part]).await,
            client.send(Method::PUT, &path, &[part], item.clone()).await,
            client.send(Method::DELETE, &path, &[part], Value::Null).await,
            client.send(Method::POST, DOCS, &[part, batch[0], batch[1]], reads.clone()).await,
        ];
        for refused in refusals {
            assert_eq!((refused.status, refused.sub_status()), (400, 1001), "{}", refused.text);
            assert!(refused.json()["message"].as_str().unwrap().contains(MISMATCH));
        }
    }
}
