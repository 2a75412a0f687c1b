//! Queries over a socket: where they run, what is refused, and how they continue.

use crate::common::{Answer, CROSS, Client, DOCS, KEY};
use http::Method;
use serde_json::{Value, json};

const FEATURES: &str = "Aggregate,CompositeAggregate,CountIf,DCount,Distinct,GroupBy,MultipleAggregates,MultipleOrderBy,NonValueAggregate,OffsetAndLimit,OrderBy,Top";

/// Twelve items over four keys: `n` from 0 to 11.
async fn twelve(partitions: u32) -> Client {
    let client = Client::with_container(partitions).await;
    for n in 0..12 {
        let key = ["a", "b", "c", "d"][n % 4];
        let created = client
            .create(json!({ "id": n.to_string(), "pk": key, "n": n, "tags": ["x", "y"] }))
            .await;
        assert_eq!(created.status, 201);
    }
    client
}

fn numbers(answer: &Answer) -> Vec<i64> {
    answer.rows().iter().map(|row| row["n"].as_i64().expect("a number")).collect()
}

/// Follows continuations to the end.
async fn all_rows(client: &Client, text: &str, headers: &[(&str, &str)]) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut token: Option<String> = None;
    for _ in 0..200 {
        let mut all = headers.to_vec();
        if let Some(token) = &token {
            all.push(("x-ms-continuation", token));
        }
        let page = client.query(text, &all).await;
        rows.extend(page.rows());
        token = page.header("x-ms-continuation").map(str::to_owned);
        if token.is_none() {
            return rows;
        }
    }
    panic!("the query does not end");
}

#[tokio::test]
async fn a_query_with_a_key_sees_that_key_alone() {
    let client = twelve(5).await;
    let answer =
        client.query("SELECT * FROM c WHERE c.n > 0 ORDER BY c.n DESC", &[(KEY, "[\"a\"]")]).await;
    assert_eq!(numbers(&answer), [8, 4]);
    assert!(answer.charge() > 2.0);
}

#[tokio::test]
async fn a_query_by_range_sees_that_range_alone_and_all_ranges_see_everything() {
    let client = twelve(5).await;
    let mut seen = Vec::new();
    for range in ["0", "1", "2", "3", "4"] {
        let answer = client
            .query("SELECT * FROM c", &[("x-ms-documentdb-partitionkeyrangeid", range)])
            .await;
        seen.extend(numbers(&answer));
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..12).collect::<Vec<_>>());
    let gone =
        client.query("SELECT * FROM c", &[("x-ms-documentdb-partitionkeyrangeid", "9")]).await;
    assert_eq!((gone.status, gone.sub_status()), (410, 1002));
}

#[tokio::test]
async fn a_query_over_a_window_of_the_key_space_sees_the_window() {
    let client = twelve(5).await;
    let window = |start, end| {
        [
            ("x-ms-read-key-type", "EffectivePartitionKeyRange"),
            ("x-ms-start-epk", start),
            ("x-ms-end-epk", end),
        ]
    };
    // "a" hashes to 3A53…49B7.
    let effective_key = "3A5381E1114EB8D3FCC90795045B49B7";
    let only_a = client
        .query("SELECT * FROM c", &window(effective_key, "3A5381E1114EB8D3FCC90795045B49B8"))
        .await;
    assert_eq!(numbers(&only_a), [0, 4, 8]);
    let below = client.query("SELECT * FROM c", &window("", effective_key)).await;
    let above = client.query("SELECT * FROM c", &window(effective_key, "FF")).await;
    assert_eq!(below.rows().len() + above.rows().len(), 12);
}

#[tokio::test]
async fn what_needs_no_merging_is_served_across_partitions() {
    let client = twelve(5).await;
    let rows = all_rows(&client, "SELECT c.n FROM c WHERE c.n >= 6", &[CROSS]).await;
    let mut numbers: Vec<i64> = rows.iter().map(|row| row["n"].as_i64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [6, 7, 8, 9, 10, 11]);
}

#[tokio::test]
async fn what_needs_merging_is_refused_with_the_plan() {
    let client = twelve(5).await;
    for text in [
        "SELECT * FROM c ORDER BY c.n",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT DISTINCT c.pk FROM c",
        "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk",
        "SELECT TOP 3 * FROM c",
        "SELECT * FROM c OFFSET 1 LIMIT 2",
    ] {
        let refused = client.query(text, &[CROSS]).await;
        assert_eq!((refused.status, refused.sub_status()), (400, 1004), "{text}: {}", refused.text);
        let plan: Value =
            serde_json::from_str(refused.json()["additionalErrorInfo"].as_str().unwrap()).unwrap();
        assert!(plan["queryInfo"]["rewrittenQuery"].is_string(), "{plan}");
    }
}

