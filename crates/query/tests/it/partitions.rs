//! The law of merging: splitting the documents over partitions, asking each partition the plan's
//! query and merging the answers gives what one partition holding everything gives.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_protocol::{PartitionKeyDefinition, QueryInfo, Rid};
use sidereal_query::merge::{Merge, Next};
use sidereal_query::order::identity;
use sidereal_query::{Context, Features, Parameters, Program, Query, parse, plan};

const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

fn context() -> Context {
    Context::new(0, 0)
}

fn run(query: &Query, documents: &[Value]) -> Vec<Value> {
    Program::new(query, &Parameters::new()).unwrap().run(documents, &context()).unwrap()
}

fn info(query: &Query) -> QueryInfo {
    let definition = PartitionKeyDefinition::new(["/pk"]).unwrap();
    let plan = plan(query, &Parameters::new(), &definition, Features::ALL);
    let mut info = plan.unwrap_or_else(|error| panic!("{query}: {error}")).query_info.unwrap();
    if info.rewritten_query.is_empty() {
        info.rewritten_query = query.to_string();
    }
    info
}

/// The answer of each partition to the plan's query.
fn answers(info: &QueryInfo, partitions: &[Vec<Value>]) -> Vec<Vec<Value>> {
    let text = info.rewritten_query.replace(FILTER, "true");
    let query = parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    partitions.iter().map(|documents| run(&query, documents)).collect()
}

/// Gives the merge what it asks for, in pages of `size`, until it is done.
struct Feeder {
    pages: Vec<Vec<Vec<Value>>>,
    next: Vec<usize>,
}

impl Feeder {
    fn new(answers: &[Vec<Value>], size: usize) -> Self {
        let pages = |rows: &Vec<Value>| rows.chunks(size).map(<[Value]>::to_vec).collect();
        Self { pages: answers.iter().map(pages).collect(), next: vec![0; answers.len()] }
    }

    fn feed(&mut self, merge: &mut Merge, range: usize) {
        let page = self.pages[range].get(self.next[range]).cloned().unwrap_or_default();
        self.next[range] += 1;
        merge.feed(range, page, self.next[range] >= self.pages[range].len()).unwrap();
    }

    fn next(&mut self, merge: &mut Merge) -> Option<Value> {
        loop {
            match merge.next().unwrap() {
                Next::Item(item) => return Some(item),
                Next::NeedPage(range) => self.feed(merge, range),
                Next::Done => return None,
            }
        }
    }
}

fn merged(info: &QueryInfo, answers: &[Vec<Value>], page: usize) -> Vec<Value> {
    let mut merge = Merge::new(info, answers.len());
    let mut feeder = Feeder::new(answers, page);
    std::iter::from_fn(|| feeder.next(&mut merge)).collect()
}

/// Rows as a multiset, for queries without an order.
fn bag(rows: &[Value]) -> HashMap<Vec<u8>, usize> {
    let mut bag = HashMap::new();
    for row in rows {
        *bag.entry(identity(Some(&sorted_lists(row)))).or_default() += 1;
    }
    bag
}

/// MAKELIST and MAKESET promise no order.
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

/// Queries whose result has an order, which merging must keep.
const ORDERED: &[&str] = &[
    "SELECT * FROM c ORDER BY c.v",
    "SELECT * FROM c ORDER BY c.v DESC",
    "SELECT c.id, c.k FROM c WHERE c.k != 'a' ORDER BY c.k ASC, c.v DESC",
    "SELECT VALUE c.v FROM c ORDER BY c.k DESC, c.id ASC",
    "SELECT TOP 3 VALUE c.id FROM c ORDER BY c.v",
    "SELECT TOP 0 VALUE c.id FROM c ORDER BY c.v",
    "SELECT VALUE c.id FROM c ORDER BY c.v DESC OFFSET 2 LIMIT 3",
    "SELECT VALUE {id: c.id, t: t} FROM c JOIN t IN c.tags ORDER BY t",
    "SELECT c.id, t FROM c JOIN t IN c.tags ORDER BY c.v DESC OFFSET 1 LIMIT 4",
    "SELECT VALUE t FROM t IN c.tags ORDER BY t DESC",
    "SELECT * FROM c.tags ORDER BY tags[0] DESC",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
    "SELECT DISTINCT c.k, c.v FROM c ORDER BY c.v DESC, c.k ASC",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.v",
    "SELECT DISTINCT TOP 2 VALUE c.v FROM c ORDER BY c.v DESC",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.v OFFSET 1 LIMIT 2",
    "SELECT VALUE c.id FROM c ORDER BY LENGTH(c.k), c.id",
    "SELECT VALUE COUNT(c.v) FROM c ORDER BY c.v",
    "SELECT COUNT(1) AS n, MAX(c.n) AS high FROM c ORDER BY c.k, c.v DESC",
    "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY c.k",
    "SELECT c.k, SUM(c.n) AS s, AVG(c.n) AS a FROM c GROUP BY c.k ORDER BY c.k DESC",
    "SELECT c.v, c.k FROM c GROUP BY c.k, c.v ORDER BY c.v DESC, c.k",
    "SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY COUNT(1) DESC",
    "SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY MAX(c.n), c.k DESC",
    "SELECT TOP 2 c.k FROM c GROUP BY c.k ORDER BY AVG(c.n) DESC",
    "SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY c.k OFFSET 1 LIMIT 2",
    "SELECT DISTINCT VALUE COUNT(1) FROM c GROUP BY c.k ORDER BY COUNT(1)",
];

