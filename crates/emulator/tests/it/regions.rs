//! Several regions: replication lag, session consistency, failover of the write region, regions offline.

use std::time::Duration;

use crate::common::{Answer, Client, DOCS, Fixture, KEY};
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_emulator::{Emulator, WriteRegionChange};
use sidereal_protocol::{ConsistencyLevel, RegionName};

const WEST: &str = "West US";
const EAST: &str = "East US";
const NORTH: &str = "North Europe";
const A: (&str, &str) = (KEY, "[\"a\"]");
const LAG: Duration = Duration::from_millis(100);

/// West writes, East and North follow a tenth of a second behind.
fn three() -> Fixture {
    of_consistency(ConsistencyLevel::Session)
}

fn of_consistency(consistency: ConsistencyLevel) -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = [WEST, EAST, NORTH].map(RegionName::from).to_vec();
        options.replication_delay = LAG;
        options.consistency = consistency;
        options.max_staleness = 3;
    });
    fixture.create_container(json!({}));
    fixture
}

fn write_in(fixture: &Fixture, region: &str, id: &str) -> Answer {
    let upsert = [A, ("x-ms-documentdb-is-upsert", "true")];
    fixture
        .send_in(region, Method::POST, DOCS, &upsert, json!({ "id": id, "pk": "a" }))
        .expect("the region is online")
}

fn read_in(fixture: &Fixture, region: &str, id: &str, more: &[(&str, &str)]) -> Answer {
    let mut headers = vec![A];
    headers.extend_from_slice(more);
    let path = format!("{DOCS}/{id}");
    fixture
        .send_in(region, Method::GET, &path, &headers, Value::Null)
        .expect("the region is online")
}

