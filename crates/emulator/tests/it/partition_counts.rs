//! Results do not depend on the number of partitions: each query is planned by the gateway, asked of every
//! range page by page, and merged, over containers of 1, 2 and 7 partitions that hold the same items.

use crate::common::{Client, DOCS};
use http::Method;
use serde_json::{Value, json};
use sidereal_protocol::{PartitionedQueryExecutionInfo, QueryInfo};
use sidereal_query::Features;
use sidereal_query::merge::{Merge, Next};

const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A page smaller than what most partitions hold.
const PAGE: &str = "3";

/// The shapes whose rows have an order.
const ORDERED: &[&str] = &[
    "SELECT VALUE c.n FROM c ORDER BY c.n",
    "SELECT c.id FROM c WHERE c.k != null ORDER BY c.n DESC",
    "SELECT TOP 5 VALUE c.n FROM c ORDER BY c.n DESC",
    "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 4 LIMIT 6",
    "SELECT DISTINCT VALUE c.k FROM c ORDER BY c.k",
    "SELECT VALUE COUNT(c.k) FROM c ORDER BY c.k",
    "SELECT COUNT(1) AS n, MAX(c.n) AS high FROM c ORDER BY c.k, c.n DESC",
    "SELECT c.k, COUNT(1) AS n, AVG(c.n) AS mean FROM c GROUP BY c.k ORDER BY c.k DESC",
    "SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY SUM(c.n) DESC",
    "SELECT TOP 2 c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY MAX(c.n)",
    "SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY c.k OFFSET 1 LIMIT 2",
];

/// The shapes whose rows come in any order.
const UNORDERED: &[&str] = &[
    "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t = 'x'",
    "SELECT DISTINCT c.k FROM c",
    "SELECT VALUE SUM(c.n) FROM c WHERE c.k = 'a'",
    "SELECT COUNT(1) AS n, MIN(c.n) AS low, AVG(c.n) AS mean FROM c",
    "SELECT c.k, COUNT(1) AS n, SUM(c.n) AS s FROM c GROUP BY c.k",
    "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.k FROM c)",
];

async fn filled(partitions: u32) -> Client {
    let client = Client::with_container(partitions).await;
    for n in 0..40 {
        let mut item =
            json!({ "id": n.to_string(), "pk": format!("key-{n}"), "n": n, "tags": ["x", "y"] });
        // Text, number, null and missing.
        match n % 5 {
            0 => item["k"] = json!("a"),
            1 | 2 => item["k"] = json!("b"),
            3 => item["k"] = json!(n % 2),
            _ if n % 2 == 0 => item["k"] = Value::Null,
            _ => {}
        }
        assert_eq!(client.create(item).await.status, 201);
    }
    client
}

async fn plan(client: &Client, text: &str) -> QueryInfo {
    let features = Features::ALL.names().join(",");
    let headers = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", features.as_str()),
    ];
    let answer = client.send(Method::POST, DOCS, &headers, json!({ "query": text })).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text);
    let plan: PartitionedQueryExecutionInfo = serde_json::from_value(answer.json()).unwrap();
    plan.query_info.unwrap()
}

/// Asks every range as a client does, following continuations wherever the merge wants a page.
async fn fanned_out(client: &Client, text: &str, ranges: usize) -> Vec<Value> {
    let info = plan(client, text).await;
    let asked = match info.rewritten_query.as_str() {
        "" => text.to_owned(),
        rewritten => rewritten.replace(FILTER, "true"),
    };
    let mut merge = Merge::new(&info, ranges);
    let mut tokens: Vec<Option<String>> = vec![None; ranges];
    let mut rows = Vec::new();
    loop {
        match merge.next().unwrap() {
            Next::Item(row) => rows.push(row),
            Next::Done => return rows,
            Next::NeedPage(range) => {
                let id = range.to_string();
                let mut headers = vec![
                    ("x-ms-documentdb-partitionkeyrangeid", id.as_str()),
                    ("x-ms-max-item-count", PAGE),
                ];
                headers.extend(tokens[range].as_deref().map(|it| ("x-ms-continuation", it)));
                let page = client.query(&asked, &headers).await;
                assert_eq!(page.status, 200, "{asked}: {}", page.text);
                let next = page.header("x-ms-continuation").map(str::to_owned);
                merge.feed(range, page.rows(), next.is_none()).unwrap();
                tokens[range] = next;
            }
        }
    }
}

fn sorted(mut rows: Vec<Value>) -> Vec<Value> {
    rows.sort_by_key(Value::to_string);
    rows
}

#[tokio::test]
async fn results_over_one_two_and_seven_partitions_are_the_same() {
    let one = filled(1).await;
    for partitions in [1, 2, 7] {
        let many = filled(partitions).await;
        for text in ORDERED.iter().chain(UNORDERED) {
            // One range by its id is asked for everything: nothing is planned or merged.
            let whole = [("x-ms-documentdb-partitionkeyrangeid", "0")];
            let expected = one.query(text, &whole).await.rows();
            let rows = fanned_out(&many, text, partitions as usize).await;
            match ORDERED.contains(text) {
                true => assert_eq!(rows, expected, "{text} over {partitions}"),
                false => assert_eq!(sorted(rows), sorted(expected), "{text} over {partitions}"),
            }
        }
    }
}
