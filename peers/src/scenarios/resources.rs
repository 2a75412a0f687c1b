//! Databases, containers and throughput.

use azure_data_cosmos::models::{
    ContainerProperties, ThroughputProperties, TimeToLive, UniqueKey, UniqueKeyPolicy,
};
use azure_data_cosmos::options::CreateContainerOptions;
use futures::TryStreamExt;
use serde_json::json;

use crate::harness::{Failure, Outcome, Peer, create_container, refused, unique};
use crate::{ensure, scenarios};

scenarios! { "resources":
    databases_are_created_read_queried_and_deleted,
    containers_are_created_read_replaced_queried_and_deleted,
    unique_keys_hold_within_a_partition_key,
    fixed_throughput_is_read_and_replaced,
    autoscale_throughput_is_read_and_replaced,
    fixed_throughput_does_not_become_autoscale_without_a_migration,
}

async fn databases_are_created_read_queried_and_deleted(peer: Peer) -> Result<Outcome, Failure> {
    let client = peer.client().await?;
    let name = unique("db");
    client.create_database(&name, None).await?;
    refused(client.create_database(&name, None).await, 409)?;
    let database = client.database_client(name.clone());
    let read = database.read(None).await?.into_model()?;
    ensure!(read.id.as_ref() == Some(&name), "{read:?}");
    let query = azure_data_cosmos::Query::from("SELECT * FROM root r WHERE r.id = @id")
        .with_parameter("@id", &name)?;
    let found: Vec<_> = client.query_databases(query, None).await?.try_collect().await?;
    ensure!(found.len() == 1, "{found:?}");
    database.delete(None).await?;
    refused(database.read(None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn containers_are_created_read_replaced_queried_and_deleted(
    peer: Peer,
) -> Result<Outcome, Failure> {
    let client = peer.client().await?;
    let database = peer.database(&client).await?;
    let properties = ContainerProperties::new("c", "/pk".into());
    let container = create_container(&database, properties.clone(), None).await?;
    refused(database.create_container(properties.clone(), None).await, 409)?;
    let read = container.read(None).await?.into_model()?;
    ensure!(read.partition_key.paths()[0] == "/pk", "{read:?}");
    let expiring = properties.with_default_ttl(60);
    container.replace(expiring, None).await?;
    let read = container.read(None).await?.into_model()?;
    ensure!(read.default_ttl == TimeToLive::Seconds(60), "{read:?}");
    let found: Vec<_> =
        database.query_containers("SELECT * FROM c", None).await?.try_collect().await?;
    ensure!(found.len() == 1, "{found:?}");
    container.delete(None).await?;
    refused(container.read(None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn unique_keys_hold_within_a_partition_key(peer: Peer) -> Result<Outcome, Failure> {
    let client = peer.client().await?;
    let database = peer.database(&client).await?;
    let policy =
        UniqueKeyPolicy::default().with_unique_key(UniqueKey::default().with_path("/email"));
    let properties = ContainerProperties::new("c", "/pk".into()).with_unique_key_policy(policy);
    let container = create_container(&database, properties, None).await?;
    let person = |id: &str, pk: &str| json!({ "id": id, "pk": pk, "email": "x@y" });
    container.create_item("a", "1", person("1", "a"), None).await?;
    refused(container.create_item("a", "2", person("2", "a"), None).await, 409)?;
    container.create_item("b", "2", person("2", "b"), None).await?;
    Ok(Outcome::Passed)
}

async fn fixed_throughput_is_read_and_replaced(peer: Peer) -> Result<Outcome, Failure> {
    let client = peer.client().await?;
    let database = peer.database(&client).await?;
    let options =
        CreateContainerOptions::default().with_throughput(ThroughputProperties::manual(500));
    let properties = ContainerProperties::new("c", "/pk".into());
    let container = create_container(&database, properties, Some(options)).await?;
    let read = container.read_throughput(None).await?.ok_or("no offer")?;
    ensure!(read.throughput() == Some(500), "{read:?}");
    let replaced =
        container.begin_replace_throughput(ThroughputProperties::manual(900), None).await?;
    let replaced = replaced.await?.into_model()?;
    ensure!(replaced.throughput() == Some(900), "{replaced:?}");
    let read = container.read_throughput(None).await?.ok_or("no offer")?;
    ensure!(read.throughput() == Some(900), "{read:?}");
    Ok(Outcome::Passed)
}

async fn autoscale_throughput_is_read_and_replaced(peer: Peer) -> Result<Outcome, Failure> {
    let client = peer.client().await?;
    let database = peer.database(&client).await?;
    let autoscale = |most| ThroughputProperties::autoscale(most, None);
    let options = CreateContainerOptions::default().with_throughput(autoscale(4000));
    let properties = ContainerProperties::new("c", "/pk".into());
    let container = create_container(&database, properties, Some(options)).await?;
    let read = container.read_throughput(None).await?.ok_or("no offer")?;
    ensure!(read.autoscale_maximum() == Some(4000), "{read:?}");
    let replaced =
        container.begin_replace_throughput(autoscale(6000), None).await?.await?.into_model()?;
    ensure!(replaced.autoscale_maximum() == Some(6000), "{replaced:?}");
    Ok(Outcome::Passed)
}

async fn fixed_throughput_does_not_become_autoscale_without_a_migration(
    peer: Peer,
) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let autoscale = ThroughputProperties::autoscale(4000, None);
    let result = match container.begin_replace_throughput(autoscale, None).await {
        Ok(poller) => poller.await,
        Err(error) => Err(error),
    };
    // The SDK has no way to send the header of a migration, so the service refuses as the emulator does.
    refused(result, 400)?;
    Ok(Outcome::SdkLacks(
        "a migration between fixed throughput and autoscale: it sends no header for it".to_owned(),
    ))
}
