//! Writing what a file describes to the account.

use sidereal::models::PartitionKeyDefinition;
use sidereal::options::{CreateContainerOptions, CreateDatabaseOptions};
use sidereal::{BulkOperation, CosmosClient, DatabaseClient};
use sidereal_emulator::Emulator;

use super::file::{Container, Contents};
use crate::failure::Failure;
use crate::item::without_operation;

/// Creates what is missing and upserts the items; the error begins with the place of what was refused.
pub(super) async fn apply(emulator: &Emulator, contents: &Contents) -> Result<String, String> {
    let plain = |error: sidereal::Error| Failure::from(error).to_string();
    let client = CosmosClient::new(emulator.http_endpoint(), emulator.key().clone(), None);
    let client = client.map_err(plain)?;
    let (mut containers, mut items) = (0, 0);
    for (index, wanted) in contents.databases.iter().enumerate() {
        let place = format!("databases[{index}]");
        let options = CreateDatabaseOptions { throughput: wanted.throughput, ..Default::default() };
        let created = client.create_database_if_not_exists(&wanted.id, Some(options)).await;
        created.map_err(|error| format!("{place}: {}", plain(error)))?;
        let database = client.database(&wanted.id);
        for (index, container) in wanted.containers.iter().enumerate() {
            let place = format!("{place}.containers[{index}]");
            fill(&database, container, &place).await?;
            containers += 1;
            items += container.items.len();
        }
    }
    let databases = contents.databases.len();
    Ok(format!("{databases} databases, {containers} containers, {items} items"))
}

async fn fill(database: &DatabaseClient, wanted: &Container, place: &str) -> Result<(), String> {
    let plain = |error: sidereal::Error| Failure::from(error).to_string();
    let options = CreateContainerOptions { throughput: wanted.throughput, ..Default::default() };
    let created =
        database.create_container_if_not_exists(wanted.properties.clone(), Some(options)).await;
    created.map_err(|error| format!("{place}: {}", plain(error)))?;
    let definition: &PartitionKeyDefinition = &wanted.properties.partition_key;
    let operations =
        wanted.items.iter().map(|item| BulkOperation::upsert_item(definition.extract(item), item));
    let container = database.container(&wanted.properties.id);
    let report = container.bulk().execute(operations).await;
    let report = report.map_err(|error| format!("{place}.items: {}", plain(error)))?;
    let refused = report.failures().next().and_then(|it| Some((it.index(), it.outcome().err()?)));
    match refused {
        Some((index, error)) => {
            Err(format!("{place}.items[{index}]: {}", without_operation(&plain(error))))
        }
        None => Ok(()),
    }
}
