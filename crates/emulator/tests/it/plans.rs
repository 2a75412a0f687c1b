//! Query plans on the wire, down to the JSON that SDKs read.

use crate::common::{Answer, Client, DOCS};
use http::Method;
use serde_json::{Value, json};

/// The features that the JavaScript SDK lists.
const FEATURES: &str = "Aggregate,CompositeAggregate,CountIf,DCount,Distinct,GroupBy,MultipleAggregates,MultipleOrderBy,NonValueAggregate,OffsetAndLimit,OrderBy,Top";

async fn plan(client: &Client, body: Value, features: &str) -> Answer {
    let headers = [
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", features),
        ("x-ms-cosmos-query-version", "1.4"),
    ];
    client.send(Method::POST, DOCS, &headers, body).await
}

async fn plan_of(client: &Client, text: &str) -> Value {
    let answer = plan(client, json!({ "query": text }), FEATURES).await;
    assert_eq!(answer.status, 200, "{text}: {}", answer.text);
    answer.json()
}

/// A plan whose query is sent as it is.
fn unchanged() -> Value {
    json!({
        "partitionedQueryExecutionInfoVersion": 2,
        "queryInfo": {
            "distinctType": "None", "top": null, "offset": null, "limit": null,
            "orderBy": [], "orderByExpressions": [],
            "groupByExpressions": [], "groupByAliases": [], "aggregates": [],
            "groupByAliasToAggregateType": {},
            "rewrittenQuery": "",
            "hasSelectValue": false, "dCountInfo": null, "hasNonStreamingOrderBy": false,
        },
        "queryRanges": [{ "min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false }],
        "hybridSearchQueryInfo": null,
    })
}

#[tokio::test]
async fn a_plan_that_rewrites_nothing_has_an_empty_query() {
    let client = Client::with_container(5).await;
    assert_eq!(plan_of(&client, "SELECT * FROM c WHERE c.n > 1").await, unchanged());
}

#[tokio::test]
async fn a_plan_leaves_parameters_and_user_functions_to_the_run() {
    let client = Client::with_container(5).await;
    assert_eq!(plan_of(&client, "SELECT * FROM c WHERE c.x = @missing").await, unchanged());
    let mut value = unchanged();
    value["queryInfo"]["hasSelectValue"] = json!(true);
    assert_eq!(plan_of(&client, "SELECT VALUE udf.tax(c.price) FROM c").await, value);
}

#[tokio::test]
async fn the_plan_of_an_aggregate_with_an_order_has_no_order() {
    let client = Client::with_container(5).await;
    let mut expected = unchanged();
    expected["queryInfo"]["aggregates"] = json!(["Count"]);
    expected["queryInfo"]["hasSelectValue"] = json!(true);
    expected["queryInfo"]["rewrittenQuery"] =
        json!("SELECT VALUE [{\"item\": COUNT(r.key)}]\nFROM r");
    let found = plan_of(&client, "SELECT VALUE COUNT(r.key) FROM r ORDER BY r.key").await;
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_range_of_a_prefix_includes_its_end() {
    let client = Client::start().await;
    client
        .create_container(json!({
            "id": "c", "partitionKey": { "paths": ["/t", "/u"], "kind": "MultiHash", "version": 2 },
        }))
        .await;
    let plan = plan_of(&client, "SELECT * FROM c WHERE c.t = 'A'").await;
    let range = &plan["queryRanges"][0];
    assert_eq!((&range["isMinInclusive"], &range["isMaxInclusive"]), (&json!(true), &json!(true)));
    let (min, max) = (range["min"].as_str().unwrap(), range["max"].as_str().unwrap());
    assert_eq!(max, format!("{min}FF"));
}

/// The Python SDK gives the partitions' raw rows where it is handed a plan that it cannot merge.
#[tokio::test]
async fn a_plan_beyond_the_clients_features_is_refused_with_1004() {
    let client = Client::with_container(5).await;
    for (text, features) in [
        ("SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k", "Aggregate,OrderBy,Top"),
        ("SELECT * FROM c ORDER BY c.n", ""),
        ("SELECT DISTINCT c.k FROM c", "OrderBy"),
        // Groups in the order of an aggregate are beyond every published SDK.
        ("SELECT c.k FROM c GROUP BY c.k ORDER BY COUNT(1)", FEATURES),
    ] {
        let refused = plan(&client, json!({ "query": text }), features).await;
        assert_eq!((refused.status, refused.sub_status()), (400, 1004), "{text}: {}", refused.text);
        assert!(refused.text.contains("upgrade the client"), "{}", refused.text);
    }
    let sorted = "SELECT c.k FROM c GROUP BY c.k ORDER BY c.k";
    assert_eq!(plan(&client, json!({ "query": sorted }), FEATURES).await.status, 200);
}