fn locations(fixture: &Fixture, list: &str) -> Vec<String> {
    let account = fixture.send(Method::GET, "/", &[], Value::Null).json();
    let names = account[list].as_array().expect("a list").iter();
    names.map(|location| location["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_write_arrives_in_the_other_regions_after_the_delay() {
    let fixture = three();
    assert_eq!(write_in(&fixture, WEST, "1").status, 201);
    assert_eq!(read_in(&fixture, WEST, "1", &[]).status, 200);
    assert_eq!(read_in(&fixture, EAST, "1", &[]).status, 404);
    fixture.clock.advance(LAG);
    assert_eq!(read_in(&fixture, EAST, "1", &[]).status, 200);
    assert_eq!(read_in(&fixture, EAST, "1", &[]).header("lsn"), Some("1"));
}

#[test]
fn a_session_is_not_available_where_its_writes_have_not_arrived() {
    let fixture = three();
    let token = write_in(&fixture, WEST, "1").header("x-ms-session-token").unwrap().to_owned();
    let session = ("x-ms-session-token", token.as_str());
    let early = read_in(&fixture, EAST, "1", &[session]);
    assert_eq!((early.status, early.sub_status()), (404, 1002));
    let eventual = read_in(&fixture, EAST, "1", &[session, ("x-ms-consistency-level", "Eventual")]);
    assert_eq!((eventual.status, eventual.sub_status()), (404, 0));
    fixture.clock.advance(LAG);
    assert_eq!(read_in(&fixture, EAST, "1", &[session]).status, 200);
}

#[test]
fn replication_can_be_paused_and_resumed() {
    let fixture = three();
    fixture.account.pause_replication(&EAST.into(), true).unwrap();
    write_in(&fixture, WEST, "1");
    fixture.clock.advance(LAG * 10);
    assert_eq!([EAST, NORTH].map(|region| read_in(&fixture, region, "1", &[]).status), [404, 200]);
    fixture.account.pause_replication(&EAST.into(), false).unwrap();
    assert_eq!(read_in(&fixture, EAST, "1", &[]).status, 200);
    assert!(
        fixture
            .account
            .pause_replication(&"Mars".into(), true)
            .unwrap_err()
            .to_string()
            .contains("Mars")
    );
}

#[test]
fn only_the_write_region_accepts_writes() {
    let fixture = three();
    let refused = write_in(&fixture, EAST, "1");
    assert_eq!((refused.status, refused.sub_status()), (403, 3));
    let metadata = fixture.send_in(EAST, Method::POST, "/dbs", &[], json!({ "id": "x" })).unwrap();
    assert_eq!((metadata.status, metadata.sub_status()), (403, 3));
    let query = fixture.send_in(
        EAST,
        Method::POST,
        DOCS,
        &[A, ("x-ms-documentdb-isquery", "true")],
        json!({ "query": "SELECT * FROM c" }),
    );
    assert_eq!(query.unwrap().status, 200);
}

#[test]
fn a_graceful_change_announces_switches_and_loses_nothing() {
    let fixture = three();
    write_in(&fixture, WEST, "1");
    let announcement = Duration::from_secs(6);
    let overlap = Duration::from_secs(16);
    let change = WriteRegionChange::Graceful { announcement, overlap };
    assert_eq!(fixture.account.change_write_region(&EAST.into(), change).unwrap(), []);
    assert_eq!(locations(&fixture, "writableLocations"), [EAST, WEST]);
    assert_eq!([WEST, EAST].map(|region| write_in(&fixture, region, "2").status), [201, 403]);

    fixture.account.pause_replication(&EAST.into(), true).unwrap();
    write_in(&fixture, WEST, "3");
    fixture.clock.advance(announcement);
    assert_eq!(locations(&fixture, "writableLocations"), [EAST, WEST]);
    assert_eq!([WEST, EAST].map(|region| write_in(&fixture, region, "4").status), [403, 201]);
    // The new region had everything before it wrote, although replication was paused.
    assert_eq!(["1", "2", "3", "4"].map(|id| read_in(&fixture, EAST, id, &[]).status), [200; 4]);

    fixture.clock.advance(overlap);
    assert_eq!(locations(&fixture, "writableLocations"), [EAST]);
    assert_eq!(locations(&fixture, "readableLocations"), [EAST, WEST, NORTH]);
    assert_eq!(read_in(&fixture, WEST, "4", &[]).status, 200);
}

#[test]
fn what_has_arrived_stays_whatever_replication_does_next() {
    let fixture = three();
    write_in(&fixture, WEST, "1");
    fixture.clock.advance(LAG);
    fixture.account.pause_replication(&EAST.into(), true).unwrap();
    fixture.account.set_replication_delay(&NORTH.into(), LAG * 10).unwrap();
    write_in(&fixture, WEST, "2");
    fixture.clock.advance(LAG);
    for region in [EAST, NORTH] {
        assert_eq!(["1", "2"].map(|id| read_in(&fixture, region, id, &[]).status), [200, 404]);
    }
}

#[test]
fn a_forced_change_lists_the_writes_it_cuts_off() {
    let fixture = three();
    write_in(&fixture, WEST, "kept");
    fixture.clock.advance(LAG);
    // Nobody has looked in the new region, and still "kept" has arrived there.
    let token = write_in(&fixture, WEST, "lost").header("x-ms-session-token").unwrap().to_owned();
    let lost =
        fixture.account.change_write_region(&EAST.into(), WriteRegionChange::Forced).unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (lost[0].container.as_str(), lost[0].items.as_slice()),
        ("c", &["lost".to_owned()][..])
    );
    assert_eq!(
        [WEST, EAST].map(|region| read_in(&fixture, region, "lost", &[]).status),
        [404, 404]
    );
    assert_eq!(
        [WEST, EAST].map(|region| read_in(&fixture, region, "kept", &[]).status),
        [200, 200]
    );
    assert_eq!([WEST, EAST].map(|region| write_in(&fixture, region, "new").status), [403, 201]);
    // A session that saw the lost write is not kept waiting for it.
    assert_eq!(read_in(&fixture, EAST, "kept", &[("x-ms-session-token", &token)]).status, 200);
}

#[test]
fn the_writes_of_one_partition_can_move_alone() {
    let fixture = three();
    fixture.account.move_partition("db", "c", "0", Some(&EAST.into())).unwrap();
    assert_eq!([WEST, EAST].map(|region| write_in(&fixture, region, "1").status), [403, 201]);
    assert_eq!(locations(&fixture, "writableLocations"), [WEST]);
    fixture.account.move_partition("db", "c", "0", None).unwrap();
    assert_eq!([WEST, EAST].map(|region| write_in(&fixture, region, "1").status), [200, 403]);
    assert!(fixture.account.move_partition("db", "c", "9", None).is_err());
    assert!(fixture.account.move_partition("db", "none", "0", None).is_err());
}

#[test]
fn the_global_endpoint_reads_the_account_while_the_write_region_is_down() {
    let fixture = three();
    fixture.account.set_online(&WEST.into(), false).unwrap();
    assert_eq!(locations(&fixture, "readableLocations"), [WEST, EAST, NORTH]);
    let forwarded = fixture.send(Method::GET, &format!("{DOCS}/1"), &[A], Value::Null);
    assert_eq!(
        (forwarded.status, forwarded.json()["code"].as_str()),
        (503, Some("ServiceUnavailable"))
    );
    assert!(fixture.send_in(WEST, Method::GET, "/", &[], Value::Null).is_none());
    fixture.account.change_write_region(&EAST.into(), WriteRegionChange::Forced).unwrap();
    assert_eq!(fixture.send(Method::GET, &format!("{DOCS}/1"), &[A], Value::Null).status, 404);
}

#[test]
fn a_removed_region_says_that_the_account_is_not_there() {
    let fixture = three();
    fixture.account.remove_region(&NORTH.into()).unwrap();
    let gone = read_in(&fixture, NORTH, "1", &[]);
    assert_eq!((gone.status, gone.sub_status()), (403, 1008));
    assert_eq!(locations(&fixture, "readableLocations"), [WEST, EAST]);
    assert!(fixture.account.remove_region(&WEST.into()).is_err());
}

#[test]
fn the_account_tells_clients_what_it_was_told_to_tell_them() {
    let plain = Fixture::new(|_| {}).send(Method::GET, "/", &[], Value::Null).json();
    assert_eq!(plain["enablePerPartitionFailoverBehavior"], false);
    let fixture = Fixture::new(|options| {
        options.partition_failover = true;
        options.hedging_suppressed = true;
        options.thin_client = true;
    });
    let asked = fixture
        .send(Method::GET, "/", &[("x-ms-cosmos-use-thinclient", "true")], Value::Null)
        .json();
    assert_eq!(asked["enablePerPartitionFailoverBehavior"], true);
    assert_eq!(asked["disableCrossRegionalHedging"], true);
    assert!(asked["thinClientReadableLocations"].is_array());
    assert!(
        fixture
            .send(Method::GET, "/", &[], Value::Null)
            .json()
            .get("thinClientReadableLocations")
            .is_none()
    );
    let probe = http::Request::post("/connectivity-probe").body(bytes::Bytes::new()).unwrap();
    assert_eq!(fixture.account.handle(probe).status(), 503);
}

#[test]
fn strong_writes_are_everywhere_when_they_are_acknowledged() {
    let fixture = of_consistency(ConsistencyLevel::Strong);
    write_in(&fixture, WEST, "1");
    assert_eq!([EAST, NORTH].map(|region| read_in(&fixture, region, "1", &[]).status), [200, 200]);
}

#[test]
fn bounded_staleness_keeps_the_other_regions_within_its_bound() {
    let fixture = of_consistency(ConsistencyLevel::BoundedStaleness);
    for id in 0..10 {
        write_in(&fixture, WEST, &id.to_string());
    }
    let here = |id: i32| read_in(&fixture, EAST, &id.to_string(), &[]).status;
    assert_eq!((here(6), here(7)), (200, 404));
}

#[test]
fn the_account_lists_a_port_for_each_region() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::with(Emulator::builder().regions([WEST, EAST])).await;
        let account = client.get("/", &[]).await.json();
        let mut ports: Vec<&str> = account["readableLocations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|location| location["databaseAccountEndpoint"].as_str().unwrap())
            .collect();
        ports.push(client.emulator.http_endpoint());
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 3, "{ports:?}");
    });
}

