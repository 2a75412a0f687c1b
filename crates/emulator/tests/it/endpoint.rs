//! An account's endpoint without sockets: what its clients see, on a paused clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use sidereal_emulator::{AccountEndpoint, ConnectionOutcome, Emulator, FaultEffect, FaultRule};
use sidereal_protocol::RegionName;
use tokio::time::{Instant, timeout};

use crate::common::{DOCS, Fixture, KEY};

const A: (&str, &str) = (KEY, "[\"a\"]");
const HOUR: Duration = Duration::from_secs(3600);

/// West US and East US, with a container `db/c` and an item `1`.
fn two_regions() -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = ["West US", "East US"].map(RegionName::from).to_vec();
    });
    fixture.create_container(json!({}));
    assert_eq!(upsert(&fixture, "1"), 201);
    fixture
}

fn global(fixture: &Fixture) -> AccountEndpoint {
    AccountEndpoint::global(Arc::clone(&fixture.account))
}

fn east(fixture: &Fixture) -> AccountEndpoint {
    AccountEndpoint::of_region(Arc::clone(&fixture.account), "East US".into())
}

fn upsert(fixture: &Fixture, id: &str) -> u16 {
    let body = json!({ "id": id, "pk": "a" });
    fixture.send(Method::POST, DOCS, &[A, ("x-ms-documentdb-is-upsert", "true")], body).status
}

fn read_request(fixture: &Fixture, id: &str) -> Request<Bytes> {
    fixture.request(Method::GET, &format!("{DOCS}/{id}"), &[A], Value::Null)
}

fn create_request(fixture: &Fixture, id: &str) -> Request<Bytes> {
    fixture.request(Method::POST, DOCS, &[A], json!({ "id": id, "pk": "a" }))
}

fn exists(fixture: &Fixture, id: &str) -> bool {
    fixture.send(Method::GET, &format!("{DOCS}/{id}"), &[A], Value::Null).status == 200
}

