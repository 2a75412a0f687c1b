//! Grease: what an account makes of its latitudes stays within the contract.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{Emulator, Grease, Latitude};

use crate::common::{Answer, CROSS, Client, DOCS, Fixture, KEY};

const ITEMS: usize = 40;
/// Times that something is read: by chance, one of them may come in a single page.
const RUNS: usize = 8;

/// Items of one partition key, `n` from 0 on, in an account with these latitudes.
async fn greased(grease: Grease) -> Client {
    let client = Client::with(Emulator::builder().partitions(3).grease(grease)).await;
    let definition =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    client.create_container(definition).await;
    for n in 0..ITEMS {
        let item = json!({ "id": n.to_string(), "pk": "a", "n": n, "tags": ["x", "y", "z"] });
        // A conflicting write was under way: it was not applied.
        while client.create(item.clone()).await.status == 449 {}
        assert_eq!(client.read(&n.to_string(), "a").await.status, 200);
    }
    client
}

/// The pages of a query or of the feed of items, to the end.
async fn pages(client: &Client, query: Option<&str>, headers: &[(&str, &str)]) -> Vec<Answer> {
    let mut pages: Vec<Answer> = Vec::new();
    for _ in 0..2_000 {
        let token = pages.last().map(|page| page.header("x-ms-continuation").map(str::to_owned));
        let mut headers = headers.to_vec();
        match &token {
            Some(None) => return pages,
            Some(Some(token)) => headers.push(("x-ms-continuation", token)),
            None => {}
        }
        let page = match query {
            Some(text) => client.query(text, &headers).await,
            None => client.get(DOCS, &headers).await,
        };
        assert_eq!(page.status, 200, "{page:?}");
        pages.push(page);
    }
    panic!("the pages do not end");
}

fn numbers(pages: &[Answer]) -> Vec<u64> {
    let numbers = pages.iter().flat_map(Answer::rows).filter_map(|row| row["n"].as_u64());
    numbers.collect()
}

#[tokio::test]
async fn pages_end_anywhere_and_hold_every_item_once() {
    let client = greased(Grease::new(1)).await;
    let key = (KEY, "[\"a\"]");
    let sorted = Some("SELECT * FROM c ORDER BY c.n");
    let filtered = Some("SELECT c.n FROM c WHERE c.n >= 0");
    for (query, headers) in [(None, vec![]), (sorted, vec![key]), (filtered, vec![CROSS])] {
        let mut sizes = BTreeSet::new();
        for _ in 0..RUNS {
            let pages = pages(&client, query, &headers).await;
            assert_eq!(numbers(&pages), (0..ITEMS as u64).collect::<Vec<_>>(), "{query:?}");
            sizes.extend(pages.iter().map(|page| page.rows().len()));
        }
        assert!(sizes.contains(&0) && sizes.len() > 2, "{query:?}: pages of {sizes:?}");
    }
}

#[tokio::test]
async fn aggregates_and_groups_are_those_of_their_page() {
    let client = greased(Grease::new(1)).await;
    let key = (KEY, "[\"a\"]");
    let mut parts = 0;
    for _ in 0..RUNS {
        let counted = pages(&client, Some("SELECT VALUE COUNT(1) FROM c"), &[key]).await;
        let counts = counted.iter().flat_map(Answer::rows);
        let counts: Vec<u64> = counts.map(|row| row.as_u64().unwrap()).collect();
        assert_eq!(counts.iter().sum::<u64>(), ITEMS as u64, "{counts:?}");
        parts += counts.len();
    }
    assert!(parts > RUNS, "{parts}");
    // Three groups of each item: more rows than a page of one row takes.
    let grouped = "SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t";
    let grouped = pages(&client, Some(grouped), &[key, ("x-ms-max-item-count", "1")]).await;
    assert!(grouped.iter().all(|page| page.rows().len() <= 1));
    assert_eq!(numbers(&grouped).into_iter().sum::<u64>(), 3 * ITEMS as u64);
    // A window over the result is that of the whole.
    let window = "SELECT DISTINCT TOP 2 t FROM c JOIN t IN c.tags";
    let window = pages(&client, Some(window), &[key]).await;
    assert_eq!(window.iter().flat_map(Answer::rows).count(), 2);
}

