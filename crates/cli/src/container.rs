//! `sidereal container`: the containers of a database.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use sidereal::models::{
    ContainerProperties, IndexingPolicy, PartitionKeyDefinition, TimeToLive, UniqueKey,
    UniqueKeyPolicy,
};
use sidereal::options::CreateContainerOptions;
use sidereal::{CosmosClient, ErrorKind};

use crate::account::{AccountArguments, ContainerName};
use crate::command::{Confirmation, DiagnosticsArguments, FormatArguments, block_on};
use crate::database;
use crate::failure::Failure;
use crate::output;
use crate::throughput::{self, ThroughputArguments};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal container create shop/orders --partition-key /customer --throughput 1000
  sidereal container create shop/events --partition-key /tenant,/user --ttl 86400
  sidereal container list shop
  sidereal container show shop/orders
  sidereal container delete shop/orders --yes")]
pub(crate) struct ContainerArguments {
    #[command(flatten)]
    account: AccountArguments,
    #[command(flatten)]
    format: FormatArguments,
    #[command(flatten)]
    diagnostics: DiagnosticsArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the containers of a database.
    #[command(visible_alias = "ls")]
    List {
        /// Id of the database.
        database: String,
    },
    /// Create a container.
    Create(Box<CreateArguments>),
    /// Show a container: its key, policies and throughput, and its partition ranges.
    Show {
        /// The container, as database/container.
        container: ContainerName,
    },
    /// Delete a container and its items.
    #[command(visible_alias = "rm")]
    Delete {
        /// The container, as database/container.
        container: ContainerName,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

#[derive(Args, Debug)]
struct CreateArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// Paths of the partition key: one, or up to three of a hierarchical key with commas between.
    #[arg(long, value_name = "PATHS")]
    partition_key: PartitionKeyDefinition,
    #[command(flatten)]
    throughput: ThroughputArguments,
    /// Items expire so many seconds after their last change; -1 if each says so itself.
    #[arg(long, value_name = "SECONDS", value_parser = time_to_live, allow_negative_numbers = true)]
    ttl: Option<TimeToLive>,
    /// Paths whose values are unique within a partition key, with commas between; may be repeated.
    #[arg(long, value_name = "PATHS", value_parser = unique_key)]
    unique_key: Vec<UniqueKey>,
    /// Indexing policy, as JSON.
    #[arg(long, value_name = "JSON", value_parser = indexing_policy)]
    indexing_policy: Option<IndexingPolicy>,
    /// Succeed if there is one of this id and this partition key.
    #[arg(long)]
    if_not_exists: bool,
}

fn time_to_live(text: &str) -> Result<TimeToLive, String> {
    serde_json::from_str(text)
        .map_err(|_| "expected a number of seconds greater than 0, or -1".to_owned())
}

fn unique_key(text: &str) -> Result<UniqueKey, String> {
    let paths: Vec<String> = text.split(',').map(|path| path.trim().to_owned()).collect();
    match paths.iter().all(|path| path.starts_with('/')) {
        true => Ok(UniqueKey { paths, ..Default::default() }),
        false => Err("expected paths such as /email or /first,/last".to_owned()),
    }
}

fn indexing_policy(text: &str) -> Result<IndexingPolicy, String> {
    serde_json::from_str(text).map_err(|error| format!("this is no indexing policy: {error}"))
}

pub(crate) fn run(arguments: &ContainerArguments) -> Result<(), Failure> {
    block_on(async {
        let client = arguments.account.connect()?;
        let told = arguments.diagnostics;
        match &arguments.action {
            Action::List { database } => list(&client, database, &arguments.format).await,
            Action::Create(arguments) => create(&client, arguments, told).await,
            Action::Show { container } => show(&client, container, &arguments.format, told).await,
            Action::Delete { container, confirmation } => {
                delete(&client, container, confirmation, told).await
            }
        }
    })
}

async fn list(
    client: &CosmosClient,
    database: &str,
    format: &FormatArguments,
) -> Result<(), Failure> {
    let containers = client.database(database).query_containers("SELECT * FROM root", None);
    let found = containers.collect().await.map_err(|error| database::missing(error, database))?;
    let row = |container: ContainerProperties| {
        let value = json!(container);
        let key = container.partition_key.to_string();
        (value, [container.id, key, describe_ttl(container.default_ttl)])
    };
    let rows: Vec<_> = found.into_iter().map(row).collect();
    format.print(["CONTAINER", "PARTITION KEY", "TTL"], &rows)
}

fn describe_ttl(ttl: Option<TimeToLive>) -> String {
    match ttl {
        None => "-".to_owned(),
        Some(TimeToLive::PerItem) => "by item".to_owned(),
        Some(TimeToLive::Seconds(seconds)) => format!("{seconds} s"),
    }
}

async fn create(
    client: &CosmosClient,
    arguments: &CreateArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let name = &arguments.container;
    let database = client.database(&name.database);
    let options = CreateContainerOptions {
        throughput: arguments.throughput.throughput(),
        ..Default::default()
    };
    let created = match arguments.if_not_exists {
        true => {
            database.create_container_if_not_exists(arguments.properties(), Some(options)).await
        }
        false => database.create_container(arguments.properties(), Some(options)).await,
    };
    let created = diagnostics.of(created).map_err(|error| match error.kind() {
        ErrorKind::Conflict => Failure::from(error)
            .with_hint("--if-not-exists accepts one with the same partition key"),
        _ => database::missing(error, &name.database),
    })?;
    let what = if created.status().code() == 201 { "created" } else { "there already" };
    Ok(output::print(&format!("Container {name}: {what}.\n"))?)
}

impl CreateArguments {
    fn properties(&self) -> ContainerProperties {
        let id = self.container.container.as_str();
        let mut properties = ContainerProperties::new(id, self.partition_key.clone());
        properties.default_ttl = self.ttl;
        properties.indexing_policy.clone_from(&self.indexing_policy);
        if !self.unique_key.is_empty() {
            let unique_keys = self.unique_key.clone();
            properties.unique_key_policy = Some(UniqueKeyPolicy { unique_keys });
        }
        properties
    }
}

async fn show(
    client: &CosmosClient,
    name: &ContainerName,
    format: &FormatArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let container = name.client(client);
    let read = diagnostics.of(container.read(None).await);
    let read = read.map_err(|error| name.explain(error))?;
    let properties = read.into_properties()?;
    let throughput = container.read_throughput(None).await?;
    let ranges = container.read_feed_ranges().await?;
    // The text of a feed range is JSON, and is what other commands and SDKs take it as.
    let range = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    let ranges: Vec<Value> = ranges.iter().map(|it| range(it.to_string())).collect();
    let facts = [
        ("id", json!(properties.id)),
        ("partitionKey", json!(properties.partition_key)),
        ("throughput", throughput::json(throughput)),
        ("defaultTtl", json!(properties.default_ttl)),
        ("uniqueKeyPolicy", json!(properties.unique_key_policy)),
        ("conflictResolutionPolicy", json!(properties.conflict_resolution_policy)),
        ("indexingPolicy", json!(properties.indexing_policy)),
        ("partitions", json!(ranges.len())),
        ("feedRanges", json!(ranges)),
        ("_rid", json!(properties.system.rid)),
        ("_etag", json!(properties.system.etag)),
        ("_ts", json!(properties.system.timestamp)),
    ];
    format.print_facts(&facts)
}

async fn delete(
    client: &CosmosClient,
    name: &ContainerName,
    confirmation: &Confirmation,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    confirmation.ask(&format!("Delete the container {name} with all its items?"))?;
    let deleted = diagnostics.of(name.client(client).delete(None).await);
    deleted.map_err(|error| name.explain(error))?;
    Ok(output::print(&format!("Container {name}: deleted.\n"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_seconds_or_by_item() {
        assert_eq!(time_to_live("60"), Ok(TimeToLive::Seconds(60)));
        assert_eq!(time_to_live("-1"), Ok(TimeToLive::PerItem));
        for wrong in ["0", "-2", "soon", ""] {
            assert!(time_to_live(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_unique_key_is_a_list_of_paths() {
        assert_eq!(unique_key("/a, /b").unwrap().paths, ["/a", "/b"]);
        assert!(unique_key("a").is_err() && unique_key("/a,").is_err());
    }
}
