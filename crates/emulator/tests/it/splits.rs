//! Ranges that split and merge under their clients.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::{Answer, CROSS, DOCS, Fixture, KEY, key_of};
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_protocol::{PartitionKeyRange, RegionName, RoutingMap};

const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const NO_TIME: Duration = Duration::ZERO;

/// One partition with twenty items of twenty keys.
fn twenty() -> Fixture {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    for n in 0..20 {
        assert_eq!(create(&fixture, n).status, 201);
    }
    fixture
}

fn create(fixture: &Fixture, n: u32) -> Answer {
    let item = json!({ "id": n.to_string(), "pk": n, "n": n });
    fixture.send(Method::POST, DOCS, &[(KEY, &key_of(&item))], item)
}

fn read(fixture: &Fixture, n: u32, more: &[(&str, &str)]) -> Answer {
    let key = format!("[{n}]");
    let mut headers = vec![(KEY, key.as_str())];
    headers.extend_from_slice(more);
    fixture.send(Method::GET, &format!("{DOCS}/{n}"), &headers, Value::Null)
}

fn query(fixture: &Fixture, text: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![("x-ms-documentdb-isquery", "true")];
    headers.extend_from_slice(more);
    fixture.send(Method::POST, DOCS, &headers, json!({ "query": text }))
}

fn ranges(fixture: &Fixture, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![("a-im", "Incremental Feed")];
    headers.extend_from_slice(more);
    fixture.send(Method::GET, "/dbs/db/colls/c/pkranges", &headers, Value::Null)
}

fn entries(answer: &Answer) -> Vec<PartitionKeyRange> {
    serde_json::from_value(answer.json()["PartitionKeyRanges"].clone()).unwrap()
}

#[test]
fn after_a_split_every_item_is_found_by_key_and_in_exactly_one_half() {
    let fixture = twenty();
    let halves = fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
    assert_eq!(halves, ["1", "2"]);
    for n in 0..20 {
        assert_eq!(read(&fixture, n, &[]).status, 200);
    }
    let in_half = |half: &str| query(&fixture, "SELECT * FROM c", &[(RANGE, half)]).rows().len();
    let (left, right) = (in_half("1"), in_half("2"));
    assert_eq!(left + right, 20);
    assert!(left > 0 && right > 0);
    assert_eq!(create(&fixture, 20).status, 201);
}

#[test]
fn a_request_that_names_the_old_range_is_told_to_look_again() {
    let fixture = twenty();
    fixture.account.split_range("db", "c", "0", Duration::from_secs(5)).unwrap();
    let named = || query(&fixture, "SELECT * FROM c", &[(RANGE, "0")]);
    let during = named();
    assert_eq!((during.status, during.sub_status()), (410, 1007));
    assert_eq!(read(&fixture, 1, &[]).status, 200);
    fixture.clock.advance(Duration::from_secs(5));
    let after = named();
    assert_eq!((after.status, after.sub_status()), (410, 1002));
}

#[test]
fn the_feed_of_ranges_gives_the_children_with_their_parents() {
    let fixture = twenty();
    let before = ranges(&fixture, &[]);
    let cursor = before.header("etag").unwrap().to_owned();
    fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
    let changed = ranges(&fixture, &[("if-none-match", &cursor)]);
    assert_eq!(changed.status, 200);
    let map = RoutingMap::build(entries(&before)).unwrap().apply(entries(&changed)).unwrap();
    assert!(map.by_id("0").is_none() && map.by_id("1").is_some() && map.by_id("2").is_some());
    let cursor = changed.header("etag").unwrap().to_owned();
    assert_eq!(ranges(&fixture, &[("if-none-match", &cursor)]).status, 304);
}