/// Queries without an order: the rows must be the same, in any order.
const UNORDERED: &[&str] = &[
    "SELECT * FROM c",
    "SELECT VALUE c.v FROM c WHERE IS_NUMBER(c.v)",
    "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t != 'x'",
    "SELECT VALUE t.id FROM (SELECT c.id, c.v FROM c WHERE c.v > 1) AS t",
    "SELECT DISTINCT c.k FROM c",
    "SELECT DISTINCT VALUE c.v FROM c",
    "SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags",
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE COUNT(c.v) FROM c WHERE c.k = 'a'",
    "SELECT VALUE SUM(c.n) FROM c",
    "SELECT VALUE SUM(c.v) FROM c",
    "SELECT VALUE AVG(c.n) FROM c",
    "SELECT VALUE AVG(c.v) FROM c",
    "SELECT VALUE MIN(c.v) FROM c",
    "SELECT VALUE MAX(c.v) FROM c",
    "SELECT VALUE MIN(c.n) FROM c",
    "SELECT VALUE MAX(c.none) FROM c",
    "SELECT VALUE COUNTIF(c.v > 1) FROM c",
    "SELECT VALUE MAKELIST(c.v) FROM c",
    "SELECT VALUE MAKESET(c.v) FROM c",
    "SELECT COUNT(1) AS n, MIN(c.v) AS low, MAX(c.n), AVG(c.n) AS mean, SUM(c.v) AS s FROM c",
    "SELECT c.k, COUNT(1) AS n, SUM(c.n) AS s, AVG(c.v) AS a, MIN(c.v) AS l, MAX(c.v) AS h FROM c GROUP BY c.k",
    "SELECT c.k, c.v, MAKESET(c.n) AS ns, COUNTIF(c.n = 1) AS ones FROM c GROUP BY c.k, c.v",
    "SELECT VALUE COUNT(1) FROM c GROUP BY c.k",
    "SELECT VALUE AVG(c.n) FROM c GROUP BY c.v",
    "SELECT VALUE c.v FROM c GROUP BY c.v",
    "SELECT DISTINCT COUNT(1) AS n FROM c GROUP BY c.k",
    "SELECT VALUE LOWER(c.k) FROM c GROUP BY LOWER(c.k)",
    "SELECT t, COUNT(1) AS n FROM c JOIN t IN c.tags GROUP BY t",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.v FROM c)",
    "SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.k, c.v FROM c WHERE c.n > 0)",
    "SELECT COUNT(1) FROM (SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags ORDER BY t)",
    "SELECT VALUE SUM(t.v) FROM (SELECT c.n AS v FROM c) AS t",
];

