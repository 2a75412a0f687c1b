//! Counters: what was asked of an account, by what it was about.

use crate::common::{DOCS, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{CounterRow, FaultEffect, FaultRule, Operation};
use sidereal_protocol::{RegionName, ResourceType};

const A: (&str, &str) = (KEY, "[\"a\"]");

fn fixture() -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = ["West US", "East US"].map(RegionName::from).to_vec();
        options.partitions = Some(4);
    });
    fixture.create_container(json!({}));
    fixture.account.reset_counters();
    fixture
}

fn only(fixture: &Fixture) -> CounterRow {
    let rows = fixture.account.counters();
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[test]
fn a_write_is_counted_with_its_charge_its_bytes_and_its_partition() {
    let fixture = fixture();
    let body = json!({ "id": "1", "pk": "a" });
    let answer = fixture.send(Method::POST, DOCS, &[A], body.clone());
    let row = only(&fixture);
    assert_eq!(row.region, RegionName::from("West US"));
    assert_eq!((row.operation, row.resource), (Operation::Create, Some(ResourceType::Document)));
    assert_eq!(row.container.as_deref(), Some("db/c"));
    assert_eq!(row.range.as_deref(), answer.header("x-ms-documentdb-partitionkeyrangeid"));
    assert_eq!((row.status, row.sub_status, row.requests), (201, 0, 1));
    assert!((row.charge - answer.charge()).abs() < 0.01, "{row:?}");
    assert_eq!(row.request_bytes, body.to_string().len() as u64);
    assert_eq!(row.response_bytes, answer.text.len() as u64);
}

#[test]
fn regions_and_statuses_are_counted_apart() {
    let fixture = fixture();
    let path = format!("{DOCS}/1");
    for region in ["West US", "East US", "East US"] {
        fixture.send_in(region, Method::GET, &path, &[A], Value::Null).unwrap();
    }
    let refused =
        fixture.send_in("East US", Method::POST, DOCS, &[A], json!({ "id": "1", "pk": "a" }));
    assert_eq!(refused.unwrap().status, 403);
    let rows = fixture.account.counters();
    let seen: Vec<(&str, Operation, u16, u32, u64)> = rows
        .iter()
        .map(|row| (row.region.as_str(), row.operation, row.status, row.sub_status, row.requests))
        .collect();
    assert_eq!(
        seen,
        [
            ("West US", Operation::Read, 404, 0, 1),
            ("East US", Operation::Create, 403, 3, 1),
            ("East US", Operation::Read, 404, 0, 2),
        ]
    );
    // A refusal that no partition answered is counted for the one it was addressed to.
    assert!(rows.iter().all(|row| row.range == rows[0].range && row.range.is_some()), "{rows:?}");
}

#[test]
fn a_request_by_rid_is_counted_under_the_containers_name() {
    let fixture = fixture();
    let container = fixture.send(Method::GET, "/dbs/db/colls/c", &[], Value::Null).json();
    fixture.account.reset_counters();
    let path = format!("/{}docs", container["_self"].as_str().unwrap());
    assert_eq!(fixture.send(Method::GET, &path, &[], Value::Null).status, 200);
    let row = only(&fixture);
    assert_eq!((row.container.as_deref(), row.operation), (Some("db/c"), Operation::ReadFeed));
}

#[test]
fn what_a_fault_does_is_counted_as_the_client_sees_it() {
    let fixture = fixture();
    let answer = FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };
    for effect in [answer, FaultEffect::ResetBefore] {
        let name = fixture.account.add_fault(FaultRule::new(effect)).unwrap();
        let _ = fixture.send_in("West US", Method::GET, "/", &[], Value::Null); // What it is, the rule says.
        fixture.account.remove_fault(&name);
    }
    let statuses: Vec<u16> = fixture.account.counters().iter().map(|row| row.status).collect();
    assert_eq!(statuses, [0, 503]);
}

#[test]
fn counters_start_again_when_they_are_reset() {
    let fixture = fixture();
    fixture.send(Method::GET, "/", &[], Value::Null);
    assert_eq!(only(&fixture).resource, Some(ResourceType::DatabaseAccount));
    fixture.account.reset_counters();
    assert!(fixture.account.counters().is_empty());
}