fn status(outcome: ConnectionOutcome) -> u16 {
    match outcome {
        ConnectionOutcome::Response(response) => response.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_endpoint_answers_until_its_region_is_offline() {
    let fixture = two_regions();
    let (global, east) = (global(&fixture), east(&fixture));
    assert_eq!(status(global.send(read_request(&fixture, "1")).await), 200);
    assert_eq!(status(east.send(read_request(&fixture, "1")).await), 200);
    fixture.account.set_online(&"East US".into(), false).unwrap();
    let refused = east.send(read_request(&fixture, "1")).await;
    assert!(matches!(refused, ConnectionOutcome::ConnectionRefused), "{refused:?}");
    assert_eq!(status(global.send(read_request(&fixture, "1")).await), 200);
}

#[tokio::test(start_paused = true)]
async fn a_region_that_the_account_does_not_have_refuses_connections() {
    let fixture = two_regions();
    let mars = AccountEndpoint::of_region(Arc::clone(&fixture.account), "Mars".into());
    let refused = mars.send(read_request(&fixture, "1")).await;
    assert!(matches!(refused, ConnectionOutcome::ConnectionRefused), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn delays_pass_on_the_clock_of_tokio() {
    let fixture = two_regions();
    let global = global(&fixture);
    for effect in [FaultEffect::DelayBefore { wait: HOUR }, FaultEffect::DelayAfter { wait: HOUR }]
    {
        fixture.account.add_fault(FaultRule::new(effect.clone())).unwrap();
        let began = Instant::now();
        assert_eq!(status(global.send(read_request(&fixture, "1")).await), 200);
        assert_eq!(began.elapsed(), HOUR, "{effect:?}");
        fixture.account.clear_faults();
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_cancelled_in_a_delay_was_processed_only_before_it() {
    let fixture = two_regions();
    let global = global(&fixture);
    for (effect, id, processed) in [
        (FaultEffect::DelayBefore { wait: HOUR }, "before", false),
        (FaultEffect::DelayAfter { wait: HOUR }, "after", true),
    ] {
        fixture.account.add_fault(FaultRule::new(effect)).unwrap();
        assert!(timeout(HOUR / 2, global.send(create_request(&fixture, id))).await.is_err());
        fixture.account.clear_faults();
        assert_eq!(exists(&fixture, id), processed, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_reset_when_its_region_goes_offline_meanwhile() {
    let fixture = two_regions();
    let east = east(&fixture);
    fixture.account.add_fault(FaultRule::new(FaultEffect::DelayBefore { wait: HOUR })).unwrap();
    let (outcome, ()) = tokio::join!(east.send(read_request(&fixture, "1")), async {
        tokio::time::sleep(HOUR / 2).await;
        fixture.account.set_online(&"East US".into(), false).unwrap();
    });
    assert!(matches!(outcome, ConnectionOutcome::Reset { processed: false }), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reset_says_whether_the_request_was_processed() {
    let fixture = two_regions();
    let global = global(&fixture);
    for (effect, id, expected) in
        [(FaultEffect::ResetBefore, "before", false), (FaultEffect::ResetAfter, "after", true)]
    {
        fixture.account.add_fault(FaultRule::new(effect)).unwrap();
        let outcome = global.send(create_request(&fixture, id)).await;
        fixture.account.clear_faults();
        let ConnectionOutcome::Reset { processed } = outcome else { panic!("{outcome:?}") };
        assert_eq!((processed, exists(&fixture, id)), (expected, expected), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_in_the_body_carries_the_response() {
    let fixture = two_regions();
    let global = global(&fixture);
    fixture.account.add_fault(FaultRule::new(FaultEffect::ResetMidBody)).unwrap();
    let cut = global.send(read_request(&fixture, "1")).await;
    let ConnectionOutcome::ResetMidBody(response) = cut else { panic!("{cut:?}") };
    assert!(response.status() == 200 && !response.body().is_empty());
    let delete = fixture.request(Method::DELETE, &format!("{DOCS}/1"), &[A], Value::Null);
    let plain = global.send(delete).await;
    assert!(matches!(plain, ConnectionOutcome::Reset { processed: true }), "{plain:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_is_pending_until_it_is_dropped() {
    let fixture = two_regions();
    fixture.account.add_fault(FaultRule::new(FaultEffect::Hang)).unwrap();
    let endpoint = global(&fixture);
    let hanging = timeout(1000 * HOUR, endpoint.send(create_request(&fixture, "2"))).await;
    assert!(hanging.is_err(), "{hanging:?}");
    fixture.account.clear_faults();
    assert!(!exists(&fixture, "2"));
}

/// The readable locations that the account lists: names and URLs.
async fn locations(endpoint: &AccountEndpoint, fixture: &Fixture) -> Vec<(String, String)> {
    let mut request = fixture.request(Method::GET, "/", &[], Value::Null);
    *request.uri_mut() = "https://gateway.test:8081/".parse().unwrap();
    let outcome = endpoint.send(request).await;
    let ConnectionOutcome::Response(response) = outcome else { panic!("{outcome:?}") };
    let account: Value = serde_json::from_slice(response.body()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let location =
        |location: &Value| (text(&location["name"]), text(&location["databaseAccountEndpoint"]));
    account["readableLocations"].as_array().unwrap().iter().map(location).collect()
}

#[tokio::test(start_paused = true)]
async fn a_region_is_advertised_under_its_url_or_the_host_of_the_request() {
    let fixture = Fixture::new(|options| {
        options.regions = ["West US", "East US"].map(RegionName::from).to_vec();
        options
            .advertised_urls
            .insert("eastus".into(), "https://east.example:444".parse().unwrap());
    });
    let pair = |name: &str, url: &str| (name.to_owned(), url.to_owned());
    assert_eq!(
        locations(&global(&fixture), &fixture).await,
        [
            pair("West US", "https://gateway.test:8081/"),
            pair("East US", "https://east.example:444/")
        ]
    );
}

#[tokio::test]
async fn an_advertised_url_needs_a_region_and_a_host() {
    let builder = || Emulator::builder().regions(["West US", "East US"]);
    let mars = builder().advertised_url("Mars", "https://mars:1/".parse().unwrap()).start().await;
    assert!(mars.unwrap_err().to_string().contains("Mars"));
    let path = builder().advertised_url("East US", "/east".parse().unwrap()).start().await;
    assert!(path.unwrap_err().to_string().contains("East US"));
}
