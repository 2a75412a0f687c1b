//! Accounts in which every region accepts writes.

use std::time::Duration;

use crate::common::{Answer, DOCS, Fixture, KEY};
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_protocol::{RegionName, SessionToken};

const WEST: &str = "West US";
const EAST: &str = "East US";
const NORTH: &str = "North Europe";
const NAMES: [&str; 3] = [WEST, EAST, NORTH];
const A: (&str, &str) = (KEY, "[\"a\"]");
const TENTATIVE: (&str, &str) = ("x-ms-cosmos-allow-tentative-writes", "true");
const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "true");
const LAG: Duration = Duration::from_millis(100);

fn three() -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = NAMES.map(RegionName::from).to_vec();
        options.multi_write = true;
        options.replication_delay = LAG;
    });
    fixture.create_container(json!({}));
    fixture
}

fn write(fixture: &Fixture, region: &str, id: &str, n: u64) -> Answer {
    let body = json!({ "id": id, "pk": "a", "n": n });
    fixture.send_in(region, Method::POST, DOCS, &[A, TENTATIVE, UPSERT], body).unwrap()
}

fn delete(fixture: &Fixture, region: &str, id: &str) -> Answer {
    fixture
        .send_in(region, Method::DELETE, &format!("{DOCS}/{id}"), &[A, TENTATIVE], Value::Null)
        .unwrap()
}

fn rename(fixture: &Fixture, region: &str, id: &str, to: &str, n: u64) -> Answer {
    let body = json!({ "id": to, "pk": "a", "n": n });
    let path = format!("{DOCS}/{id}");
    fixture.send_in(region, Method::PUT, &path, &[A, TENTATIVE], body).unwrap()
}

fn read(fixture: &Fixture, region: &str, id: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![A];
    headers.extend_from_slice(more);
    fixture.send_in(region, Method::GET, &format!("{DOCS}/{id}"), &headers, Value::Null).unwrap()
}

/// Each region's answer for an item: its number, or none.
fn everywhere(fixture: &Fixture, id: &str) -> [Option<u64>; 3] {
    NAMES.map(|region| {
        let answer = read(fixture, region, id, &[]);
        (answer.status == 200).then(|| answer.json()["n"].as_u64().unwrap())
    })
}

#[test]
fn every_region_accepts_writes_and_shows_them_at_once() {
    let fixture = three();
    assert_eq!(write(&fixture, EAST, "1", 7).status, 201);
    assert_eq!(everywhere(&fixture, "1"), [None, Some(7), None]);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [Some(7); 3]);
    let account = fixture.send(Method::GET, "/", &[], Value::Null).json();
    assert_eq!(account["enableMultipleWriteLocations"], true);
    assert_eq!(account["writableLocations"].as_array().unwrap().len(), 3);
}

#[test]
fn a_satellite_refuses_writes_that_do_not_allow_tentative_ones() {
    let fixture = three();
    let plain = |region| {
        fixture.send_in(region, Method::POST, DOCS, &[A], json!({ "id": "1", "pk": "a" })).unwrap()
    };
    let refused = plain(EAST);
    assert_eq!((refused.status, refused.sub_status()), (403, 3));
    assert_eq!(plain(WEST).status, 201);
}

#[test]
fn of_two_writes_the_later_one_wins() {
    let fixture = three();
    write(&fixture, WEST, "1", 1);
    fixture.clock.advance(Duration::from_millis(10));
    write(&fixture, EAST, "1", 2);
    assert_eq!(everywhere(&fixture, "1"), [Some(1), Some(2), None]);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [Some(2); 3]);
}

#[test]
fn of_two_writes_in_one_moment_the_region_listed_first_wins() {
    for order in [[WEST, NORTH], [NORTH, WEST]] {
        let fixture = three();
        for region in order {
            write(&fixture, region, "1", if region == WEST { 1 } else { 3 });
        }
        fixture.clock.advance(LAG);
        assert_eq!(everywhere(&fixture, "1"), [Some(1); 3], "{order:?}");
    }
}

#[test]
fn a_delete_beats_a_concurrent_write_even_a_later_one() {
    let fixture = three();
    write(&fixture, WEST, "1", 1);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [Some(1); 3]);
    assert_eq!(delete(&fixture, WEST, "1").status, 204);
    fixture.clock.advance(Duration::from_millis(10));
    write(&fixture, EAST, "1", 2);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [None; 3]);
    // A client that saw the delete may create the item again.
    assert_eq!(write(&fixture, NORTH, "1", 3).status, 201);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [Some(3); 3]);
}

#[test]
fn two_names_given_to_one_item_at_once_make_two_items() {
    let fixture = three();
    write(&fixture, WEST, "1", 1);
    fixture.clock.advance(LAG);
    assert_eq!(everywhere(&fixture, "1"), [Some(1); 3]);
    assert_eq!(rename(&fixture, WEST, "1", "2", 2).status, 200);
    assert_eq!(rename(&fixture, EAST, "1", "3", 3).status, 200);
    // A write under the old name loses to the renaming, as to a delete.
    write(&fixture, NORTH, "1", 4);
    fixture.clock.advance(LAG);
    let seen = ["1", "2", "3"].map(|id| everywhere(&fixture, id));
    assert_eq!(seen, [[None; 3], [Some(2); 3], [Some(3); 3]]);
    let rids = ["2", "3"].map(|id| read(&fixture, WEST, id, &[]).json()["_rid"].clone());
    assert_ne!(rids[0], rids[1]);
}