#[tokio::test]
async fn a_query_that_spans_partitions_must_be_allowed_to() {
    let client = twelve(5).await;
    let refused = client.query("SELECT * FROM c", &[]).await;
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["message"]
            .as_str()
            .unwrap()
            .starts_with("Cross partition query is required but disabled")
    );
}

#[tokio::test]
async fn a_filter_on_one_key_needs_no_permission_and_no_merging() {
    let client = twelve(5).await;
    let answer = client.query("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'b'", &[]).await;
    assert_eq!(answer.rows(), [json!(3)]);
}

#[tokio::test]
async fn pages_continue_where_they_ended() {
    let client = twelve(3).await;
    for size in ["1", "2", "5", "100"] {
        let rows =
            all_rows(&client, "SELECT c.n FROM c", &[CROSS, ("x-ms-max-item-count", size)]).await;
        let mut numbers: Vec<i64> = rows.iter().map(|row| row["n"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..12).collect::<Vec<_>>(), "pages of {size}");

        let headers = [(KEY, "[\"a\"]"), ("x-ms-max-item-count", size)];
        let joined = all_rows(&client, "SELECT c.n, t FROM c JOIN t IN c.tags", &headers).await;
        assert_eq!(joined.len(), 6, "pages of {size}");
        let sorted = all_rows(&client, "SELECT VALUE c.n FROM c ORDER BY c.n DESC", &headers).await;
        assert_eq!(sorted, [json!(8), json!(4), json!(0)], "pages of {size}");
        let window = all_rows(&client, "SELECT VALUE c.n FROM c OFFSET 1 LIMIT 2", &headers).await;
        assert_eq!(window, [json!(4), json!(8)], "pages of {size}");
        let top = all_rows(&client, "SELECT TOP 3 VALUE t FROM c JOIN t IN c.tags", &headers).await;
        assert_eq!(top, [json!("x"), json!("y"), json!("x")], "pages of {size}");
    }
}

#[tokio::test]
async fn pages_of_a_sorted_query_neither_skip_nor_repeat_when_items_come_and_go() {
    let client = Client::with_container(1).await;
    for n in [10, 20, 30, 40] {
        client.create(json!({ "id": n.to_string(), "pk": "a", "n": n })).await;
    }
    let key = (KEY, "[\"a\"]");
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n DESC";
    let first = client.query(text, &[key, ("x-ms-max-item-count", "2")]).await;
    assert_eq!(first.rows(), [json!(40), json!(30)]);
    let token = first.header("x-ms-continuation").unwrap().to_owned();

    client.create(json!({ "id": "35", "pk": "a", "n": 35 })).await;
    client.create(json!({ "id": "15", "pk": "a", "n": 15 })).await;
    client.send(Method::DELETE, &format!("{DOCS}/30"), &[key], Value::Null).await;
    let rest = client.query(text, &[key, ("x-ms-continuation", &token)]).await;
    assert_eq!(rest.rows(), [json!(20), json!(15), json!(10)]);
}

#[tokio::test]
async fn a_sorted_query_resumes_where_the_client_says() {
    let client = twelve(1).await;
    let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
    let rid = client.read("5", "b").await.json()["_rid"].clone();
    let resume = async |filter: Value| {
        let body =
            json!({ "query": "SELECT VALUE c.n FROM c ORDER BY c.n", "resumeFilter": filter });
        let headers = [("x-ms-documentdb-isquery", "True"), range, ("x-ms-max-item-count", "3")];
        client.send(Method::POST, DOCS, &headers, body).await.rows()
    };
    assert_eq!(
        resume(json!({ "value": [5], "rid": rid, "exclude": false })).await,
        [5, 6, 7].map(Value::from)
    );
    assert_eq!(
        resume(json!({ "value": [5], "rid": rid, "exclude": true })).await,
        [6, 7, 8].map(Value::from)
    );
    assert_eq!(resume(json!({ "value": [9] })).await, [9, 10, 11].map(Value::from));
    assert_eq!(resume(json!({ "value": [[]] })).await, [0, 1, 2].map(Value::from));
}