#[tokio::test]
async fn a_change_feed_has_empty_pages_before_its_end() {
    let client = greased(Grease::new(1)).await;
    let mut empty = 0;
    for _ in 0..RUNS {
        let pages = changes(&client).await;
        assert_eq!(numbers(&pages), (0..ITEMS as u64).collect::<Vec<_>>());
        empty += pages.iter().filter(|page| page.rows().is_empty()).count();
    }
    assert!(empty > 0);
}

/// The pages of the change feed, to its end.
async fn changes(client: &Client) -> Vec<Answer> {
    let mut pages: Vec<Answer> = Vec::new();
    for _ in 0..1_000 {
        let mut headers = vec![("a-im", "Incremental Feed"), (KEY, "[\"a\"]")];
        if let Some(page) = pages.last() {
            headers.push(("if-none-match", page.header("etag").unwrap()));
        }
        let page = client.get(DOCS, &headers).await;
        if page.status == 304 {
            return pages;
        }
        pages.push(page);
    }
    panic!("the change feed does not end");
}

#[tokio::test]
async fn a_seed_repeats_its_answers() {
    let answers = async |seed| -> Vec<usize> {
        let client = greased(Grease::new(seed)).await;
        let pages = pages(&client, None, &[]).await;
        pages.iter().map(|page| page.text.len()).collect()
    };
    assert_eq!(answers(7).await.len(), answers(7).await.len());
    assert_eq!(answers(7).await, answers(7).await);
    assert_ne!(answers(7).await, answers(8).await);
}

#[tokio::test]
async fn a_latitude_that_is_left_out_is_not_used() {
    let client = greased(Grease::new(1).only([Latitude::UnknownFields])).await;
    let pages = pages(&client, None, &[]).await;
    assert_eq!((pages.len(), pages[0].rows().len()), (1, ITEMS));
    let missing = client.read("none", "a").await;
    assert!(missing.header("x-ms-content-path").is_some());
    let greased = (0..20).map(|_| client.send(Method::GET, DOCS, &[], Value::Null));
    let mut unknown = 0;
    for answer in greased {
        unknown += usize::from(answer.await.text.contains("greased"));
    }
    assert!((1..20).contains(&unknown), "{unknown} of 20");
}

/// The guide lists the table for people who choose latitudes by name.
#[test]
fn the_guide_describes_every_latitude() {
    let guide = include_str!("../../../../docs/guide-emulator.md");
    for latitude in Latitude::ALL {
        let certainty = format!("{:?}", latitude.certainty()).to_lowercase();
        let row = format!("| `{latitude}` | {} | {certainty} |", latitude.contract());
        assert!(guide.contains(&row), "docs/guide-emulator.md lacks this row:\n{row}");
    }
}

/// An account without a socket that uses one latitude, with an item of one partition key.
fn of_latitude(latitude: Latitude, regions: &[&str]) -> Fixture {
    let fixture = Fixture::new(|options| {
        options.regions = regions.iter().map(|region| (*region).into()).collect();
        options.grease = Some(Grease::new(1).only([latitude]));
    });
    fixture.create_container(json!({}));
    for _ in 0..RUNS {
        if create(&fixture).status == 201 {
            return fixture;
        }
    }
    panic!("the item was not created in {RUNS} tries");
}

fn create(fixture: &Fixture) -> Answer {
    let item = json!({ "id": "1", "pk": "a" });
    fixture.send(Method::POST, DOCS, &[(KEY, "[\"a\"]")], item)
}

fn upsert(fixture: &Fixture) -> Answer {
    let headers = [(KEY, "[\"a\"]"), ("x-ms-documentdb-is-upsert", "true")];
    fixture.send(Method::POST, DOCS, &headers, json!({ "id": "1", "pk": "a" }))
}

fn read(fixture: &Fixture, session: Option<&str>) -> Answer {
    let mut headers = vec![(KEY, "[\"a\"]")];
    headers.extend(session.map(|token| ("x-ms-session-token", token)));
    fixture.send(Method::GET, &format!("{DOCS}/1"), &headers, Value::Null)
}