#[test]
fn a_session_waits_for_the_writes_of_the_region_it_wrote_in() {
    let fixture = three();
    write(&fixture, NORTH, "0", 0);
    let token = write(&fixture, EAST, "1", 1).header("x-ms-session-token").unwrap().to_owned();
    let session = ("x-ms-session-token", token.as_str());
    let early = read(&fixture, WEST, "1", &[session]);
    assert_eq!((early.status, early.sub_status()), (404, 1002));
    assert_eq!(read(&fixture, EAST, "1", &[session]).status, 200);
    fixture.clock.advance(LAG);
    assert_eq!(read(&fixture, WEST, "1", &[session]).status, 200);
}

#[derive(Clone, Debug)]
enum Event {
    Write(usize, u8),
    Delete(usize, u8),
    Rename(usize, u8, u8),
    Read(usize, u8),
    Wait(u64),
    Delay(usize, u64),
    Pause(usize, bool),
    Split,
}

fn event() -> impl Strategy<Value = Event> {
    let (region, id) = (0..3_usize, 0..4_u8);
    prop_oneof![
        6 => (region.clone(), id.clone()).prop_map(|(region, id)| Event::Write(region, id)),
        3 => (region.clone(), id.clone()).prop_map(|(region, id)| Event::Delete(region, id)),
        3 => (region.clone(), id.clone(), id.clone())
            .prop_map(|(region, id, to)| Event::Rename(region, id, to)),
        4 => (region.clone(), id).prop_map(|(region, id)| Event::Read(region, id)),
        4 => (0..200_u64).prop_map(Event::Wait),
        1 => (region.clone(), 0..300_u64).prop_map(|(region, delay)| Event::Delay(region, delay)),
        1 => (region, any::<bool>()).prop_map(|(region, paused)| Event::Pause(region, paused)),
        1 => Just(Event::Split),
    ]
}

/// A reader's session: its token, as a client merges it.
#[derive(Default)]
struct Session(Option<SessionToken>);

impl Session {
    fn remember(&mut self, answer: &Answer) {
        let mut token: SessionToken = answer.header("x-ms-session-token").unwrap().parse().unwrap();
        if let Some(old) = &self.0 {
            token.merge(old);
        }
        self.0 = Some(token);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Whatever is written where, and however late it arrives, all replicas agree in the end, and by then
    /// every region covers the session's token.
    #[test]
    fn replicas_agree_when_everything_has_arrived(events in vec(event(), 1..80)) {
        let fixture = three();
        let mut session = Session::default();
        let mut splits = 0;
        for (n, event) in (1_u64..).zip(&events) {
            match *event {
                Event::Write(region, id) => session.remember(&write(&fixture, NAMES[region], &id.to_string(), n)),
                Event::Delete(region, id) => drop(delete(&fixture, NAMES[region], &id.to_string())),
                Event::Rename(region, id, to) => {
                    drop(rename(&fixture, NAMES[region], &id.to_string(), &to.to_string(), n));
                }
                Event::Read(region, id) => {
                    let Some(token) = session.0.as_ref().map(ToString::to_string) else { continue };
                    let answer = read(&fixture, NAMES[region], &id.to_string(), &[("x-ms-session-token", &token)]);
                    if answer.status == 200 {
                        session.remember(&answer);
                    }
                }
                Event::Wait(millis) => fixture.clock.advance(Duration::from_millis(millis)),
                Event::Delay(region, millis) => {
                    fixture.account.set_replication_delay(&NAMES[region].into(), Duration::from_millis(millis)).unwrap();
                }
                Event::Pause(region, paused) => fixture.account.pause_replication(&NAMES[region].into(), paused).unwrap(),
                Event::Split if splits < 3 => {
                    let ranges = fixture.send(Method::GET, "/dbs/db/colls/c/pkranges", &[], Value::Null).json();
                    let id = ranges["PartitionKeyRanges"][0]["id"].as_str().unwrap().to_owned();
                    fixture.account.split_range("db", "c", &id, Duration::ZERO).unwrap();
                    splits += 1;
                }
                Event::Split => {}
            }
        }
        for region in NAMES {
            fixture.account.pause_replication(&region.into(), false).unwrap();
            fixture.account.set_replication_delay(&region.into(), Duration::ZERO).unwrap();
        }
        fixture.clock.advance(Duration::from_secs(1));
        let query = json!({ "query": "SELECT c.id, c.n, c._etag FROM c ORDER BY c.id" });
        let replicas = NAMES.map(|region| {
            let headers = [A, ("x-ms-documentdb-isquery", "true")];
            fixture.send_in(region, Method::POST, DOCS, &headers, query.clone()).unwrap().rows()
        });
        prop_assert_eq!(&replicas[0], &replicas[1]);
        prop_assert_eq!(&replicas[0], &replicas[2]);
        if let Some(token) = &session.0 {
            let token = token.to_string();
            for region in NAMES {
                let answer = read(&fixture, region, "0", &[("x-ms-session-token", &token)]);
                prop_assert_ne!(answer.sub_status(), 1002, "{} has everything", region);
            }
        }
    }
}