#[tokio::test]
async fn pages_of_a_query_cost_together_what_one_page_costs() {
    let client = twelve(1).await;
    let whole = client.query("SELECT * FROM c WHERE c.n < 9", &[CROSS]).await.charge();
    let mut paged = 0.0;
    let mut token = String::new();
    loop {
        let mut headers = vec![CROSS, ("x-ms-max-item-count", "2")];
        if !token.is_empty() {
            headers.push(("x-ms-continuation", &token));
        }
        let page = client.query("SELECT * FROM c WHERE c.n < 9", &headers).await;
        paged += page.charge();
        match page.header("x-ms-continuation") {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert!((whole - paged).abs() < 0.2, "{whole} and {paged}");
}

#[tokio::test]
async fn a_page_stays_within_four_mebibytes() {
    let client = Client::with_container(1).await;
    for id in 0..6 {
        client
            .create(json!({ "id": id.to_string(), "pk": "a", "text": "x".repeat(1024 * 1024) }))
            .await;
    }
    let page = client.query("SELECT * FROM c", &[(KEY, "[\"a\"]")]).await;
    assert!(page.text.len() <= 4 * 1024 * 1024 + 1024);
    assert_eq!(page.rows().len(), 3);
    assert!(page.header("x-ms-continuation").is_some());
}

#[tokio::test]
async fn a_continuation_that_is_not_ours_is_refused() {
    let client = twelve(1).await;
    for token in ["nonsense", "eyJyIjoiOTkifQ", "-RID:~abc#RT:1#TRC:10"] {
        let refused = client.query("SELECT * FROM c", &[CROSS, ("x-ms-continuation", token)]).await;
        assert_eq!(refused.status, 400, "{token}");
    }
    for count in ["0", "-7", "many"] {
        let refused =
            client.query("SELECT * FROM c", &[CROSS, ("x-ms-max-item-count", count)]).await;
        assert_eq!(refused.status, 400, "{count}");
    }
}

#[tokio::test]
async fn parameters_are_values_not_text() {
    let client = twelve(1).await;
    let headers =
        [("x-ms-documentdb-isquery", "True"), ("content-type", "application/query+json"), CROSS];
    let send = |value: Value| {
        let body = json!({ "query": "SELECT VALUE c.n FROM c WHERE c.id = @id", "parameters": [{ "name": "@id", "value": value }] });
        client.send(Method::POST, DOCS, &headers, body)
    };
    assert_eq!(send(json!("3")).await.rows(), [json!(3)]);
    assert_eq!(send(json!("3' OR 1=1 --")).await.rows(), Vec::<Value>::new());
    assert_eq!(send(json!(3)).await.rows(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_syntax_error_is_answered_in_the_services_shape() {
    let client = twelve(1).await;
    let refused = client.query("SELECT * FORM c", &[CROSS]).await;
    assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("BadRequest")));
    assert!(refused.json()["message"].as_str().unwrap().contains("\"errors\""), "{}", refused.text);
    assert_eq!(client.query("SELECT NoSuchFunction(c) FROM c", &[CROSS]).await.status, 400);
    let body = client
        .send_text(
            Method::POST,
            DOCS,
            &[("x-ms-documentdb-isquery", "True"), CROSS],
            "{".to_owned(),
        )
        .await;
    assert_eq!(body.status, 400);
}

#[tokio::test]
async fn what_no_index_serves_is_refused() {
    let client = Client::start().await;
    client
        .create_container(json!({
            "id": "c",
            "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "indexingPolicy": {
                "includedPaths": [{ "path": "/*" }],
                "excludedPaths": [{ "path": "/hidden/?" }],
                "compositeIndexes": [[{ "path": "/a", "order": "ascending" }, { "path": "/b", "order": "descending" }]],
            },
        }))
        .await;
    let status = async |text: &str| client.query(text, &[(KEY, "[\"a\"]")]).await.status;
    assert_eq!(status("SELECT * FROM c ORDER BY c.a ASC, c.b DESC").await, 200);
    assert_eq!(status("SELECT * FROM c ORDER BY c.a ASC, c.b ASC").await, 400);
    assert_eq!(status("SELECT * FROM c ORDER BY c.hidden").await, 400);
    assert_eq!(status("SELECT * FROM c ORDER BY c.a + 1").await, 400);
}

#[tokio::test]
async fn a_plan_says_how_to_fan_out_and_refuses_what_the_client_cannot_do() {
    let client = twelve(5).await;
    let plan = async |text: &str, features: &str| {
        let headers = [
            ("x-ms-cosmos-is-query-plan-request", "True"),
            ("x-ms-cosmos-supported-query-features", features),
            ("x-ms-cosmos-query-version", "1.0"),
        ];
        client.send(Method::POST, DOCS, &headers, json!({ "query": text })).await
    };
    let sorted = plan("SELECT * FROM c ORDER BY c.n", FEATURES).await;
    assert_eq!(sorted.status, 200, "{}", sorted.text);
    let info = &sorted.json()["queryInfo"];
    assert_eq!(info["orderBy"], json!(["Ascending"]));
    assert!(
        info["rewrittenQuery"]
            .as_str()
            .unwrap()
            .contains("{documentdb-formattableorderbyquery-filter}")
    );
    let range = &sorted.json()["queryRanges"][0];
    assert_eq!((range["min"].as_str(), range["max"].as_str()), (Some(""), Some("FF")));

    let grouped = "SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk";
    assert_eq!(plan(grouped, FEATURES).await.status, 200);
    assert_eq!(plan(grouped, "OrderBy,Top").await.status, 400);

    let keyed = plan("SELECT * FROM c WHERE c.pk = 'a'", FEATURES).await.json();
    assert_eq!(keyed["queryRanges"][0]["min"], "3A5381E1114EB8D3FCC90795045B49B7");
    assert_eq!(keyed["queryRanges"][0]["max"], "3A5381E1114EB8D3FCC90795045B49B7");
}

#[tokio::test]
async fn the_feed_of_items_is_read_in_pages() {
    let client = twelve(3).await;
    let mut ids = Vec::new();
    let mut token = String::new();
    for _ in 0..20 {
        let mut headers = vec![("x-ms-max-item-count", "5")];
        if !token.is_empty() {
            headers.push(("x-ms-continuation", &token));
        }
        let page = client.get(DOCS, &headers).await;
        ids.extend(page.ids());
        match page.header("x-ms-continuation") {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    ids.sort_by_key(|id| id.parse::<u32>().unwrap());
    assert_eq!(ids, (0..12).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(client.get(DOCS, &[(KEY, "[\"a\"]")]).await.ids(), ["0", "4", "8"]);
}

#[tokio::test]
async fn metrics_are_given_when_asked_for() {
    let client = twelve(1).await;
    let metrics = client
        .query(
            "SELECT * FROM c WHERE c.n < 3",
            &[CROSS, ("x-ms-documentdb-populatequerymetrics", "True")],
        )
        .await;
    let text = metrics.header("x-ms-documentdb-query-metrics").unwrap();
    assert!(
        text.contains("retrievedDocumentCount=12") && text.contains("outputDocumentCount=3"),
        "{text}"
    );
    assert!(
        client
            .query("SELECT * FROM c", &[CROSS])
            .await
            .header("x-ms-documentdb-query-metrics")
            .is_none()
    );
}

/// Clients took the token of a full last page for more rows, and got an empty page that cost nothing.
#[tokio::test]
async fn a_full_last_page_has_no_continuation() {
    for partitions in [1, 5] {
        let client = twelve(partitions).await;
        for (text, headers, rows) in [
            (None, vec![], 12),
            (Some("SELECT * FROM c"), vec![CROSS], 12),
            (Some("SELECT * FROM c ORDER BY c.n"), vec![(KEY, "[\"a\"]")], 3),
        ] {
            let size = rows.to_string();
            let half = (rows / 3).to_string();
            for (size, pages) in [(&size, 1), (&half, 3)] {
                let (mut token, mut seen) = (None::<String>, 0);
                for page in 1..=pages {
                    let mut headers = headers.clone();
                    headers.push(("x-ms-max-item-count", size));
                    headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
                    let answer = match text {
                        Some(text) => client.query(text, &headers).await,
                        None => client.get(DOCS, &headers).await,
                    };
                    assert!(answer.charge() > 0.0, "{text:?}: {}", answer.charge());
                    seen += answer.rows().len();
                    token = answer.header("x-ms-continuation").map(str::to_owned);
                    assert_eq!(token.is_none(), page == pages, "{text:?}, page {page} of {pages}");
                }
                assert_eq!(seen, rows, "{text:?}");
            }
        }
        let last = client.query("SELECT * FROM c WHERE c.n > 100", &[CROSS]).await;
        assert!(last.charge() > 0.0);
    }
}

/// The JavaScript SDK handed out duplicates: it compares what is sorted by, and rows have more than that.
#[tokio::test]
async fn distinct_rows_are_planned_as_the_service_does() {
    let client = twelve(5).await;
    for (text, expected) in [
        ("SELECT DISTINCT c.n FROM c ORDER BY c.n", "Unordered"),
        ("SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", "Ordered"),
        ("SELECT DISTINCT VALUE c.n FROM c", "Unordered"),
        ("SELECT c.n FROM c ORDER BY c.n", "None"),
    ] {
        let headers = [
            ("x-ms-cosmos-is-query-plan-request", "True"),
            ("x-ms-cosmos-supported-query-features", FEATURES),
        ];
        let plan = client.query(text, &headers).await;
        let plan: Value = serde_json::from_str(&plan.text).unwrap();
        assert_eq!(plan["queryInfo"]["distinctType"], expected, "{text}");
    }
}