#[test]
fn sessions_and_feeds_of_the_parent_go_on_in_the_children() {
    let fixture = twenty();
    let token = create(&fixture, 20).header("x-ms-session-token").unwrap().to_owned();
    let feed = |range: &str, cursor: &str| {
        let headers = [("a-im", "Incremental Feed"), (RANGE, range), ("if-none-match", cursor)];
        fixture.send(Method::GET, DOCS, &headers, Value::Null)
    };
    let cursor = feed("0", "\"0\"").header("etag").unwrap().to_owned();
    fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();

    assert_eq!(read(&fixture, 20, &[("x-ms-session-token", &token)]).status, 200);
    let ahead = read(&fixture, 20, &[("x-ms-session-token", "0:1#999")]);
    assert_eq!((ahead.status, ahead.sub_status()), (404, 1002));
    assert_eq!([feed("1", &cursor).status, feed("2", &cursor).status], [304, 304]);
    create(&fixture, 21);
    let statuses = [feed("1", &cursor).status, feed("2", &cursor).status];
    assert!(statuses == [200, 304] || statuses == [304, 200], "{statuses:?}");
}

#[test]
fn a_query_that_a_split_interrupts_gives_every_row_once() {
    for text in ["SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n DESC"] {
        let fixture = twenty();
        let sorted = text.contains("ORDER");
        let page = query(&fixture, text, &[(RANGE, "0"), ("x-ms-max-item-count", "7")]);
        let mut rows = page.rows();
        let parent = page.header("x-ms-continuation").unwrap().to_owned();
        fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
        for half in ["1", "2"] {
            let mut token = Some(parent.clone());
            while let Some(current) = token {
                let page = query(
                    &fixture,
                    text,
                    &[(RANGE, half), ("x-ms-continuation", &current), ("x-ms-max-item-count", "3")],
                );
                rows.extend(page.rows());
                token = page.header("x-ms-continuation").map(str::to_owned);
            }
        }
        let numbers: BTreeSet<u64> = rows.iter().filter_map(Value::as_u64).collect();
        assert_eq!((rows.len(), numbers.len()), (20, 20), "{text} (sorted: {sorted})");
    }
}

#[test]
fn a_query_that_the_gateway_serves_goes_on_over_both_halves() {
    let fixture = twenty();
    let mut rows = Vec::new();
    let mut token: Option<String> = None;
    for page in 0..40 {
        let mut headers = vec![CROSS, ("x-ms-max-item-count", "3")];
        if let Some(token) = &token {
            headers.push(("x-ms-continuation", token));
        }
        let answer = query(&fixture, "SELECT VALUE c.n FROM c", &headers);
        rows.extend(answer.rows());
        token = answer.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            break;
        }
        if page == 1 {
            fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
        }
    }
    let numbers: BTreeSet<u64> = rows.iter().filter_map(Value::as_u64).collect();
    assert_eq!((rows.len(), numbers.len()), (20, 20));
}

#[test]
fn two_neighbours_merge_into_one_that_has_everything() {
    let fixture = twenty();
    let [left, right] = fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
    let token = create(&fixture, 20).header("x-ms-session-token").unwrap().to_owned();
    assert!(fixture.account.merge_ranges("db", "c", &right, &left, NO_TIME).is_err());
    let whole = fixture.account.merge_ranges("db", "c", &left, &right, NO_TIME).unwrap();
    assert_eq!(query(&fixture, "SELECT * FROM c", &[(RANGE, &whole)]).rows().len(), 21);
    assert_eq!(read(&fixture, 20, &[("x-ms-session-token", &token)]).status, 200);
    let gone = query(&fixture, "SELECT * FROM c", &[(RANGE, &left)]);
    assert_eq!((gone.status, gone.sub_status()), (410, 1002));
    assert!(fixture.account.split_range("db", "c", &left, NO_TIME).is_err());
}

/// Both halves name what they came from, so the list of ancestors doubled with each split and merge: gigabytes after thirty.
#[test]
fn an_ancestor_is_named_once_however_often_ranges_are_split_and_merged() {
    let fixture = twenty();
    let mut range = "0".to_owned();
    for _ in 0..12 {
        let [left, right] = fixture.account.split_range("db", "c", &range, NO_TIME).unwrap();
        range = fixture.account.merge_ranges("db", "c", &left, &right, NO_TIME).unwrap();
    }
    let ranges = fixture.send(Method::GET, "/dbs/db/colls/c/pkranges", &[], Value::Null).json();
    let parents = ranges["PartitionKeyRanges"][0]["parents"].as_array().unwrap();
    assert_eq!(parents.len(), 36, "three for each round");
}

