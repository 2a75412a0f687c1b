//! Grease: what an account makes of its latitudes stays within the contract.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{Emulator, Grease, Latitude};

use crate::common::{Answer, CROSS, Client, DOCS, KEY};

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
        assert_eq!(client.create(item).await.status, 201);
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
        let pages = pages(&client, query, &headers).await;
        assert_eq!(numbers(&pages), (0..ITEMS as u64).collect::<Vec<_>>(), "{query:?}");
        let sizes: BTreeSet<usize> = pages.iter().map(|page| page.rows().len()).collect();
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