#[test]
fn a_range_after_a_split_refuses_three_requests_at_most() {
    let fixture = of_latitude(Latitude::PassingSplits, &["West US"]);
    assert!((0..RUNS).all(|_| read(&fixture, None).status == 200), "no range is new");
    fixture.account.split_range("db", "c", "0", std::time::Duration::ZERO).unwrap();
    let answers: Vec<_> = (0..4 * RUNS).map(|_| read(&fixture, None)).collect();
    let refused = answers.iter().filter(|it| (it.status, it.sub_status()) == (410, 1007)).count();
    assert_eq!(refused, 3);
    assert_eq!(answers.iter().filter(|it| it.status == 200).count(), answers.len() - refused);
}

#[test]
fn a_replica_may_be_behind_the_latest_write_of_a_session_once() {
    let fixture = of_latitude(Latitude::StaleReplicas, &["West US"]);
    let mut refused = 0;
    for _ in 0..8 * RUNS {
        let written = upsert(&fixture);
        let token = written.header("x-ms-session-token").unwrap();
        let first = read(&fixture, Some(token));
        refused += usize::from((first.status, first.sub_status()) == (404, 1002));
        if first.status != 200 {
            assert_eq!(read(&fixture, Some(token)).status, 200, "the replica has caught up");
        }
        assert_eq!(read(&fixture, None).status, 200, "a read without a session");
    }
    assert!((1..8 * RUNS / 2).contains(&refused), "{refused}");
}

#[test]
fn a_write_that_conflicts_is_not_applied() {
    let fixture = of_latitude(Latitude::ConflictingWrites, &["West US"]);
    let etag = |answer: &Answer| answer.header("etag").map(str::to_owned);
    let mut refused = 0;
    for _ in 0..20 * RUNS {
        let before = etag(&read(&fixture, None));
        let written = upsert(&fixture);
        match written.status {
            449 => assert_eq!(etag(&read(&fixture, None)), before),
            status => assert_eq!(status, 200),
        }
        refused += usize::from(written.status == 449);
    }
    assert!((1..20 * RUNS / 2).contains(&refused), "{refused}");
}

#[test]
fn etags_of_partition_ranges_belong_to_their_region() {
    let fixture = of_latitude(Latitude::RegionalEtags, &["West US", "East US"]);
    let ranges = |region: &str, etag: &str| {
        let mut headers = vec![("a-im", "Incremental Feed")];
        headers.extend(Some(("if-none-match", etag)).filter(|(_, etag)| !etag.is_empty()));
        let path = "/dbs/db/colls/c/pkranges";
        fixture.send_in(region, Method::GET, path, &headers, Value::Null).unwrap()
    };
    let of = |region: &str| ranges(region, "").header("etag").unwrap().to_owned();
    let (west, east) = (of("West US"), of("East US"));
    fixture.account.split_range("db", "c", "0", std::time::Duration::ZERO).unwrap();
    let number = |answer: Answer| answer.json()["PartitionKeyRanges"].as_array().unwrap().len();
    assert_eq!(number(ranges("West US", &west)), 2, "a cursor of its own");
    assert_eq!(ranges("East US", &west).status, 304, "it is behind, and does not see the split");
    assert_eq!(number(ranges("West US", &east)), 2);
    assert_eq!(number(ranges("East US", &east)), 2);
}

#[test]
fn errors_and_ranges_have_values_that_no_client_knows() {
    let fixture = of_latitude(Latitude::UnknownSubStatuses, &["West US"]);
    let conflicts: BTreeSet<u32> = (0..4 * RUNS).map(|_| create(&fixture).sub_status()).collect();
    assert_eq!(conflicts, BTreeSet::from([0, 29999]));
    let fixture = of_latitude(Latitude::UnknownValues, &["West US"]);
    let status = |_| {
        let path = "/dbs/db/colls/c/pkranges";
        let answer = fixture.send(Method::GET, path, &[], Value::Null);
        answer.json()["PartitionKeyRanges"][0]["status"].as_str().unwrap().to_owned()
    };
    let found: BTreeSet<String> = (0..4 * RUNS).map(status).collect();
    assert_eq!(found, BTreeSet::from(["greased".to_owned(), "online".to_owned()]));
}
