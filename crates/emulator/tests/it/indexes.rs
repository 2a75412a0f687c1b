//! Indexed queries give what scans give: rows and order, over pages, splits and writes in between.
//!
//! The same items and queries go to a container that indexes everything, or all but some paths, and to one that
//! indexes nothing beyond what ORDER BY needs, and scans. Only what an index may change, the charge, is different.

use std::time::Duration;

use crate::common::{Answer, CROSS, DOCS, Fixture, key_of};
use base64::Engine as _;
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

const SIZE: &str = "x-ms-max-item-count";
const TOKEN: &str = "x-ms-continuation";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

/// Enough items that indexes are worth their memory.
const ITEMS: usize = 300;

/// An account with a container of one partition.
fn fixture(policy: &Value) -> Fixture {
    let fixture = Fixture::new(|options| options.partitions = Some(1));
    fixture.create_container(json!({ "indexingPolicy": policy }));
    fixture
}

fn everything() -> Value {
    everything_but(&[])
}

fn everything_but(excluded: &[&str]) -> Value {
    let excluded: Vec<Value> = excluded.iter().map(|path| json!({ "path": path })).collect();
    json!({
        "includedPaths": [{ "path": "/*" }],
        "excludedPaths": excluded,
        "compositeIndexes": [[{ "path": "/a" }, { "path": "/b", "order": "descending" }]],
    })
}

/// Nothing is indexed but what ORDER BY needs to be served at all.
fn orders_alone() -> Value {
    json!({
        "includedPaths": [{ "path": "/a/?" }, { "path": "/b/?" }],
        "excludedPaths": [{ "path": "/*" }],
        "compositeIndexes": [[{ "path": "/a" }, { "path": "/b", "order": "descending" }]],
    })
}

fn query(fixture: &Fixture, text: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("x-ms-documentdb-isquery", "True")];
    all.extend_from_slice(headers);
    let answer = fixture.send(Method::POST, DOCS, &all, json!({ "query": text, "parameters": [] }));
    assert_eq!(answer.status, 200, "{text}: {}", answer.text);
    answer
}

/// Every row of every range, in pages of some size. System properties differ between two accounts.
fn all_rows(fixture: &Fixture, text: &str, size: &str) -> Vec<Value> {
    let ranges = fixture.send(Method::GET, "/dbs/db/colls/c/pkranges", &[], Value::Null).json();
    let ranges = ranges["PartitionKeyRanges"].as_array().unwrap().clone();
    let mut rows = Vec::new();
    for range in &ranges {
        let mut token: Option<String> = None;
        loop {
            let mut headers = vec![(RANGE, range["id"].as_str().unwrap()), (SIZE, size)];
            headers.extend(token.as_deref().map(|token| (TOKEN, token)));
            let page = query(fixture, text, &headers);
            rows.extend(page.rows());
            match page.header(TOKEN) {
                Some(next) => token = Some(next.to_owned()),
                None => break,
            }
        }
    }
    rows
}

fn upsert(fixture: &Fixture, item: &Value) {
    let key = key_of(item);
    let headers =
        [("x-ms-documentdb-partitionkey", key.as_str()), ("x-ms-documentdb-is-upsert", "True")];
    let answer = fixture.send(Method::POST, DOCS, &headers, item.clone());
    assert!(answer.status < 300, "{}", answer.text);
}

fn delete(fixture: &Fixture, item: &Value) {
    let key = key_of(item);
    let path = format!("{DOCS}/{}", item["id"].as_str().unwrap());
    let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
    fixture.send(Method::DELETE, &path, &headers, Value::Null);
}

/// Values of every type, few enough that many items share one.
fn value() -> BoxedStrategy<Option<Value>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Value::Null)),
        1 => any::<bool>().prop_map(|value| Some(json!(value))),
        6 => (-9..40_i32).prop_map(|value| Some(json!(value))),
        1 => (-3..3_i32).prop_map(|value| Some(json!(f64::from(value) / 4.0))),
        4 => "[ab]{0,3}".prop_map(|value| Some(json!(value))),
        2 => vec(0..5_u8, 0..4).prop_map(|value| Some(json!(value))),
        1 => (0..3_u8).prop_map(|value| Some(json!({ "x": value }))),
        1 => Just(Some(json!("long".repeat(300)))),
    ]
    .boxed()
}

