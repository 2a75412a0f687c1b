//! Time to live follows the container's present setting, for the items that are there too.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DOCS, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::Account;

const A: (&str, &str) = (KEY, "[\"a\"]");

fn create(fixture: &Fixture, item: Value) -> u16 {
    fixture.send(Method::POST, DOCS, &[A], item).status
}

/// Gives the container another default, or none.
fn set_default(fixture: &Fixture, ttl: Option<i64>) -> u16 {
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    let definition = json!({ "id": "c", "partitionKey": key, "defaultTtl": ttl });
    fixture.send(Method::PUT, "/dbs/db/colls/c", &[], definition).status
}

/// The ids that point reads, a feed, a query with an index and the change feed show, which must agree.
fn visible(fixture: &Fixture) -> Vec<String> {
    let get = |path: &str, more: &[(&str, &str)]| {
        let headers: Vec<_> = [A].iter().chain(more).copied().collect();
        fixture.send(Method::GET, path, &headers, Value::Null)
    };
    let feed = get(DOCS, &[]).ids();
    let query = json!({ "query": "SELECT * FROM c WHERE c.n >= 0 ORDER BY c.n" });
    let rows = fixture.send(Method::POST, DOCS, &[A, ("x-ms-documentdb-isquery", "true")], query);
    assert_eq!(rows.ids(), feed);
    let changes = get(DOCS, &[("a-im", "Incremental Feed")]);
    let mut changed = if changes.status == 304 { Vec::new() } else { changes.ids() };
    changed.sort();
    assert_eq!(changed, feed);
    for id in ["default", "never", "short"] {
        let status = get(&format!("{DOCS}/{id}"), &[]).status;
        assert_eq!(status == 200, feed.iter().any(|it| it == id), "{id}: {status}");
    }
    feed
}

fn create_three(fixture: &Fixture) {
    assert_eq!(create(fixture, json!({ "id": "default", "pk": "a", "n": 1 })), 201);
    assert_eq!(create(fixture, json!({ "id": "never", "pk": "a", "n": 2, "ttl": -1 })), 201);
    assert_eq!(create(fixture, json!({ "id": "short", "pk": "a", "n": 3, "ttl": 10 })), 201);
}

#[test]
fn another_setting_applies_to_the_items_that_are_there() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    create_three(&fixture);
    fixture.clock.advance(Duration::from_secs(20));
    assert_eq!(visible(&fixture), ["default", "never", "short"], "nothing expires yet");
    assert_eq!(set_default(&fixture, Some(-1)), 200);
    assert_eq!(visible(&fixture), ["default", "never"], "by their own time to live alone");
    assert_eq!(set_default(&fixture, Some(15)), 200);
    assert_eq!(visible(&fixture), ["never"]);
    assert_eq!(set_default(&fixture, Some(60)), 200);
    assert_eq!(visible(&fixture), ["default", "never"]);
    assert_eq!(set_default(&fixture, None), 200);
    assert_eq!(visible(&fixture), ["default", "never", "short"], "nothing was swept");
}

#[test]
fn what_a_write_has_swept_does_not_come_back() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({ "defaultTtl": 60 }));
    create_three(&fixture);
    fixture.clock.advance(Duration::from_secs(20));
    assert_eq!(visible(&fixture), ["default", "never"]);
    assert_eq!(create(&fixture, json!({ "id": "zz", "pk": "a", "n": 4 })), 201);
    assert_eq!(set_default(&fixture, None), 200);
    assert_eq!(visible(&fixture), ["default", "never", "zz"]);
    // A setting that is turned on again sweeps by the time of the writes.
    fixture.clock.advance(Duration::from_secs(50));
    assert_eq!(set_default(&fixture, Some(60)), 200);
    assert_eq!(visible(&fixture), ["never", "zz"]);
    assert_eq!(create(&fixture, json!({ "id": "default", "pk": "a", "n": 5 })), 201, "it is gone");
    assert_eq!(
        fixture.send(Method::GET, &format!("{DOCS}/default"), &[A], Value::Null).status,
        200
    );
}

#[test]
fn a_time_to_live_is_a_number_of_seconds_or_never() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    let item = |ttl: &Value| json!({ "id": "1", "pk": "a", "ttl": ttl });
    for ttl in [json!(null), json!(2_147_483_648_u64), json!(0), json!(-2), json!(1.5), json!("1")]
    {
        assert_eq!(create(&fixture, item(&ttl)), 400, "{ttl}");
    }
    assert_eq!(create(&fixture, item(&json!(2_147_483_647))), 201);
    let patch = json!({ "operations": [{ "op": "set", "path": "/ttl", "value": null }] });
    assert_eq!(fixture.send(Method::PATCH, &format!("{DOCS}/1"), &[A], patch).status, 400);
    for (ttl, status) in [(2_147_483_648, 400), (0, 400), (-2, 400), (2_147_483_647, 200)] {
        assert_eq!(set_default(&fixture, Some(ttl)), status, "{ttl}");
    }
}

#[test]
fn the_setting_counts_after_a_restart_too() {
    let directory = std::env::temp_dir().join(format!("sidereal-ttl-{}", uuid::Uuid::new_v4()));
    let mut fixture = Fixture::new(|_| {});
    let options = fixture.account.options().clone();
    let open = || Arc::new(Account::open(options.clone(), &directory).unwrap());
    fixture.account = open();
    fixture.create_container(json!({ "defaultTtl": 60 }));
    create_three(&fixture);
    let clock = Arc::clone(&fixture.clock);
    drop(fixture);
    let fixture = Fixture { account: open(), clock };
    fixture.clock.advance(Duration::from_secs(20));
    assert_eq!(visible(&fixture), ["default", "never"]);
    assert_eq!(set_default(&fixture, Some(15)), 200);
    assert_eq!(visible(&fixture), ["never"]);
    assert_eq!(set_default(&fixture, None), 200);
    assert_eq!(visible(&fixture), ["default", "never", "short"]);
    drop(fixture);
    std::fs::remove_dir_all(&directory).unwrap();
}
