//! The twenty tasks of `docs/coming-from-azure_data_cosmos.md` with the official SDK, so that what stands there
//! compiles. What it cannot do is left out here and said there.

#![allow(dead_code, reason = "they are compiled, and compared with ours by readers")]

use azure_data_cosmos::clients::{ContainerClient, CosmosClient, DatabaseClient};
use azure_data_cosmos::models::{
    ContainerProperties, PatchInstructions, PatchOperation, ThroughputProperties,
    TransactionalBatch,
};
use azure_data_cosmos::options::{
    ContentResponseOnWrite, CreateContainerOptions, ItemReadOptions, ItemWriteOptions,
    MaxItemCountHint, OperationOptions, Precondition, QueryOptions, RoutingStrategy,
};
use azure_data_cosmos::{AccountReference, FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::harness::Failure;

async fn connect() -> Result<CosmosClient, Failure> {
    let endpoint = "https://contoso.documents.azure.com/".parse()?;
    let account = AccountReference::with_authentication_key(endpoint, "c2VjcmV0".to_owned());
    let regions = vec!["West US".into()];
    let client =
        CosmosClient::builder().build(account, RoutingStrategy::PreferredRegions(regions)).await?;
    Ok(client)
}

async fn create_container(database: &DatabaseClient) -> Result<(), Failure> {
    let options =
        CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(400));
    let properties = ContainerProperties::new("orders", "/customer".into());
    database.create_container(properties, Some(options)).await?;
    Ok(())
}

async fn create(orders: &ContainerClient) -> Result<(), Failure> {
    let order = json!({"id": "1", "customer": "contoso", "total": 10});
    orders.create_item("contoso", "1", &order, None).await?;
    Ok(())
}

async fn read(orders: &ContainerClient) -> Result<(), Failure> {
    let order: Value = orders.read_item("contoso", "1", None).await?.into_model()?;
    drop(order);
    Ok(())
}

async fn upsert(orders: &ContainerClient) -> Result<(), Failure> {
    let order = json!({"id": "2", "customer": "contoso", "total": 20});
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    let options = ItemWriteOptions::default().with_operation_options(operation);
    let stored: Value =
        orders.upsert_item("contoso", "2", &order, Some(options)).await?.into_model()?;
    drop(stored);
    Ok(())
}

async fn replace_if_unchanged(orders: &ContainerClient) -> Result<(), Failure> {
    let response = orders.read_item("contoso", "1", None).await?;
    let etag = response.headers().etag().ok_or("no etag")?.clone();
    let mut order: Value = response.into_model()?;
    order["total"] = 11.into();
    let options = ItemWriteOptions::default().with_precondition(Precondition::if_match(etag));
    orders.replace_item("contoso", "1", &order, Some(options)).await?;
    Ok(())
}

async fn patch(orders: &ContainerClient) -> Result<(), Failure> {
    let patch = PatchInstructions::new()
        .with_operation(PatchOperation::set("/status", json!("shipped")))
        .with_operation(PatchOperation::increment("/total", 1));
    orders.patch_item("contoso", "1", patch, None).await?;
    Ok(())
}

async fn batch(orders: &ContainerClient) -> Result<(), Failure> {
    let batch = TransactionalBatch::new("contoso")
        .create_item(json!({"id": "3", "customer": "contoso", "total": 30}))?
        .delete_item("2", None);
    let response = orders.execute_transactional_batch(batch, None).await?.into_model()?;
    let failed = response.results().iter().position(|result| result.status_code() >= 400);
    println!("{failed:?}");
    Ok(())
}

async fn hierarchical_key(events: &ContainerClient) -> Result<(), Failure> {
    let event = json!({"id": "1", "tenant": "contoso", "user": 7});
    events.create_item(("contoso", 7), "1", &event, None).await?;
    Ok(())
}

async fn query_one_partition_key(orders: &ContainerClient) -> Result<(), Failure> {
    let scope = FeedScope::partition("contoso");
    let found: Vec<Value> =
        orders.query_items("SELECT * FROM c", scope, None).await?.try_collect().await?;
    drop(found);
    Ok(())
}

async fn query_with_parameters(orders: &ContainerClient) -> Result<(), Failure> {
    let query =
        Query::from("SELECT * FROM c WHERE c.total >= @least").with_parameter("@least", 10)?;
    let mut rows = orders.query_items::<Value>(query, FeedScope::full_container(), None).await?;
    while let Some(row) = rows.try_next().await? {
        println!("{}", row["id"]);
    }
    Ok(())
}

async fn query_in_order(orders: &ContainerClient) -> Result<(), Failure> {
    let text = "SELECT TOP 10 * FROM c ORDER BY c.total DESC";
    let dearest: Vec<Value> =
        orders.query_items(text, FeedScope::full_container(), None).await?.try_collect().await?;
    drop(dearest);
    Ok(())
}

async fn query_page_by_page(orders: &ContainerClient) -> Result<(), Failure> {
    let (text, scope) = ("SELECT * FROM c ORDER BY c.total", FeedScope::full_container());
    let one = || QueryOptions::default().with_max_item_count(MaxItemCountHint::Limit(std::num::NonZeroU32::MIN));
    let mut pages = orders.query_items::<Value>(text, scope.clone(), Some(one())).await?.into_pages();
    pages.try_next().await?;
    let options = one().with_continuation_token(pages.to_continuation_token()?);
    let rest: Vec<Value> =
        orders.query_items(text, scope, Some(options)).await?.try_collect().await?;
    drop(rest);
    Ok(())
}

async fn feed_ranges(orders: &ContainerClient) -> Result<(), Failure> {
    for range in orders.read_feed_ranges(None).await? {
        let scope = FeedScope::range(range);
        let part: Vec<Value> =
            orders.query_items("SELECT * FROM c", scope, None).await?.try_collect().await?;
        drop(part);
    }
    Ok(())
}

async fn throughput(orders: &ContainerClient) -> Result<(), Failure> {
    let now = orders.read_throughput(None).await?;
    let more = orders.begin_replace_throughput(ThroughputProperties::manual(900), None).await?;
    more.await?;
    drop(now);
    Ok(())
}

async fn errors(orders: &ContainerClient) -> Result<(), Failure> {
    match orders.read_item("contoso", "none", None).await {
        Ok(response) => println!("{:?}", response.status()),
        Err(error) if error.status().status_code() == 404 => println!("there is none"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn diagnostics(orders: &ContainerClient) -> Result<(), Failure> {
    let response = orders.read_item("contoso", "1", None).await?;
    println!("{:?} RU", response.headers().request_charge());
    println!("{:?}", response.diagnostics());
    Ok(())
}

async fn session(orders: &ContainerClient) -> Result<(), Failure> {
    let item = json!({"id": "4", "customer": "contoso"});
    let written = orders.upsert_item("contoso", "4", item, None).await?;
    let token = written.headers().session_token().ok_or("no token")?.clone();
    let options = ItemReadOptions::default().with_session_token(token);
    orders.read_item("contoso", "4", Some(options)).await?;
    Ok(())
}

async fn delete(orders: &ContainerClient) -> Result<(), Failure> {
    orders.delete_item("contoso", "1", None).await?;
    Ok(())
}