fn item() -> BoxedStrategy<Value> {
    (0..ITEMS, 0..20_u8, value(), value(), value())
        .prop_map(|(id, pk, a, b, c)| {
            let mut item = json!({ "id": id.to_string(), "pk": format!("p{pk}") });
            for (name, value) in [("a", a), ("b", b), ("c", c)] {
                if let Some(value) = value {
                    item[name] = value;
                }
            }
            item
        })
        .boxed()
}

fn constant() -> BoxedStrategy<String> {
    prop_oneof![
        4 => (-9..40_i32).prop_map(|n| n.to_string()),
        3 => "[ab]{0,2}".prop_map(|text| format!("'{text}'")),
        1 => Just("null".to_owned()),
        1 => Just("true".to_owned()),
        1 => Just("0.25".to_owned()),
    ]
    .boxed()
}

/// A condition on one path.
fn atom() -> BoxedStrategy<String> {
    let path = || select(&["c.a", "c.b", "c.c", "c.a.x", "c.id", "c.pk"][..]);
    prop_oneof![
        6 => (path(), select(&["=", "<", "<=", ">", ">=", "!="][..]), constant())
            .prop_map(|(path, op, value)| format!("{path} {op} {value}")),
        2 => (path(), vec(constant(), 1..12))
            .prop_map(|(path, values)| format!("{path} IN ({})", values.join(", "))),
        1 => (path(), constant(), constant())
            .prop_map(|(path, low, high)| format!("{path} BETWEEN {low} AND {high}")),
        1 => (path(), "[ab]{0,2}").prop_map(|(path, text)| format!("STARTSWITH({path}, '{text}')")),
        1 => path().prop_map(|path| format!("IS_DEFINED({path})")),
        1 => path().prop_map(|path| format!("NOT IS_DEFINED({path})")),
        1 => (path(), 0..5_u8).prop_map(|(path, n)| format!("ARRAY_CONTAINS({path}, {n})")),
        1 => (0..ITEMS).prop_map(|id| format!("c.id = '{id}'")),
        1 => (0..20_u8).prop_map(|pk| format!("c.pk = 'p{pk}'")),
    ]
    .boxed()
}

fn filter() -> BoxedStrategy<String> {
    let joined = |word: &'static str| {
        vec(atom(), 1..4).prop_map(move |terms| format!("({})", terms.join(word)))
    };
    prop_oneof![
        3 => atom(),
        2 => joined(" AND "),
        2 => joined(" OR "),
        2 => (joined(" OR "), atom()).prop_map(|(any, one)| format!("{any} AND {one}")),
        1 => (joined(" AND "), joined(" AND ")).prop_map(|(one, other)| format!("{one} OR {other}")),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    let tails = [
        "",
        "",
        " ORDER BY c.a",
        " ORDER BY c.a DESC",
        " ORDER BY c.a ASC, c.b DESC",
        " ORDER BY c.a DESC, c.b ASC",
        " ORDER BY c.b OFFSET 3 LIMIT 20",
    ];
    let heads = [
        "SELECT c.id, c.a, c.b FROM c",
        "SELECT VALUE c.id FROM c",
        "SELECT TOP 30 VALUE c.id FROM c",
        "SELECT c.id, x FROM c JOIN x IN c.c",
    ];
    let distinct = filter().prop_map(|it| format!("SELECT DISTINCT VALUE c.b FROM c WHERE {it}"));
    let count = filter().prop_map(|it| format!("SELECT VALUE COUNT(1) FROM c WHERE {it}"));
    let plain = (select(heads.to_vec()), filter(), select(tails.to_vec()))
        .prop_filter("TOP and OFFSET exclude each other", |(head, _, tail)| {
            !(head.contains("TOP") && tail.contains("OFFSET"))
        })
        .prop_map(|(head, filter, tail)| format!("{head} WHERE {filter}{tail}"));
    prop_oneof![8 => plain, 1 => distinct, 1 => count].boxed()
}

#[derive(Clone, Debug)]
enum Step {
    Query(String, u8),
    Upsert(Value),
    Delete(Value),
    Split,
}

