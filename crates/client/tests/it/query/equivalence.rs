//! Cross-partition equivalence: a query of any shape gives over many partitions what it gives over one, also
//! when partitions are split and merged while it runs, and when it is stopped and resumed after every page.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use sidereal::query::Query;
use sidereal_emulator::{AccountOptions, Grease};
use sidereal_query::order::identity;
use sidereal_testing::in_process::NetworkFaults;

use super::Partitioned;
use crate::conformance::seed;

/// Queries whose result has an order, which must be kept.
const ORDERED: &[&str] = &[
    "SELECT * FROM c ORDER BY c.v",
    "SELECT * FROM c ORDER BY c.v DESC",
    "SELECT c.id, c.k FROM c WHERE c.k != 'a' ORDER BY c.k ASC, c.v DESC",
    "SELECT VALUE c.v FROM c ORDER BY c.k DESC, c.id ASC",
    "SELECT TOP 3 VALUE c.id FROM c ORDER BY c.v",
    "SELECT TOP 0 VALUE c.id FROM c ORDER BY c.v",
    "SELECT VALUE c.id FROM c ORDER BY c.v DESC OFFSET 2 LIMIT 7",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.v DESC",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.v OFFSET 1 LIMIT 9",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
    "SELECT DISTINCT c.k, c.v FROM c ORDER BY c.v DESC, c.k ASC",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.v",
    "SELECT DISTINCT TOP 2 VALUE c.v FROM c ORDER BY c.v DESC",
    "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY c.k",
    "SELECT c.k, SUM(c.n) AS s, AVG(c.n) AS a FROM c GROUP BY c.k ORDER BY c.k DESC",
    "SELECT TOP 2 c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY c.k",
    "SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY c.k OFFSET 1 LIMIT 2",
    "SELECT c.k, SUM(c.n) * 2 AS twice, [COUNT(1), MAX(c.n)] AS both FROM c GROUP BY c.k ORDER BY c.k",
    "SELECT TOP 2 c.k, AVG(c.n) + 1 AS a FROM c GROUP BY c.k ORDER BY c.k DESC",
];

/// Queries without an order: the rows must be the same, in any order.
const UNORDERED: &[&str] = &[
    "SELECT * FROM c",
    "SELECT * FROM c WHERE c.pk IN ('p1', 'p4', 'p9')",
    "SELECT VALUE c.v FROM c WHERE IS_NUMBER(c.v)",
    "SELECT VALUE 1",
    "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t != 'x'",
    "SELECT VALUE t.id FROM (SELECT c.id, c.n FROM c WHERE c.n > 1) AS t",
    "SELECT DISTINCT c.k FROM c",
    "SELECT DISTINCT VALUE c.v FROM c",
    "SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE COUNT(c.v) FROM c WHERE c.k = 'a'",
    "SELECT VALUE SUM(c.n) FROM c",
    "SELECT VALUE AVG(c.n) FROM c",
    "SELECT VALUE MIN(c.v) FROM c",
    "SELECT VALUE MAX(c.n) FROM c",
    "SELECT VALUE MAX(c.none) FROM c",
    "SELECT VALUE COUNTIF(c.n > 1) FROM c",
    "SELECT VALUE MAKELIST(c.v) FROM c",
    "SELECT VALUE MAKESET(c.v) FROM c",
    "SELECT COUNT(1) AS n, MIN(c.n) AS low, MAX(c.n) AS high, AVG(c.n) AS mean, SUM(c.n) AS s FROM c",
    "SELECT c.k, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.n) AS a, MIN(c.v) AS l FROM c GROUP BY c.k",
    "SELECT c.k, c.v, MAKESET(c.n) AS ns, COUNTIF(c.n = 1) AS ones FROM c GROUP BY c.k, c.v",
    "SELECT VALUE COUNT(1) FROM c GROUP BY c.k",
    "SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.k",
    "SELECT VALUE LOWER(c.k) FROM c GROUP BY LOWER(c.k)",
    "SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t",
    "SELECT VALUE SUM(c.n) / COUNT(1) FROM c",
    "SELECT VALUE {low: MIN(c.n), spread: MAX(c.n) - MIN(c.n)} FROM c WHERE c.k != 'a'",
    "SELECT COUNT(1) + @more AS more, COUNT(c.v) > 2 ? 'many' : 'few' AS size FROM c",
    "SELECT DISTINCT VALUE COUNT(1) % 2 FROM c GROUP BY c.v",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.v FROM c)",
    "SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.k, c.v FROM c WHERE c.n > 0)",
];

/// Queries that may give any rows of a larger result, but so many of them.
const WINDOWS: &[(&str, &str)] = &[
    ("SELECT TOP 4 VALUE c.id FROM c", "SELECT VALUE c.id FROM c"),
    ("SELECT VALUE c.id FROM c OFFSET 2 LIMIT 13", "SELECT VALUE c.id FROM c"),
    ("SELECT DISTINCT TOP 2 VALUE c.v FROM c", "SELECT DISTINCT VALUE c.v FROM c"),
    ("SELECT TOP 2 c.k FROM c GROUP BY c.k", "SELECT c.k FROM c GROUP BY c.k"),
    ("SELECT c.k FROM c GROUP BY c.k OFFSET 1 LIMIT 1", "SELECT c.k FROM c GROUP BY c.k"),
];