/// Queries with expressions over aggregates, sorted where groups are.
const COMPOSED: &[&str] = &[
    "SELECT VALUE SUM(c.n) / COUNT(1) FROM c",
    "SELECT VALUE {low: MIN(c.n), spread: MAX(c.n) - MIN(c.n)} FROM c WHERE c.k != 'a'",
    "SELECT COUNT(1) + 1 AS more, COUNT(c.v) > 2 ? 'many' : 'few' AS size FROM c",
    "SELECT c.k, SUM(c.n) * 2 AS twice, [COUNT(1), MAX(c.v)] AS both FROM c GROUP BY c.k ORDER BY c.k",
    "SELECT VALUE COUNT(1) * 10 FROM c GROUP BY c.k ORDER BY COUNT(1) DESC, c.k",
    "SELECT DISTINCT VALUE COUNT(1) % 2 FROM c GROUP BY c.v ORDER BY COUNT(1) % 2",
    "SELECT TOP 2 c.k, AVG(c.n) + 1 AS a FROM c GROUP BY c.k ORDER BY c.k DESC",
    "SELECT LOWER(c.k) AS low, COUNT(1) - 1 AS others FROM c GROUP BY LOWER(c.k) ORDER BY LOWER(c.k) OFFSET 1 LIMIT 2",
    "SELECT VALUE COUNT(t) + 0 FROM c JOIN t IN c.tags GROUP BY t ORDER BY t",
];

/// Queries that may give any rows of a larger result, but so many of them.
const WINDOWS: &[(&str, &str)] = &[
    ("SELECT TOP 4 VALUE c.id FROM c", "SELECT VALUE c.id FROM c"),
    ("SELECT VALUE c.id FROM c OFFSET 2 LIMIT 3", "SELECT VALUE c.id FROM c"),
    ("SELECT DISTINCT TOP 2 VALUE c.v FROM c", "SELECT DISTINCT VALUE c.v FROM c"),
    ("SELECT DISTINCT VALUE c.v FROM c OFFSET 1 LIMIT 2", "SELECT DISTINCT VALUE c.v FROM c"),
    ("SELECT TOP 2 c.k FROM c GROUP BY c.k", "SELECT c.k FROM c GROUP BY c.k"),
    ("SELECT c.k FROM c GROUP BY c.k OFFSET 1 LIMIT 1", "SELECT c.k FROM c GROUP BY c.k"),
];

fn scalar() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(Value::Null)),
        1 => any::<bool>().prop_map(|b| Some(json!(b))),
        4 => (-2_i64..4).prop_map(|n| Some(json!(n))),
        1 => Just(Some(json!(1.0))),
        1 => Just(Some(json!(0.5))),
        4 => prop_oneof![Just("a"), Just("b"), Just("A"), Just("")].prop_map(|s| Some(json!(s))),
    ]
}

fn mixed() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        8 => scalar(),
        1 => proptest::collection::vec(0_i64..2, 0..2).prop_map(|items| Some(json!(items))),
        1 => (0_i64..2).prop_map(|n| Some(json!({"a": n}))),
    ]
}

/// A document and the partition it lives in.
fn document() -> impl Strategy<Value = (Value, usize)> {
    let number = prop_oneof![1 => Just(None), 5 => (0_i64..5).prop_map(|n| Some(json!(n)))];
    let tags = proptest::collection::vec(prop_oneof![Just("x"), Just("y"), Just("z")], 0..4);
    // Mostly scalars, so that aggregates have results; sometimes what spoils them.
    let value = prop_oneof![3 => scalar(), 1 => mixed()];
    (value, mixed(), number, tags, 0..MOST_PARTITIONS).prop_map(|(v, k, n, tags, partition)| {
        let members = [("v", v), ("k", k), ("n", n), ("tags", Some(json!(tags)))];
        let present = members.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
        (present.collect::<Value>(), partition)
    })
}

const MOST_PARTITIONS: usize = 7;

/// The numbers of partitions that results must not depend on.
fn count() -> impl Strategy<Value = usize> {
    prop::sample::select(vec![1, 2, MOST_PARTITIONS])
}

/// Divides the documents over fewer partitions, each still in RID order.
fn over(partitions: &[Vec<Value>], count: usize) -> Vec<Vec<Value>> {
    let mut fewer = vec![Vec::new(); count];
    for (at, documents) in partitions.iter().enumerate() {
        fewer[at % count].extend(documents.iter().cloned());
    }
    for documents in &mut fewer {
        documents.sort_by_key(|document: &Value| document["id"].as_str().unwrap().to_owned());
    }
    fewer
}