fn step() -> BoxedStrategy<Step> {
    prop_oneof![
        8 => (text(), 1..60_u8).prop_map(|(text, size)| Step::Query(text, size)),
        6 => item().prop_map(Step::Upsert),
        3 => item().prop_map(Step::Delete),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn an_index_changes_neither_rows_nor_their_order(
        excluded in subsequence(vec!["/c/*", "/c/[]/?", "/id/?", "/pk/?", "/a/x/?", "/a/[]/?"], 0..4),
        items in vec(item(), ITEMS),
        before in vec(step(), 20..40),
        split in any::<bool>(),
        after in vec(step(), 10..20),
    ) {
        let (indexed, scanned) = (fixture(&everything_but(&excluded)), fixture(&orders_alone()));
        let both = [&indexed, &scanned];
        for (n, item) in items.iter().enumerate() {
            // Every id once, so that indexes are worth it; what the ids say repeats.
            let mut item = item.clone();
            item["id"] = json!(n.to_string());
            both.iter().for_each(|fixture| upsert(fixture, &item));
        }
        let split = split.then_some(Step::Split);
        for step in before.into_iter().chain(split).chain(after) {
            match step {
                Step::Query(text, size) => {
                    let size = size.to_string();
                    let rows = both.map(|fixture| all_rows(fixture, &text, &size));
                    prop_assert_eq!(&rows[0], &rows[1], "{}, {} a page", text, size);
                }
                Step::Upsert(item) => both.iter().for_each(|fixture| upsert(fixture, &item)),
                Step::Delete(item) => both.iter().for_each(|fixture| delete(fixture, &item)),
                Step::Split => {
                    for fixture in both {
                        let split = fixture.account.split_range("db", "c", "0", Duration::ZERO);
                        split.unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn a_query_by_id_costs_a_lookup_and_not_a_scan() {
    let (indexed, scanned) = (fixture(&everything()), fixture(&orders_alone()));
    for n in 0..1000 {
        let item = json!({ "id": n.to_string(), "pk": "p", "text": "x".repeat(500) });
        [&indexed, &scanned].iter().for_each(|fixture| upsert(fixture, &item));
    }
    let text = "SELECT * FROM c WHERE c.id = '500'";
    let charge = |fixture| query(fixture, text, &[CROSS]).charge();
    assert!((2.8..3.2).contains(&charge(&indexed)), "{}", charge(&indexed));
    assert!(charge(&scanned) > 20.0, "{}", charge(&scanned));
    // The same query on the same items costs the same, whether or not it built the index.
    assert_eq!(charge(&indexed), charge(&indexed));
}

/// A queue beside many other items: once more than 200 waited, a query for the oldest walked through all items.
#[test]
fn a_sorted_query_for_some_hundred_of_many_items_does_not_read_the_others() {
    let fixture = fixture(&everything());
    for n in 0..1_500 {
        let kind = if n < 1_200 { "other" } else { "message" };
        upsert(&fixture, &json!({ "id": n.to_string(), "pk": "p", "a": kind, "c": n }));
    }
    let charge = |text: &str, size| query(&fixture, text, &[(RANGE, "0"), (SIZE, size)]).charge();
    let messages = "SELECT VALUE c.c FROM c WHERE c.a = 'message' ORDER BY c.c";
    let (oldest, all) = (charge(messages, "1"), charge("SELECT VALUE c.c FROM c", "2000"));
    assert!(oldest < all / 2.0, "{oldest} RU for the oldest of 300, {all} RU for all 1500");
    let expected: Vec<Value> = (1_200..1_500).map(|n| json!(n)).collect();
    assert_eq!(all_rows(&fixture, messages, "70"), expected);
}

#[test]
fn index_metrics_tell_what_was_used_and_what_would_help() {
    let scanned = fixture(&orders_alone());
    let metrics = |text: &str| -> Value {
        let answer =
            query(&scanned, text, &[(RANGE, "0"), ("x-ms-cosmos-populateindexmetrics", "True")]);
        let encoded = answer.header("x-ms-cosmos-index-utilization").unwrap();
        let json = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        serde_json::from_slice(&json).unwrap()
    };
    let specs = |list: &Value| -> Vec<String> {
        let entries = list.as_array().unwrap().iter();
        entries.map(|entry| entry["IndexSpec"].as_str().unwrap().to_owned()).collect()
    };
    let found =
        metrics("SELECT * FROM c WHERE c.a = 1 AND ARRAY_CONTAINS(c.tags, 'x') ORDER BY c.b");
    assert_eq!(specs(&found["UtilizedSingleIndexes"]), ["/a/?", "/b/?"]);
    assert_eq!(specs(&found["PotentialSingleIndexes"]), ["/tags/[]/?"]);
    let found = metrics("SELECT * FROM c ORDER BY c.a, c.b DESC");
    let specs = &found["UtilizedCompositeIndexes"][0]["IndexSpecs"];
    assert_eq!(*specs, json!(["/a ASC", "/b DESC"]));
    assert_eq!(found["PotentialCompositeIndexes"], json!([]));
    let silent = query(&scanned, "SELECT * FROM c", &[CROSS]);
    assert_eq!(silent.header("x-ms-cosmos-index-utilization"), None);
}

/// The JavaScript SDK's request was answered in the form of the other SDKs, which it cannot read.
#[test]
fn the_second_form_of_index_metrics_is_percent_encoded() {
    let scanned = fixture(&orders_alone());
    let text = "SELECT * FROM c WHERE c.a = 1 AND ARRAY_CONTAINS(c.tags, 'x')";
    let headers = [(RANGE, "0"), ("x-ms-cosmos-populateindexmetrics-V2", "True")];
    let answer = query(&scanned, text, &headers);
    let encoded = answer.header("x-ms-cosmos-index-utilization").unwrap();
    let json = percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap();
    let metrics: Value = serde_json::from_str(&json).unwrap();
    let utilized = json!({"SingleIndexes": [{"IndexSpec": "/a/?"}], "CompositeIndexes": []});
    assert_eq!(metrics["Utilized"], utilized);
    let potential = json!([{"IndexSpec": "/tags/[]/?", "IndexImpactScore": "High"}]);
    assert_eq!(metrics["Potential"]["SingleIndexes"], potential);
}

/// Pages of an order resume at a value: what is written between two pages neither repeats nor skips a row.
#[test]
fn writes_between_two_pages_of_an_order_move_nothing_else() {
    let fixture = fixture(&everything());
    for n in 0..400 {
        upsert(&fixture, &json!({ "id": n.to_string(), "pk": "p", "a": n }));
    }
    let text = "SELECT VALUE c.a FROM c ORDER BY c.a";
    let (mut rows, mut token): (Vec<Value>, Option<String>) = (Vec::new(), None);
    for page in 0.. {
        let mut headers = vec![(RANGE, "0"), (SIZE, "50")];
        headers.extend(token.as_deref().map(|token| (TOKEN, token)));
        let answer = query(&fixture, text, &headers);
        rows.extend(answer.rows());
        token = answer.header(TOKEN).map(str::to_owned);
        if token.is_none() {
            break;
        }
        // Behind the page, and ahead of it.
        upsert(&fixture, &json!({ "id": format!("new-{page}"), "pk": "p", "a": -1 - page }));
        delete(&fixture, &json!({ "id": page.to_string(), "pk": "p" }));
    }
    assert_eq!(rows, (0..400).map(|n| json!(n)).collect::<Vec<_>>());
}

/// A scan takes its items in chunks and holds no lock in between: what is not written meanwhile is seen exactly
/// once, whatever is written beside it and whichever request builds the index.
#[test]
fn queries_beside_writes_see_what_is_not_written_exactly_once() {
    let fixture = fixture(&everything());
    for n in 0..600 {
        upsert(&fixture, &json!({ "id": n.to_string(), "pk": "p", "a": n, "b": n % 7 }));
    }
    let queries = [
        "SELECT VALUE c.a FROM c WHERE c.a >= 300 AND c.b >= 0 ORDER BY c.a",
        "SELECT VALUE c.a FROM c WHERE c.a >= 300",
        "SELECT VALUE c.a FROM c WHERE c.a >= 300 AND c.a < 900 ORDER BY c.a, c.b DESC",
        "SELECT DISTINCT VALUE c.a FROM c WHERE c.a >= 300",
    ];
    let expected: Vec<Value> = (300..600).map(|n| json!(n)).collect();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..10 {
                for n in 0..300 {
                    let item =
                        json!({ "id": n.to_string(), "pk": "p", "a": -(n + round), "b": round });
                    match (n + round) % 3 {
                        0 => delete(&fixture, &item),
                        _ => upsert(&fixture, &item),
                    }
                }
            }
        });
        loop {
            for text in queries {
                let mut rows = all_rows(&fixture, text, "70");
                rows.sort_by_key(Value::as_i64);
                assert_eq!(rows, expected, "{text}");
            }
            if writer.is_finished() {
                break;
            }
        }
    });
}