fn scalar() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(Value::Null)),
        1 => any::<bool>().prop_map(|b| Some(json!(b))),
        4 => (-2_i64..4).prop_map(|n| Some(json!(n))),
        1 => Just(Some(json!(0.5))),
        4 => prop::sample::select(vec!["a", "b", "A", ""]).prop_map(|s| Some(json!(s))),
        1 => (0_i64..2).prop_map(|n| Some(json!([n]))),
        1 => (0_i64..2).prop_map(|n| Some(json!({"a": n}))),
    ]
}

fn documents() -> impl Strategy<Value = Vec<Value>> {
    let number = prop_oneof![1 => Just(None), 5 => (0_i64..5).prop_map(|n| Some(json!(n)))];
    let tags = proptest::collection::vec(prop::sample::select(vec!["x", "y", "z"]), 0..4);
    let document = (scalar(), scalar(), number, tags, 0..40_u32);
    proptest::collection::vec(document, 30..50).prop_map(|list| {
        let document = |(at, (v, k, n, tags, pk)): (usize, (_, _, _, Vec<&str>, u32))| {
            let members = [("v", v), ("k", k), ("n", n), ("tags", Some(json!(tags)))];
            let members = members.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let mut document: Value =
                members.map(|(name, value): (&str, Value)| (name.to_owned(), value)).collect();
            document["id"] = json!(format!("{at:03}"));
            document["pk"] = json!(format!("p{pk}"));
            document
        };
        list.into_iter().enumerate().map(document).collect()
    })
}

/// Rows without what an account adds to documents.
fn bare(rows: Vec<Value>) -> Vec<Value> {
    let bare = |mut row: Value| {
        if let Value::Object(members) = &mut row {
            members.retain(|name, _| !name.starts_with('_'));
        }
        row
    };
    rows.into_iter().map(bare).collect()
}

/// Rows as a multiset, lists in no order.
fn bag(rows: &[Value]) -> BTreeMap<Vec<u8>, usize> {
    let mut bag = BTreeMap::new();
    for row in rows {
        *bag.entry(identity(Some(&sorted_lists(row)))).or_default() += 1;
    }
    bag
}

fn sorted_lists(row: &Value) -> Value {
    match row {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted_lists).collect();
            items.sort_by_key(|item| identity(Some(item)));
            Value::Array(items)
        }
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), sorted_lists(value))).collect()
        }
        other => other.clone(),
    }
}

fn query(store: &Partitioned, text: &str) -> Query {
    // Given to all of them: a parameter that a query does not mention does no harm.
    store.items.query(text).with_parameter("more", 10)
}

async fn all(query: &Query) -> Vec<Value> {
    bare(query.items::<Value>().collect().await.unwrap())
}

/// Reads rows, stopping after every page and resuming from its token as text.
async fn in_pieces(query: Query) -> Vec<Value> {
    let (mut rows, mut query) = (Vec::new(), query);
    for _ in 0..500 {
        let Some(page) = query.pages::<Value>().next().await else { return bare(rows) };
        let page = page.unwrap();
        let token = match page.continuation() {
            Ok(token) => token.map(|token| token.to_string()),
            // A shape that cannot be resumed says so; it is read in one go.
            Err(error) => {
                assert!(error.to_string().contains("from the beginning"), "{error}");
                return all(&query).await;
            }
        };
        rows.extend(page.into_items());
        let Some(token) = token else { return bare(rows) };
        query = query.with_continuation(token.parse().unwrap());
    }
    panic!("it never ends");
}

/// Splits and merges while one query runs.
const MAX_DISTURBANCES: usize = 8;

/// Reads rows, with partitions split and merged between pages.
async fn disturbed(store: &Partitioned, query: &Query) -> Vec<Value> {
    let (mut rows, mut pages) = (Vec::new(), query.pages::<Value>());
    let mut round = 0_usize;
    while let Some(page) = pages.next().await {
        rows.extend(page.unwrap().into_items());
        let ranges = store.ranges().await;
        if round >= MAX_DISTURBANCES {
            continue;
        }
        if round.is_multiple_of(2) || ranges.len() == 1 {
            store.split(&ranges[round % ranges.len()]);
        } else {
            let left = round % (ranges.len() - 1);
            store.merge(&ranges[left], &ranges[left + 1]);
        }
        round += 1;
    }
    bare(rows)
}

#[derive(Clone, Copy, Debug)]
enum Manner {
    Whole,
    InPieces,
    Disturbed,
    /// With every latitude of the service's, by a seed.
    Greased(u64),
}

