//! The twenty tasks of `docs/coming-from-azure_data_cosmos.md`, so that what stands there compiles and runs.
//!
//!     cargo run -p sidereal --example twenty_tasks
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use sidereal::BatchItemOptions;
use sidereal::options::*;
use sidereal::prelude::*;
use support::Account;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result {
    connect()?;
    connect_with_settings()?;
    let account = Account::open("twenty-tasks").await?;
    let database = &account.database;
    create_container(database).await?;
    let orders = database.container("orders");
    create(&orders).await?;
    read(&orders).await?;
    upsert(&orders).await?;
    replace_if_unchanged(&orders).await?;
    patch(&orders).await?;
    batch(&orders).await?;
    hierarchical_key(database).await?;
    query_one_partition_key(&orders).await?;
    query_with_parameters(&orders).await?;
    query_in_order(&orders).await?;
    query_groups(&orders).await?;
    query_page_by_page(&orders).await?;
    feed_ranges(&orders).await?;
    throughput(&orders).await?;
    errors(&orders).await?;
    diagnostics(&orders).await?;
    session(&orders).await?;
    delete(&orders).await?;
    account.close().await?;
    println!("all twenty tasks ran");
    Ok(())
}

fn connect() -> Result {
    let key = CosmosCredential::key("c2VjcmV0")?;
    let client = CosmosClient::new("https://contoso.documents.azure.com/", key, None)?;
    drop(client);
    Ok(())
}

fn connect_with_settings() -> Result {
    let credential = CosmosCredential::key("c2VjcmV0")?;
    let options = CosmosClientOptions {
        regions: RegionOptions {
            preferred_regions: Some(vec!["West US".into(), "East US".into()]),
            ..Default::default()
        },
        availability: AvailabilityOptions {
            end_to_end_timeout: Some(Duration::from_secs(5)),
            ..Default::default()
        },
        ..Default::default()
    };
    let endpoint = "https://contoso.documents.azure.com/";
    let client = CosmosClient::new(endpoint, credential, Some(options))?;
    drop(client);
    Ok(())
}

async fn create_container(database: &DatabaseClient) -> Result {
    let options = CreateContainerOptions {
        throughput: Some(ThroughputProperties::manual(400)),
        ..Default::default()
    };
    let properties = ContainerProperties::new("orders", "/customer".parse()?);
    database.create_container(properties, Some(options)).await?;
    Ok(())
}

async fn create(orders: &ContainerClient) -> Result {
    let order = json!({"id": "1", "customer": "contoso", "total": 10});
    orders.create_item("contoso", &order, None).await?;
    Ok(())
}

async fn read(orders: &ContainerClient) -> Result {
    let order: Value = orders.read_item("contoso", "1", None).await?.into_model()?;
    drop(order);
    Ok(())
}

async fn upsert(orders: &ContainerClient) -> Result {
    let order = json!({"id": "2", "customer": "contoso", "total": 20});
    let options = ItemOptions {
        write: ItemWriteOptions { content_response_on_write: Some(true), ..Default::default() },
        ..Default::default()
    };
    let stored: Value = orders.upsert_item("contoso", &order, Some(options)).await?.into_model()?;
    drop(stored);
    Ok(())
}

async fn replace_if_unchanged(orders: &ContainerClient) -> Result {
    let response = orders.read_item("contoso", "1", None).await?;
    let write = ItemWriteOptions { if_match_etag: response.etag(), ..Default::default() };
    let mut order: Value = response.into_model()?;
    order["total"] = 11.into();
    let options = ItemOptions { write, ..Default::default() };
    orders.replace_item("contoso", "1", &order, Some(options)).await?;
    Ok(())
}

async fn patch(orders: &ContainerClient) -> Result {
    let patch = Patch::new().set("/status", "shipped").increment("/total", 1);
    orders.patch_item("contoso", "1", patch, None).await?;
    Ok(())
}

async fn batch(orders: &ContainerClient) -> Result {
    let batch = TransactionalBatch::new("contoso")
        .create_item(json!({"id": "3", "customer": "contoso", "total": 30}))
        .delete_item("2", None)
        .patch_item("1", Patch::new().set("/status", "closed"), Some(BatchItemOptions::default()));
    let response = orders.execute_batch(batch, None).await?;
    assert!(response.results().iter().all(|result| result.status().is_success()));
    Ok(())
}

