//! Queries of every shape that the SDK offers.

use std::num::NonZeroU32;

use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions, QueryPlanMode};
use azure_data_cosmos::{CosmosError, FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::harness::{Failure, Outcome, Peer, lacks, refused};
use crate::{ensure, scenarios};

scenarios! { "queries":
    a_query_of_one_partition_key_sees_its_items,
    a_query_with_parameters_finds_its_items,
    a_query_across_partitions_sees_every_item,
    projections_joins_and_subqueries_are_served,
    an_order_across_partitions_is_kept,
    an_order_of_strings_and_mixed_values_is_kept,
    top_and_offset_limit_count_across_partitions,
    distinct_values_come_once_across_partitions,
    distinct_values_without_order_and_limit,
    plans_of_the_gateway_lead_to_the_same_rows,
    pages_are_as_small_as_asked_for,
    a_query_resumes_from_its_continuation,
    an_ordered_query_resumes_from_its_continuation,
    metrics_are_told_where_they_are_asked_for,
    aggregates_within_a_partition_key,
    aggregates_across_partitions,
    groups_across_partitions,
    a_malformed_query_is_refused,
    nearest_vectors_across_partitions,
}

async fn rows(
    container: &ContainerClient,
    text: &str,
    scope: FeedScope,
) -> Result<Vec<Value>, CosmosError> {
    container.query_items::<Value>(text, scope, None).await?.try_collect().await
}

async fn everywhere(container: &ContainerClient, text: &str) -> Result<Vec<Value>, CosmosError> {
    rows(container, text, FeedScope::full_container()).await
}

async fn a_query_of_one_partition_key_sees_its_items(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let found = rows(&container, "SELECT * FROM c", FeedScope::partition("key-3")).await?;
    let numbers: Vec<_> = found.iter().map(|row| row["number"].clone()).collect();
    ensure!(numbers == [json!(3), json!(13), json!(23)], "{numbers:?}");
    let none = rows(&container, "SELECT * FROM c", FeedScope::partition("nobody")).await?;
    ensure!(none.is_empty(), "{none:?}");
    Ok(Outcome::Passed)
}

async fn a_query_with_parameters_finds_its_items(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let query = Query::from("SELECT VALUE c.number FROM c WHERE c.number >= @least AND ARRAY_CONTAINS(@parities, c.parity)")
        .with_parameter("@least", 25)?
        .with_parameter("@parities", ["even"])?;
    let mut found: Vec<u64> = container
        .query_items::<u64>(query, FeedScope::full_container(), None)
        .await?
        .try_collect()
        .await?;
    found.sort_unstable();
    ensure!(found == [26, 28], "{found:?}");
    Ok(Outcome::Passed)
}

async fn a_query_across_partitions_sees_every_item(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let found = everywhere(&container, "SELECT * FROM c").await?;
    ensure!(found.len() == 30, "{}", found.len());
    let found = everywhere(&container, "SELECT * FROM c WHERE c.parity = 'odd'").await?;
    ensure!(found.len() == 15, "{}", found.len());
    Ok(Outcome::Passed)
}

async fn projections_joins_and_subqueries_are_served(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(6).await?;
    let joined =
        everywhere(&container, "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t != 'all'").await?;
    ensure!(joined.len() == 6, "{joined:?}");
    let text = "SELECT VALUE { n: c.number, big: c.number > 2 } FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 't1')";
    let mut found = everywhere(&container, text).await?;
    found.sort_by_key(|row| row["n"].as_u64());
    ensure!(
        found == [json!({ "n": 1, "big": false }), json!({ "n": 4, "big": true })],
        "{found:?}"
    );
    Ok(Outcome::Passed)
}

async fn an_order_across_partitions_is_kept(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let found =
        everywhere(&container, "SELECT VALUE c.number FROM c ORDER BY c.number DESC").await?;
    ensure!(found == (0..30).rev().map(Value::from).collect::<Vec<_>>(), "{found:?}");
    let found = everywhere(&container, "SELECT c.id, c.number FROM c ORDER BY c.number").await?;
    let numbers: Vec<_> = found.iter().filter_map(|row| row["number"].as_u64()).collect();
    ensure!(numbers == (0..30).collect::<Vec<_>>(), "{numbers:?}");
    Ok(Outcome::Passed)
}

async fn an_order_of_strings_and_mixed_values_is_kept(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let values = [json!(null), json!(true), json!(-1.5), json!("a"), json!("b"), json!("ü")];
    for (index, value) in values.iter().enumerate().rev() {
        let (id, key) = (index.to_string(), format!("key-{index}"));
        container
            .create_item(key.clone(), &id, json!({ "id": id, "pk": key, "x": value }), None)
            .await?;
    }
    let found = everywhere(&container, "SELECT VALUE c.x FROM c ORDER BY c.x").await?;
    ensure!(found == values, "{found:?}");
    Ok(Outcome::Passed)
}

async fn top_and_offset_limit_count_across_partitions(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let top =
        everywhere(&container, "SELECT TOP 5 VALUE c.number FROM c ORDER BY c.number").await?;
    ensure!(top == (0..5).map(Value::from).collect::<Vec<_>>(), "{top:?}");
    let text = "SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 10 LIMIT 5";
    let window = everywhere(&container, text).await?;
    ensure!(window == (10..15).map(Value::from).collect::<Vec<_>>(), "{window:?}");
    let unordered = everywhere(&container, "SELECT TOP 7 * FROM c").await?;
    ensure!(unordered.len() == 7, "{}", unordered.len());
    Ok(Outcome::Passed)
}

async fn distinct_values_come_once_across_partitions(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let mut found = everywhere(&container, "SELECT DISTINCT TOP 10 VALUE c.parity FROM c").await?;
    found.sort_by_key(|row| row.to_string());
    ensure!(found == [json!("even"), json!("odd")], "{found:?}");
    let ordered =
        everywhere(&container, "SELECT DISTINCT VALUE c.parity FROM c ORDER BY c.parity DESC")
            .await?;
    ensure!(ordered == [json!("odd"), json!("even")], "{ordered:?}");
    Ok(Outcome::Passed)
}

async fn distinct_values_without_order_and_limit(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let found = everywhere(&container, "SELECT DISTINCT VALUE c.parity FROM c").await;
    lacks(found, "DISTINCT across partitions without an order and without a limit")
}

async fn plans_of_the_gateway_lead_to_the_same_rows(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    for text in [
        "SELECT VALUE c.number FROM c ORDER BY c.number",
        "SELECT DISTINCT VALUE c.parity FROM c ORDER BY c.parity",
        "SELECT VALUE c.number FROM c ORDER BY c.number OFFSET 3 LIMIT 4",
    ] {
        let local = everywhere(&container, text).await?;
        let options = QueryOptions::default().with_query_plan_mode(QueryPlanMode::GatewayOnly);
        let scope = FeedScope::full_container();
        let planned: Vec<Value> =
            container.query_items(text, scope, Some(options)).await?.try_collect().await?;
        ensure!(planned == local && !local.is_empty(), "{text}: {planned:?}");
    }
    Ok(Outcome::Passed)
}

fn pages_of(count: u32) -> QueryOptions {
    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
    QueryOptions::default().with_max_item_count(MaxItemCountHint::Limit(count))
}

async fn pages_are_as_small_as_asked_for(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    for (scope, expected) in [(FeedScope::full_container(), 30), (FeedScope::partition("key-1"), 3)]
    {
        let query =
            container.query_items::<Value>("SELECT * FROM c", scope, Some(pages_of(2))).await?;
        let mut pages = query.into_pages();
        let mut seen = 0;
        while let Some(page) = pages.try_next().await? {
            ensure!(page.items().len() <= 2, "{}", page.items().len());
            seen += page.items().len();
        }
        ensure!(seen == expected, "{seen}");
    }
    Ok(Outcome::Passed)
}

/// Reads one page, and the rest by a continuation in a new query.
async fn resumed(
    container: &ContainerClient,
    text: &str,
    scope: FeedScope,
) -> Result<Vec<Value>, Failure> {
    let query = container.query_items::<Value>(text, scope.clone(), Some(pages_of(4))).await?;
    let mut pages = query.into_pages();
    let mut seen = pages.try_next().await?.ok_or("no page")?.into_items();
    let token = pages.to_continuation_token()?;
    let options = pages_of(4).with_continuation_token(token);
    let rest: Vec<Value> =
        container.query_items(text, scope, Some(options)).await?.try_collect().await?;
    ensure!(!rest.is_empty(), "nothing is left after {seen:?}");
    seen.extend(rest);
    Ok(seen)
}

async fn a_query_resumes_from_its_continuation(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(60).await?;
    for (scope, expected) in [(FeedScope::full_container(), 60), (FeedScope::partition("key-1"), 6)]
    {
        let seen = resumed(&container, "SELECT VALUE c.id FROM c", scope).await?;
        let mut ids: Vec<String> = seen.iter().map(Value::to_string).collect();
        ids.sort();
        ids.dedup();
        ensure!(ids.len() == expected && seen.len() == expected, "{} of {expected}", seen.len());
    }
    Ok(Outcome::Passed)
}

async fn an_ordered_query_resumes_from_its_continuation(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let text = "SELECT VALUE c.number FROM c ORDER BY c.number";
    let seen = resumed(&container, text, FeedScope::full_container()).await?;
    ensure!(seen == (0..30).map(Value::from).collect::<Vec<_>>(), "{seen:?}");
    Ok(Outcome::Passed)
}

async fn metrics_are_told_where_they_are_asked_for(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(10).await?;
    let options =
        QueryOptions::default().with_populate_query_metrics(true).with_populate_index_metrics(true);
    let scope = FeedScope::partition("key-1");
    let query = "SELECT * FROM c WHERE c.number = 1";
    let mut pages = container.query_items::<Value>(query, scope, Some(options)).await?.into_pages();
    let page = pages.try_next().await?.ok_or("no page")?;
    ensure!(page.query_metrics().is_some(), "{:?}", page.headers());
    ensure!(page.index_metrics().is_some(), "{:?}", page.headers());
    ensure!(
        page.headers().request_charge().is_some_and(|charge| charge.value() > 1.0),
        "no charge"
    );
    Ok(Outcome::Passed)
}

async fn aggregates_within_a_partition_key(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let text = "SELECT VALUE COUNT(1) FROM c";
    let counted = rows(&container, text, FeedScope::partition("key-1")).await;
    match counted {
        Ok(counted) => {
            ensure!(counted == [json!(3)], "{counted:?}");
            Ok(Outcome::Passed)
        }
        refused => lacks(refused, "aggregates within a partition key"),
    }
}

async fn aggregates_across_partitions(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    lacks(
        everywhere(&container, "SELECT VALUE COUNT(1) FROM c").await,
        "aggregates across partitions",
    )
}

async fn groups_across_partitions(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let text = "SELECT c.parity, COUNT(1) AS n FROM c GROUP BY c.parity";
    lacks(everywhere(&container, text).await, "GROUP BY across partitions")
}

async fn a_malformed_query_is_refused(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(1).await?;
    let result = rows(&container, "SELECT FROM WHERE", FeedScope::partition("key-0")).await;
    refused(result, 400)?;
    Ok(Outcome::Passed)
}

async fn nearest_vectors_across_partitions(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    for (id, vector) in [("far", [1.0, 0.0]), ("near", [0.0, 1.0]), ("between", [0.7, 0.7])] {
        let key = format!("key-{id}");
        container
            .create_item(key.clone(), id, json!({ "id": id, "pk": key, "v": vector }), None)
            .await?;
    }
    let query = Query::from("SELECT TOP 2 c.id FROM c ORDER BY VectorDistance(c.v, @vector)")
        .with_parameter("@vector", [0.0, 1.0])?;
    let scope = FeedScope::full_container();
    let found: Result<Vec<Value>, _> = match container.query_items(query, scope, None).await {
        Ok(rows) => rows.try_collect().await,
        Err(error) => Err(error),
    };
    refused(found, 400)?;
    Ok(Outcome::EmulatorLacks("VectorDistance"))
}
