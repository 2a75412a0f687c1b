//! Answers to queries, where the service's rules surprise: equality across types, reserved words,
//! subqueries, aggregates with an order.

use crate::common::{Answer, Client, KEY};
use serde_json::{Value, json};

const KEYED: (&str, &str) = (KEY, "[\"a\"]");

/// Items under one key: `x` is missing, null, a text, a number and a boolean.
async fn mixed() -> Client {
    let client = Client::with_container(1).await;
    let items = [
        json!({ "id": "missing", "order": 1 }),
        json!({ "id": "null", "x": null, "order": 2 }),
        json!({ "id": "text", "x": "t", "order": 3 }),
        json!({ "id": "number", "x": 7, "order": 4 }),
        json!({ "id": "flag", "x": true, "order": 5 }),
    ];
    for mut item in items {
        item["pk"] = json!("a");
        assert_eq!(client.create(item).await.status, 201);
    }
    client
}

async fn rows(client: &Client, text: &str) -> Vec<Value> {
    let answer = client.query(text, &[KEYED]).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text);
    answer.rows()
}

async fn refused(client: &Client, text: &str) -> Answer {
    let answer = client.query(text, &[KEYED]).await;
    assert_eq!((answer.status, answer.sub_status()), (400, 0), "{text}: {}", answer.text);
    answer
}

/// `c.x != null` found nothing: the null made the comparison undefined.
#[tokio::test]
async fn values_of_different_types_are_unequal_and_not_undefined() {
    let client = mixed().await;
    for (filter, expected) in [
        ("c.x != null", json!(["text", "number", "flag"])),
        ("NOT (c.x = null)", json!(["text", "number", "flag"])),
        ("c.x = null", json!(["null"])),
        ("c.x != 't'", json!(["null", "number", "flag"])),
        ("c.x != 7", json!(["null", "text", "flag"])),
        ("c.x = '7'", json!([])),
        // An order between types there is not: the row is dropped.
        ("c.x < 't'", json!([])),
        ("NOT (c.x > 6)", json!([])),
    ] {
        let found = rows(&client, &format!("SELECT VALUE c.id FROM c WHERE {filter}")).await;
        assert_eq!(json!(found), expected, "{filter}");
    }
    let chosen = rows(&client, "SELECT VALUE (c.x != null ? c.x : 'ZZ') FROM c").await;
    assert_eq!(chosen, [json!("ZZ"), json!("ZZ"), json!("t"), json!(7), json!(true)]);
}

#[tokio::test]
async fn a_reserved_word_names_a_property_in_brackets_only() {
    let client = mixed().await;
    for text in
        ["SELECT c.order FROM c", "SELECT * FROM c WHERE c.value = 1", "SELECT VALUE c.top FROM c"]
    {
        assert!(refused(&client, text).await.text.contains("Syntax error"), "{text}");
    }
    let found = rows(&client, "SELECT VALUE c[\"order\"] FROM c WHERE c['order'] > 0x3").await;
    assert_eq!(found, [json!(4), json!(5)]);
}

#[tokio::test]
async fn what_fails_while_it_runs_is_a_bad_request() {
    let client = mixed().await;
    let several = "SELECT (SELECT VALUE n FROM n IN [1, 2]) AS n FROM c";
    refused(&client, several).await;
    assert_eq!(rows(&client, "SELECT VALUE (SELECT VALUE 1) FROM c").await.len(), 5);
    // Catastrophic backtracking: every way to divide the letters is tried.
    let text = "a".repeat(64);
    let runaway = format!("SELECT VALUE RegexMatch('{text}', '^(?=(a+)+$)(a|a)*\\\\1b$') FROM c");
    refused(&client, &runaway).await;
    let looks = "SELECT VALUE c.id FROM c WHERE RegexMatch(c.id, '^(?!num)(?=.*x).+t$')";
    assert_eq!(rows(&client, looks).await, [json!("text")]);
    assert_eq!(
        rows(&client, "SELECT VALUE RegexMatch('abab', '^(ab)\\\\1$')").await,
        [json!(true)]
    );
}

#[tokio::test]
async fn an_aggregate_with_an_order_is_one_row_and_asks_for_no_index() {
    let client = mixed().await;
    assert_eq!(rows(&client, "SELECT VALUE COUNT(c.x) FROM c ORDER BY c.x").await, [json!(4)]);
    let two_keys = "SELECT COUNT(1) AS n FROM c ORDER BY c.x, c.id DESC";
    assert_eq!(rows(&client, two_keys).await, [json!({ "n": 5 })]);
    // Without the aggregate the same order needs a composite index.
    refused(&client, "SELECT * FROM c ORDER BY c.x, c.id DESC").await;
    let groups = "SELECT c.x, COUNT(1) AS n FROM c GROUP BY c.x ORDER BY c.x DESC";
    let expected = json!([
        { "x": "t", "n": 1 }, { "x": 7, "n": 1 }, { "x": true, "n": 1 }, { "x": null, "n": 1 }, { "n": 1 },
    ]);
    assert_eq!(json!(rows(&client, groups).await), expected);
}

#[tokio::test]
async fn functions_of_dates_integers_and_places_are_served() {
    let client = mixed().await;
    for (call, expected) in [
        (
            "DateTimeAdd('mm', 1, '2020-01-31T00:00:00.0000000Z')",
            json!("2020-02-29T00:00:00.0000000Z"),
        ),
        ("DateTimePart('yyyy', '2020-01-31T00:00:00.0000000Z')", json!(2020)),
        ("DateTimeDiff('hour', '2020-01-01T00:30:00Z', '2020-01-01T02:00:00Z')", json!(2)),
        ("IntBitAnd(0xFF, 0x0F)", json!(15)),
        ("IntDiv(-7, 2)", json!(-3)),
        (
            "ST_DISTANCE({'type': 'Point', 'coordinates': [0, 0]}, {'type': 'Point', 'coordinates': [0, 0]})",
            json!(0),
        ),
        (
            "ST_WITHIN({'type': 'Point', 'coordinates': [1, 1]}, {'type': 'Polygon', 'coordinates': [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]})",
            json!(true),
        ),
    ] {
        let answer = rows(&client, &format!("SELECT VALUE {call}")).await;
        assert_eq!(answer, [expected], "{call}");
    }
    let near = "SELECT VALUE c.id FROM c WHERE ST_DISTANCE({'type': 'Point', 'coordinates': [c[\"order\"], 0]}, \
                {'type': 'Point', 'coordinates': [2, 0]}) < 112000";
    assert_eq!(rows(&client, near).await, [json!("missing"), json!("null"), json!("text")]);
    let ids = rows(&client, "SELECT VALUE DocumentId(c) FROM c").await;
    assert!(ids.iter().all(Value::is_number) && ids.len() == 5, "{ids:?}");
}