async fn hierarchical_key(database: &DatabaseClient) -> Result {
    let levels = PartitionKeyDefinition::new(["/tenant", "/user"])?;
    database.create_container(ContainerProperties::new("events", levels), None).await?;
    let events = database.container("events");
    let event = json!({"id": "1", "tenant": "contoso", "user": 7});
    events.create_item(("contoso", 7), &event, None).await?;
    let all_of_contoso = events.query("SELECT * FROM c").with_partition_key("contoso");
    assert_eq!(all_of_contoso.items::<Value>().collect().await?.len(), 1);
    Ok(())
}

async fn query_one_partition_key(orders: &ContainerClient) -> Result {
    let query = orders.query("SELECT * FROM c").with_partition_key("contoso");
    let found: Vec<Value> = query.items().collect().await?;
    drop(found);
    Ok(())
}

async fn query_with_parameters(orders: &ContainerClient) -> Result {
    let query =
        orders.query("SELECT * FROM c WHERE c.total >= @least").with_parameter("@least", 10);
    let mut rows = query.items::<Value>();
    while let Some(row) = rows.next().await {
        println!("{}", row?["id"]);
    }
    Ok(())
}

async fn query_in_order(orders: &ContainerClient) -> Result {
    let query = orders.query("SELECT TOP 10 * FROM c ORDER BY c.total DESC");
    let dearest: Vec<Value> = query.items().collect().await?;
    drop(dearest);
    Ok(())
}

async fn query_groups(orders: &ContainerClient) -> Result {
    let text = "SELECT c.customer, SUM(c.total) AS total FROM c GROUP BY c.customer";
    let groups: Vec<Value> = orders.query(text).items().collect().await?;
    let count: Option<u64> = orders.query("SELECT VALUE COUNT(1) FROM c").first().await?;
    drop((groups, count));
    Ok(())
}

async fn query_page_by_page(orders: &ContainerClient) -> Result {
    let query = orders.query("SELECT * FROM c ORDER BY c.total").with_page_size(1);
    if let Some(page) = query.pages::<Value>().next().await {
        let token = page?.continuation()?;
        if let Some(token) = token {
            let rest: Vec<Value> = query.with_continuation(token).items().collect().await?;
            drop(rest);
        }
    }
    Ok(())
}

async fn feed_ranges(orders: &ContainerClient) -> Result {
    for range in orders.read_feed_ranges().await? {
        let query = orders.query("SELECT * FROM c").with_feed_range(range);
        let part: Vec<Value> = query.items().collect().await?;
        drop(part);
    }
    Ok(())
}

async fn throughput(orders: &ContainerClient) -> Result {
    let now = orders.read_throughput(None).await?;
    let scaled = ThroughputProperties::autoscale(4000, None);
    orders.replace_throughput(scaled, None).await?;
    println!("{now:?}");
    Ok(())
}

async fn errors(orders: &ContainerClient) -> Result {
    match orders.read_item("contoso", "none", None).await {
        Ok(response) => println!("{response:?}"),
        Err(error) if error.kind() == ErrorKind::NotFound => println!("there is none"),
        Err(error) if error.may_have_been_applied() => println!("look before you repeat it"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn diagnostics(orders: &ContainerClient) -> Result {
    let response = orders.read_item("contoso", "1", None).await?;
    println!("{} RU in {:?}", response.request_charge(), response.region());
    println!("{}", response.diagnostics());
    Ok(())
}

async fn session(orders: &ContainerClient) -> Result {
    let written =
        orders.upsert_item("contoso", json!({"id": "4", "customer": "contoso"}), None).await?;
    let write = ItemWriteOptions { session_token: written.session_token(), ..Default::default() };
    let options = ItemOptions { write, ..Default::default() };
    orders.read_item("contoso", "4", Some(options)).await?;
    Ok(())
}

async fn delete(orders: &ContainerClient) -> Result {
    orders.delete_item("contoso", "1", None).await?;
    Ok(())
}
