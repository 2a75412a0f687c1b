//! Behaviour that depends on time, with a manual clock: expiry, throttling, start times of the change feed.

use std::time::Duration;

use crate::common::{DOCS, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};

const A: (&str, &str) = (KEY, "[\"a\"]");

fn create(fixture: &Fixture, item: Value) -> u16 {
    fixture.send(Method::POST, DOCS, &[A], item).status
}

fn read(fixture: &Fixture, id: &str) -> u16 {
    fixture.send(Method::GET, &format!("{DOCS}/{id}"), &[A], Value::Null).status
}

#[test]
fn an_item_expires_when_its_time_has_come() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({ "defaultTtl": 60 }));
    assert_eq!(create(&fixture, json!({ "id": "default", "pk": "a" })), 201);
    assert_eq!(create(&fixture, json!({ "id": "short", "pk": "a", "ttl": 10 })), 201);
    assert_eq!(create(&fixture, json!({ "id": "forever", "pk": "a", "ttl": -1 })), 201);
    assert_eq!(create(&fixture, json!({ "id": "bad", "pk": "a", "ttl": 0 })), 400);

    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(
        [read(&fixture, "default"), read(&fixture, "short"), read(&fixture, "forever")],
        [200, 404, 200]
    );
    fixture.clock.advance(Duration::from_secs(50));
    assert_eq!([read(&fixture, "default"), read(&fixture, "forever")], [404, 200]);

    let query = json!({ "query": "SELECT VALUE c.id FROM c" });
    let rows =
        fixture.send(Method::POST, DOCS, &[A, ("x-ms-documentdb-isquery", "true")], query).rows();
    assert_eq!(rows, [json!("forever")]);
    assert_eq!(create(&fixture, json!({ "id": "short", "pk": "a" })), 201);
}

#[test]
fn a_write_restarts_an_items_time_to_live() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({ "defaultTtl": 60 }));
    create(&fixture, json!({ "id": "1", "pk": "a" }));
    fixture.clock.advance(Duration::from_secs(50));
    let patch = json!({ "operations": [{ "op": "set", "path": "/v", "value": 1 }] });
    assert_eq!(fixture.send(Method::PATCH, &format!("{DOCS}/1"), &[A], patch).status, 200);
    fixture.clock.advance(Duration::from_secs(50));
    assert_eq!(read(&fixture, "1"), 200);
    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(read(&fixture, "1"), 404);
}

#[test]
fn without_a_default_nothing_expires() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    create(&fixture, json!({ "id": "1", "pk": "a", "ttl": 1 }));
    fixture.clock.advance(Duration::from_secs(100));
    assert_eq!(read(&fixture, "1"), 200);
}

#[test]
fn requests_beyond_the_throughput_are_refused_until_the_next_second() {
    let fixture = Fixture::new(|options| options.enforce_throughput = true);
    fixture.create_container(json!({}));
    create(&fixture, json!({ "id": "1", "pk": "a" }));
    let mut answered = 0;
    let refused = loop {
        let answer = fixture.send(Method::GET, &format!("{DOCS}/1"), &[A], Value::Null);
        if answer.status != 200 {
            break answer;
        }
        answered += 1;
        assert!(answered < 500, "throughput is not enforced");
    };
    assert!((380..=400).contains(&answered), "{answered}");
    assert_eq!((refused.status, refused.sub_status()), (429, 3200));
    let wait: u64 = refused.header("x-ms-retry-after-ms").unwrap().parse().unwrap();
    assert!((1..=1_000).contains(&wait));
    fixture.clock.advance(Duration::from_millis(wait));
    assert_eq!(read(&fixture, "1"), 200);
}

#[test]
fn throughput_is_enforced_per_partition() {
    let fixture = Fixture::new(|options| {
        options.enforce_throughput = true;
        options.partitions = Some(2);
    });
    fixture.create_container(json!({}));
    let key_in = |range: &str| {
        (0..100)
            .map(|number| format!("[{number}]"))
            .find(|key| {
                let answer =
                    fixture.send(Method::GET, &format!("{DOCS}/none"), &[(KEY, key)], Value::Null);
                answer.header("x-ms-documentdb-partitionkeyrangeid") == Some(range)
            })
            .unwrap()
    };
    let (first, second) = (key_in("0"), key_in("1"));
    fixture.clock.advance(Duration::from_secs(1));
    let read = |key: &str| {
        fixture.send(Method::GET, &format!("{DOCS}/none"), &[(KEY, key)], Value::Null).status
    };
    while read(&first) == 404 {}
    assert_eq!((read(&first), read(&second)), (429, 404));
}

#[test]
fn the_feed_can_start_at_a_moment() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    create(&fixture, json!({ "id": "old", "pk": "a" }));
    fixture.clock.advance(Duration::from_secs(100));
    let moment =
        httpdate::fmt_http_date(sidereal_emulator::Clock::now(&fixture.clock).system_time());
    create(&fixture, json!({ "id": "new", "pk": "a" }));
    let headers = [A, ("a-im", "Incremental Feed"), ("if-modified-since", moment.as_str())];
    let feed = fixture.send(Method::GET, DOCS, &headers, Value::Null);
    assert_eq!(feed.ids(), ["new"]);
    let malformed = [A, ("a-im", "Incremental Feed"), ("if-modified-since", "soon")];
    assert_eq!(fixture.send(Method::GET, DOCS, &malformed, Value::Null).status, 400);
}