/// All documents in RID order, and the same split over partitions.
fn documents() -> impl Strategy<Value = (Vec<Value>, Vec<Vec<Value>>)> {
    proptest::collection::vec(document(), 0..24).prop_map(|list| {
        let container = Rid::database(1).container(1).unwrap();
        let mut partitions = vec![Vec::new(); MOST_PARTITIONS];
        let mut all = Vec::new();
        for (number, (mut document, partition)) in list.into_iter().enumerate() {
            let rid = container.document(number as u64 + 1).unwrap();
            document["id"] = json!(format!("{number:02}"));
            document["_rid"] = json!(rid.to_string());
            // As an account keeps it: 1.0 is stored as 1.
            sidereal_query::round_numbers(&mut document);
            partitions[partition].push(document.clone());
            all.push(document);
        }
        (all, partitions)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ordered_queries_keep_their_order((all, partitions) in documents(), page in 1_usize..5, count in count()) {
        for text in ORDERED {
            let query = parse(text).unwrap();
            let info = info(&query);
            let rows = merged(&info, &answers(&info, &over(&partitions, count)), page);
            prop_assert_eq!(json!(rows), json!(run(&query, &all)), "{} over {}", text, count);
        }
    }

    #[test]
    fn unordered_queries_keep_their_rows((all, partitions) in documents(), page in 1_usize..5, count in count()) {
        for text in UNORDERED {
            let query = parse(text).unwrap();
            let info = info(&query);
            let single = run(&query, &all);
            let rows = merged(&info, &answers(&info, &over(&partitions, count)), page);
            prop_assert_eq!(bag(&rows), bag(&single), "{}: {:?} {:?}", text, rows, single);
        }
    }

    #[test]
    fn expressions_over_aggregates_are_computed_from_merged_groups((all, partitions) in documents(), page in 1_usize..5, count in count()) {
        for text in COMPOSED {
            let query = parse(text).unwrap();
            let composed = sidereal_query::plan::compose(&query).unwrap();
            let info = info(&composed.groups);
            let groups = merged(&info, &answers(&info, &over(&partitions, count)), page);
            prop_assert_eq!(json!(run(&composed.result, &groups)), json!(run(&query, &all)), "{} over {}", text, count);
        }
    }

    #[test]
    fn windows_give_as_many_rows_as_one_partition_would((all, partitions) in documents(), page in 1_usize..5) {
        for (text, whole) in WINDOWS {
            let query = parse(text).unwrap();
            let info = info(&query);
            let rows = merged(&info, &answers(&info, &partitions), page);
            prop_assert_eq!(rows.len(), run(&query, &all).len(), "{}", text);
            let whole = bag(&run(&parse(whole).unwrap(), &all));
            for (row, count) in bag(&rows) {
                prop_assert!(whole.get(&row).is_some_and(|all| *all >= count), "{}", text);
            }
        }
    }

    /// Stopping after any item, keeping only the state as text, and asking again from there loses
    /// no row and repeats none.
    #[test]
    fn a_merge_can_be_taken_up_again_wherever_the_shape_allows(
        (_, partitions) in documents(),
        page in 1_usize..4,
        stop in 0_usize..12,
    ) {
        for text in ORDERED.iter().chain(&["SELECT c.id, t FROM c JOIN t IN c.tags", "SELECT VALUE c.id FROM c OFFSET 2 LIMIT 5"]) {
            let info = info(&parse(text).unwrap());
            if !Merge::is_resumable(&info) {
                prop_assert!(Merge::new(&info, MOST_PARTITIONS).state().is_err());
                continue;
            }
            let answers = answers(&info, &partitions);
            let mut merge = Merge::new(&info, answers.len());
            let mut feeder = Feeder::new(&answers, page);
            let mut rows: Vec<Value> = std::iter::from_fn(|| feeder.next(&mut merge)).take(stop).collect();
            let state = serde_json::to_string(&merge.state().unwrap()).unwrap();
            let state: sidereal_query::merge::MergeState = serde_json::from_str(&state).unwrap();
            let mut again = Feeder::new(&answers, page);
            if info.order_by.is_empty() {
                again.next = state.ranges.iter().map(|range| range.pages as usize).collect();
            } else {
                // The server answers from the resume position on, that row included.
                for (pages, range) in again.pages.iter_mut().zip(&state.ranges) {
                    let Some(last) = &range.last else { continue };
                    let from = |row: &Value| {
                        let position = sidereal_query::merge::Position::of_row(row).unwrap();
                        position.compare(last, &info.order_by).is_ge()
                    };
                    let rows: Vec<Value> = pages.concat().into_iter().filter(from).collect();
                    *pages = rows.chunks(page).map(<[Value]>::to_vec).collect();
                }
            }
            let mut merge = Merge::resume(&info, state).unwrap();
            rows.extend(std::iter::from_fn(|| again.next(&mut merge)));
            prop_assert_eq!(bag(&rows), bag(&merged(&info, &answers, page)), "{}", text);
            if !info.order_by.is_empty() {
                prop_assert_eq!(json!(rows), json!(merged(&info, &answers, page)), "{}", text);
            }
        }
    }

    /// A range that splits while it is read is replaced by its children; nothing is lost or
    /// repeated, whatever was already fetched.
    #[test]
    fn a_split_in_the_middle_of_a_query_changes_nothing(
        (_, partitions) in documents(),
        page in 1_usize..4,
        fetched in 0_usize..4,
    ) {
        for text in ["SELECT VALUE {id: c.id, t: t} FROM c JOIN t IN c.tags ORDER BY t", "SELECT VALUE c.id FROM c ORDER BY c.v DESC"] {
            let info = info(&parse(text).unwrap());
            let whole = answers(&info, &partitions);
            let expected = merged(&info, &whole, page);
            // Range 0 splits: the documents with an even number go left, the others right.
            let (left, right): (Vec<Value>, Vec<Value>) =
                partitions[0].iter().cloned().partition(|d| d["id"].as_str().unwrap().ends_with(['0', '2', '4', '6', '8']));
            let children = answers(&info, &[left, right]);
            let mut merge = Merge::new(&info, whole.len());
            let mut feeder = Feeder::new(&whole, page);
            for _ in 0..fetched.min(feeder.pages[0].len()) {
                feeder.feed(&mut merge, 0);
            }
            let numbers = merge.split(0, 2).unwrap();
            prop_assert_eq!(numbers, MOST_PARTITIONS..MOST_PARTITIONS + 2);
            feeder.pages.extend(Feeder::new(&children, page).pages);
            feeder.next.extend([0, 0]);
            let rows: Vec<Value> = std::iter::from_fn(|| feeder.next(&mut merge)).collect();
            prop_assert_eq!(json!(rows), json!(expected), "{}", text);
        }
    }

    /// Whatever the filter says of the key, no document that satisfies it lies outside the ranges.
    #[test]
    fn the_ranges_of_a_plan_hold_every_result(
        filter in key_filter(),
        tenants in proptest::collection::vec(scalar(), 1..8),
        users in proptest::collection::vec(scalar(), 8),
    ) {
        let definitions = [
            PartitionKeyDefinition::new(["/pk"]).unwrap(),
            PartitionKeyDefinition::new(["/pk", "/user"]).unwrap(),
        ];
        let query = parse(&format!("SELECT VALUE 1 FROM c WHERE {filter}")).unwrap();
        for definition in &definitions {
            let plan = plan(&query, &Parameters::new(), definition, Features::ALL).unwrap();
            let ranges = plan.query_ranges.iter().map(|range| range.resolve(definition).unwrap());
            let ranges: Vec<_> = ranges.collect();
            for (tenant, user) in tenants.iter().zip(&users) {
                let members = [("pk", tenant), ("user", user)].into_iter();
                let document: Value =
                    members.filter_map(|(name, v)| Some((name.to_owned(), v.clone()?))).collect();
                let effective = definition.effective_key(&definition.extract(&document)).unwrap();
                let inside = ranges.iter().any(|range| range.contains(&effective));
                let found = !run(&query, std::slice::from_ref(&document)).is_empty();
                prop_assert!(inside || !found, "{filter} finds {document} outside {ranges:?}");
            }
        }
    }
}

/// Filters that pin the key more or less.
fn key_filter() -> impl Strategy<Value = String> {
    let constant =
        prop::sample::select(vec!["'a'", "'b'", "1", "0.5", "-1", "null", "true", "undefined"]);
    let path = prop::sample::select(vec!["c.pk", "c['user']", "c.other"]);
    let leaf = prop_oneof![
        4 => (path.clone(), constant.clone()).prop_map(|(path, value)| format!("{path} = {value}")),
        1 => (path.clone(), constant.clone()).prop_map(|(path, value)| format!("{value} = {path}")),
        2 => (path.clone(), constant.clone(), constant.clone())
            .prop_map(|(path, a, b)| format!("{path} IN ({a}, {b})")),
        1 => (path, constant).prop_map(|(path, value)| format!("{path} != {value}")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let some = proptest::collection::vec(inner.clone(), 2..4);
        prop_oneof![
            some.clone().prop_map(|terms| format!("({})", terms.join(" AND "))),
            some.prop_map(|terms| format!("({})", terms.join(" OR "))),
            inner.prop_map(|term| format!("NOT ({term})")),
        ]
    })
}