async fn greased(partitions: u32, seed: u64) -> Partitioned {
    let grease = Some(Grease::new(seed));
    let partitions = Some(partitions);
    let options = AccountOptions { partitions, grease, ..AccountOptions::default() };
    Partitioned::with(options, NetworkFaults::NONE).await
}

/// The rows of a query over many partitions.
struct Many {
    documents: Vec<Value>,
    partitions: u32,
    store: Partitioned,
}

impl Many {
    async fn new(documents: &[Value], partitions: u32, manner: Manner) -> Self {
        let store = match manner {
            Manner::Greased(seed) => greased(partitions, seed).await,
            Manner::Whole | Manner::InPieces | Manner::Disturbed => {
                Partitioned::new(partitions).await
            }
        };
        store.insert(documents).await;
        Self { documents: documents.to_vec(), partitions, store }
    }

    async fn rows(&mut self, text: &str, page_size: u32, manner: Manner) -> Vec<Value> {
        let rows = rows(&self.store, text, page_size, manner).await;
        if let Manner::Disturbed = manner {
            // As many partitions for the next query as for this one.
            *self = Self::new(&self.documents, self.partitions, manner).await;
        }
        rows
    }
}

async fn rows(store: &Partitioned, text: &str, page_size: u32, manner: Manner) -> Vec<Value> {
    let query = query(store, text).with_page_size(page_size);
    match manner {
        Manner::Whole | Manner::Greased(_) => all(&query).await,
        Manner::InPieces => in_pieces(query).await,
        Manner::Disturbed => disturbed(store, &query).await,
    }
}

async fn check(documents: Vec<Value>, page_size: u32, partitions: u32, manner: Manner) {
    let one = Partitioned::new(1).await;
    one.insert(&documents).await;
    let mut many = Many::new(&documents, partitions, manner).await;
    for text in ORDERED {
        let expected = all(&query(&one, text)).await;
        let found = many.rows(text, page_size, manner).await;
        assert_eq!(json!(found), json!(expected), "{text} over {partitions}, {manner:?}");
    }
    for text in UNORDERED {
        let expected = all(&query(&one, text)).await;
        let found = many.rows(text, page_size, manner).await;
        assert_eq!(bag(&found), bag(&expected), "{text} over {partitions}, {manner:?}: {found:?}");
    }
    for (text, whole) in WINDOWS {
        let expected = all(&query(&one, text)).await;
        let found = many.rows(text, page_size, manner).await;
        assert_eq!(found.len(), expected.len(), "{text} over {partitions}, {manner:?}");
        let whole = bag(&all(&query(&one, whole)).await);
        for (row, count) in bag(&found) {
            assert!(whole.get(&row).is_some_and(|all| *all >= count), "{text}, {manner:?}");
        }
    }
}

/// The numbers of partitions that results must not depend on.
const PARTITIONS: [u32; 4] = [1, 2, 7, 20];

fn property(manner: Manner) {
    for partitions in PARTITIONS {
        property_over(partitions, manner);
    }
}

/// All queries over generated documents, once: they are many, and the next run has others.
fn property_over(partitions: u32, manner: Manner) {
    let config =
        ProptestConfig { cases: 1, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new(config);
    let inputs = (documents(), 1_u32..6);
    let result = runner.run(&inputs, |(documents, page_size)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check(documents, page_size, partitions, manner));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn a_query_gives_over_many_partitions_what_it_gives_over_one() {
    property(Manner::Whole);
}

#[test]
fn a_query_resumed_after_every_page_gives_the_same_rows() {
    property(Manner::InPieces);
}

#[test]
fn a_query_gives_the_same_rows_while_partitions_are_split_and_merged() {
    property(Manner::Disturbed);
}

/// Every shape, whatever the pages that the service makes of it.
#[test]
fn a_query_gives_the_same_rows_whatever_the_latitude_of_the_service() {
    for partitions in [1, 7] {
        property_over(partitions, Manner::Greased(seed()));
    }
}

/// Aggregates, groups and distinct rows within one partition key were those of the first page.
#[test]
fn a_query_of_one_partition_key_is_merged_from_its_pages() {
    let config =
        ProptestConfig { cases: 1, failure_persistence: None, ..ProptestConfig::default() };
    let result = TestRunner::new(config).run(&documents(), |documents| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(check_within_key(documents));
        Ok(())
    });
    result.unwrap();
}

async fn check_within_key(mut documents: Vec<Value>) {
    for document in &mut documents {
        document["pk"] = json!("p1");
    }
    let (plain, greased) = (Partitioned::new(1).await, greased(3, seed()).await);
    for store in [&plain, &greased] {
        store.insert(&documents).await;
    }
    for text in ORDERED.iter().chain(UNORDERED) {
        let expected = all(&query(&plain, text)).await;
        let found = all(&query(&greased, text).with_partition_key("p1")).await;
        match ORDERED.contains(text) {
            true => assert_eq!(json!(found), json!(expected), "{text}"),
            false => assert_eq!(bag(&found), bag(&expected), "{text}: {found:?}"),
        }
    }
}