#[tokio::test]
async fn an_offline_region_refuses_connections_and_comes_back_on_its_port() {
    let emulator = Emulator::builder().regions([WEST, EAST]).start().await.unwrap();
    let east = RegionName::from(EAST);
    let (_, endpoint) = emulator.regions().into_iter().find(|(name, _)| *name == east).unwrap();
    let address = endpoint.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let connects = || tokio::net::TcpStream::connect(address.clone());
    assert!(connects().await.is_ok());
    emulator.take_offline(&east).unwrap();
    assert!(connects().await.is_err(), "the port is closed when the call returns");
    emulator.bring_online(&east).await.unwrap();
    assert!(connects().await.is_ok());
    for _ in 0..50 {
        emulator.take_offline(&east).unwrap();
        emulator.bring_online(&east).await.expect("the port is free again at once");
    }
    assert!(connects().await.is_ok());
    assert!(emulator.take_offline(&"Mars".into()).is_err());
}

#[tokio::test]
async fn regions_are_named_once() {
    let twice = Emulator::builder().regions([WEST, "westus"]).start().await.unwrap_err();
    assert!(twice.to_string().contains("named twice"), "{twice}");
    assert!(Emulator::builder().regions::<&str>([]).start().await.is_err());
}

/// An event of the account while clients write and read.
#[derive(Clone, Debug)]
enum Event {
    Write(u8),
    Delete(u8),
    Wait(u64),
    Delay(usize, u64),
    Pause(usize, bool),
    Online(usize, bool),
    HandOver(usize),
    ForceWriteRegion(usize),
    MovePartition(Option<usize>),
    Read(usize, u8),
}