#[test]
fn what_was_on_its_way_to_a_region_arrives_after_a_split() {
    let lag = Duration::from_millis(100);
    let fixture = Fixture::new(|options| {
        options.regions = ["West US", "East US"].map(RegionName::from).to_vec();
        options.replication_delay = lag;
    });
    fixture.create_container(json!({}));
    for n in 0..20 {
        create(&fixture, n);
    }
    fixture.account.split_range("db", "c", "0", NO_TIME).unwrap();
    let rows = || {
        let headers = [("x-ms-documentdb-isquery", "true"), CROSS];
        let body = json!({ "query": "SELECT * FROM c" });
        fixture.send_in("East US", Method::POST, DOCS, &headers, body).unwrap().rows().len()
    };
    assert_eq!(rows(), 0);
    fixture.clock.advance(lag);
    assert_eq!(rows(), 20);
}

/// A write that chose its partition just before a split must not end up in the partition that is gone.
#[test]
fn writes_that_meet_a_split_are_neither_lost_nor_refused() {
    const WRITERS: u32 = 4;
    const EACH: u32 = 200;
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let fixture = &fixture;
            scope.spawn(move || {
                for n in writer * EACH..(writer + 1) * EACH {
                    assert_eq!(create(fixture, n).status, 201);
                }
            });
        }
        for _ in 0..12 {
            let listed = entries(&ranges(&fixture, &[]));
            fixture.account.split_range("db", "c", listed[0].id.as_str(), NO_TIME).unwrap();
            let listed = entries(&ranges(&fixture, &[]));
            let (left, right) = (&listed[listed.len() - 2], &listed[listed.len() - 1]);
            fixture
                .account
                .merge_ranges("db", "c", left.id.as_str(), right.id.as_str(), NO_TIME)
                .unwrap();
        }
    });
    for n in 0..WRITERS * EACH {
        assert_eq!(read(&fixture, n, &[]).status, 200, "{n}");
    }
}

#[derive(Clone, Debug)]
enum Event {
    Create(u32),
    Split(usize),
    Merge(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..200_u32).prop_map(Event::Create),
        2 => (0..8_usize).prop_map(Event::Split),
        1 => (0..8_usize).prop_map(Event::Merge),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever splits and merges, the ranges tile the key space and hold every item once.
    #[test]
    fn no_sequence_of_splits_and_merges_loses_or_doubles_an_item(events in vec(event(), 1..60)) {
        let fixture = Fixture::new(|_| {});
        fixture.create_container(json!({}));
        let mut created = BTreeSet::new();
        for event in &events {
            let listed = entries(&ranges(&fixture, &[]));
            let id = |index: usize| listed.get(index % listed.len()).map(|range| range.id.to_string());
            match *event {
                Event::Create(n) => {
                    let status = create(&fixture, n).status;
                    prop_assert_eq!(status, if created.insert(n) { 201 } else { 409 });
                }
                Event::Split(index) if listed.len() < 12 => {
                    fixture.account.split_range("db", "c", &id(index).unwrap(), NO_TIME).unwrap();
                }
                Event::Merge(index) if listed.len() > 1 => {
                    let index = index % (listed.len() - 1);
                    let (left, right) = (id(index).unwrap(), id(index + 1).unwrap());
                    fixture.account.merge_ranges("db", "c", &left, &right, NO_TIME).unwrap();
                }
                Event::Split(_) | Event::Merge(_) => {}
            }
        }
        let listed = entries(&ranges(&fixture, &[]));
        prop_assert!(RoutingMap::build(listed.clone()).is_ok());
        let mut found = BTreeSet::new();
        for range in &listed {
            for row in query(&fixture, "SELECT VALUE c.n FROM c", &[(RANGE, range.id.as_str())]).rows() {
                prop_assert!(found.insert(row.as_u64().unwrap() as u32), "{} stands twice", row);
            }
        }
        prop_assert_eq!(found, created);
    }
}