fn event() -> impl Strategy<Value = Event> {
    let region = 0..3_usize;
    prop_oneof![
        6 => (0..6_u8).prop_map(Event::Write),
        2 => (0..6_u8).prop_map(Event::Delete),
        3 => (0..400_u64).prop_map(Event::Wait),
        1 => (region.clone(), 0..300_u64).prop_map(|(region, delay)| Event::Delay(region, delay)),
        1 => (region.clone(), any::<bool>()).prop_map(|(region, paused)| Event::Pause(region, paused)),
        1 => (region.clone(), any::<bool>()).prop_map(|(region, online)| Event::Online(region, online)),
        1 => region.clone().prop_map(Event::HandOver),
        1 => region.clone().prop_map(Event::ForceWriteRegion),
        1 => proptest::option::of(region.clone()).prop_map(Event::MovePartition),
        4 => (region, 0..6_u8).prop_map(|(region, id)| Event::Read(region, id)),
    ]
}

const NAMES: [&str; 3] = [WEST, EAST, NORTH];

/// A client that writes wherever writes are accepted, and remembers what was acknowledged.
struct Writer {
    fixture: Fixture,
    /// The acknowledged state: id to the number of the write, or none if it was deleted.
    acknowledged: std::collections::BTreeMap<String, Option<u64>>,
    lost: Vec<String>,
    writes: u64,
    token: Option<String>,
    /// The newest write of each id that the session has seen.
    seen: std::collections::BTreeMap<String, u64>,
}

impl Writer {
    fn new() -> Self {
        let fixture = three();
        Self {
            fixture,
            acknowledged: Default::default(),
            lost: Vec::new(),
            writes: 0,
            token: None,
            seen: Default::default(),
        }
    }

    fn happen(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let account = &self.fixture.account;
        let name = |region: usize| RegionName::from(NAMES[region]);
        match *event {
            Event::Write(id) => self.write(id),
            Event::Delete(id) => self.delete(id),
            Event::Wait(millis) => self.fixture.clock.advance(Duration::from_millis(millis)),
            Event::Delay(region, millis) => {
                account
                    .set_replication_delay(&name(region), Duration::from_millis(millis))
                    .unwrap();
            }
            Event::Pause(region, paused) => {
                account.pause_replication(&name(region), paused).unwrap();
            }
            Event::Online(region, online) => account.set_online(&name(region), online).unwrap(),
            Event::HandOver(region) => {
                let part = Duration::from_millis(50);
                let change = WriteRegionChange::Graceful { announcement: part, overlap: part };
                account.change_write_region(&name(region), change).unwrap();
            }
            Event::ForceWriteRegion(region) => {
                let lost =
                    account.change_write_region(&name(region), WriteRegionChange::Forced).unwrap();
                self.lost.extend(lost.into_iter().flat_map(|write| write.items));
                // A history that was cut off is a new session for its readers.
                self.token = None;
                self.seen.clear();
            }
            Event::MovePartition(region) => {
                account.move_partition("db", "c", "0", region.map(name).as_ref()).unwrap();
            }
            Event::Read(region, id) => return self.read(region, id),
        }
        Ok(())
    }

    fn write(&mut self, id: u8) {
        self.writes += 1;
        let body = json!({ "id": id.to_string(), "pk": "a", "n": self.writes });
        let upsert = [A, ("x-ms-documentdb-is-upsert", "true")];
        let accepted = NAMES.iter().find_map(|region| {
            let answer = self.fixture.send_in(region, Method::POST, DOCS, &upsert, body.clone())?;
            (answer.status < 300).then_some(answer)
        });
        // The region that accepts writes may be offline.
        let Some(answer) = accepted else { return };
        self.acknowledged.insert(id.to_string(), Some(self.writes));
        // What was lost before does not excuse what is acknowledged now.
        self.lost.retain(|lost| *lost != id.to_string());
        self.seen.insert(id.to_string(), self.writes);
        self.remember(&answer);
    }

    fn delete(&mut self, id: u8) {
        let path = format!("{DOCS}/{id}");
        for region in NAMES {
            let answer = self.fixture.send_in(region, Method::DELETE, &path, &[A], Value::Null);
            if let Some(answer) = answer.filter(|answer| answer.status == 204) {
                self.acknowledged.insert(id.to_string(), None);
                self.lost.retain(|lost| *lost != id.to_string());
                self.seen.remove(&id.to_string());
                // The session has seen the delete: a region that has not may not show it the item again.
                self.remember(&answer);
            }
        }
    }

    fn read(&mut self, region: usize, id: u8) -> Result<(), TestCaseError> {
        let Some(token) = self.token.clone() else { return Ok(()) };
        let headers = [A, ("x-ms-session-token", token.as_str())];
        let path = format!("{DOCS}/{id}");
        let answer = self.fixture.send_in(NAMES[region], Method::GET, &path, &headers, Value::Null);
        let Some(answer) = answer else { return Ok(()) };
        if answer.status == 200 {
            let n = answer.json()["n"].as_u64().expect("a number");
            let seen = self.seen.entry(id.to_string()).or_default();
            prop_assert!(n >= *seen, "{} was read after {}", n, seen);
            *seen = n;
            self.remember(&answer);
        } else if answer.sub_status() != 1002 {
            prop_assert!(!self.seen.contains_key(&id.to_string()), "{} has gone", id);
        }
        Ok(())
    }

    /// Merges the answer's progress into the session, as a client does.
    fn remember(&mut self, answer: &Answer) {
        let new = answer.header("x-ms-session-token").expect("a token");
        let mut token: sidereal_protocol::SessionToken = new.parse().expect("a token");
        if let Some(old) = &self.token {
            token.merge(&old.parse().expect("a token"));
        }
        self.token = Some(token.to_string());
    }

    /// Heals everything, waits, and gives what each region has.
    fn settle(&self) -> Vec<Vec<Value>> {
        for region in NAMES {
            self.fixture.account.set_online(&region.into(), true).unwrap();
            self.fixture.account.pause_replication(&region.into(), false).unwrap();
            self.fixture.account.set_replication_delay(&region.into(), Duration::ZERO).unwrap();
        }
        self.fixture.clock.advance(Duration::from_secs(10));
        let query = json!({ "query": "SELECT c.id, c.n, c._etag FROM c ORDER BY c.id" });
        let rows = |region: &&str| {
            let headers = [A, ("x-ms-documentdb-isquery", "true")];
            self.fixture
                .send_in(region, Method::POST, DOCS, &headers, query.clone())
                .expect("the region is online")
                .rows()
        };
        NAMES.iter().map(rows).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// No order of delays, pauses, outages and changes of the write region leaves replicas apart, loses an
    /// acknowledged write that was not listed, or shows a session older data than it has seen.
    #[test]
    fn replicas_converge_and_sessions_never_go_back(events in vec(event(), 1..80)) {
        let mut writer = Writer::new();
        for event in &events {
            writer.happen(event)?;
        }
        let replicas = writer.settle();
        prop_assert_eq!(&replicas[0], &replicas[1]);
        prop_assert_eq!(&replicas[0], &replicas[2]);
        for (id, n) in &writer.acknowledged {
            if writer.lost.contains(id) {
                continue;
            }
            let found = replicas[0].iter().find(|row| row["id"] == id.as_str()).map(|row| row["n"].as_u64());
            prop_assert_eq!(found.flatten(), *n, "{}", id);
        }
    }
}

/// A region that was behind the continuation answered with an older one, from which changes came a second time.
#[test]
fn a_change_feed_does_not_go_back_in_a_region_that_is_behind() {
    let fixture = three();
    for n in 0..5 {
        write_in(&fixture, WEST, &n.to_string());
    }
    let changes = |region: &str, after: Option<&str>| {
        let mut headers = vec![A, ("a-im", "Incremental Feed")];
        headers.extend(after.map(|etag| ("if-none-match", etag)));
        fixture.send_in(region, Method::GET, DOCS, &headers, Value::Null).unwrap()
    };
    let first = changes(WEST, None);
    assert_eq!(first.rows().len(), 5);
    let behind = changes(EAST, first.header("etag"));
    assert_eq!((behind.status, behind.header("etag")), (304, first.header("etag")));
    fixture.clock.advance(LAG);
    let rest = changes(EAST, behind.header("etag"));
    assert_eq!((rest.status, rest.text.len()), (304, 0));
}
