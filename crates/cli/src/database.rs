//! `sidereal db`: the databases of an account.

use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, Subcommand};
use serde_json::json;
use sidereal::models::{DatabaseProperties, ThroughputProperties};
use sidereal::options::CreateDatabaseOptions;
use sidereal::{CosmosClient, ErrorKind, Response};

use crate::account::AccountArguments;
use crate::command::{Confirmation, DiagnosticsArguments, FormatArguments, block_on};
use crate::failure::Failure;
use crate::output;
use crate::throughput::{self, ThroughputArguments};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal db list
  sidereal db create shop
  sidereal db create shop --autoscale 4000
  sidereal db show shop
  sidereal db delete shop --yes")]
pub(crate) struct DatabaseArguments {
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
    /// List the databases.
    #[command(visible_alias = "ls")]
    List,
    /// Create a database.
    Create {
        /// Id of the database.
        id: String,
        #[command(flatten)]
        throughput: ThroughputArguments,
        /// Succeed if there is one of this id.
        #[arg(long)]
        if_not_exists: bool,
    },
    /// Show a database: its throughput and its containers.
    Show {
        /// Id of the database.
        id: String,
    },
    /// Delete a database and all that is in it.
    #[command(visible_alias = "rm")]
    Delete {
        /// Id of the database.
        id: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

pub(crate) fn run(arguments: &DatabaseArguments) -> Result<(), Failure> {
    block_on(async {
        let client = arguments.account.connect()?;
        let told = arguments.diagnostics;
        match &arguments.action {
            Action::List => list(&client, &arguments.format).await,
            Action::Create { id, throughput, if_not_exists } => {
                let created = create(&client, id, throughput.throughput(), *if_not_exists);
                created_or_there(id, told.of(created.await))
            }
            Action::Show { id } => show(&client, id, &arguments.format, told).await,
            Action::Delete { id, confirmation } => delete(&client, id, confirmation, told).await,
        }
    })
}

async fn list(client: &CosmosClient, format: &FormatArguments) -> Result<(), Failure> {
    let found = client.query_databases("SELECT * FROM root", None).collect().await?;
    let row = |database: DatabaseProperties| {
        let changed = database.system.timestamp.map_or_else(|| "-".to_owned(), timestamp);
        (json!(database), [database.id, changed])
    };
    let rows: Vec<_> = found.into_iter().map(row).collect();
    format.print(["DATABASE", "CHANGED"], &rows)
}

async fn create(
    client: &CosmosClient,
    id: &str,
    throughput: Option<ThroughputProperties>,
    if_not_exists: bool,
) -> sidereal::Result<Response<DatabaseProperties>> {
    let options = Some(CreateDatabaseOptions { throughput, ..Default::default() });
    match if_not_exists {
        true => client.create_database_if_not_exists(id, options).await,
        false => client.create_database(id, options).await,
    }
}

/// Says what became of a database that was to be created.
fn created_or_there(
    id: &str,
    created: sidereal::Result<Response<DatabaseProperties>>,
) -> Result<(), Failure> {
    let created = created.map_err(|error| {
        let exists = error.kind() == ErrorKind::Conflict;
        let failure = Failure::from(error);
        if exists {
            failure.with_hint("--if-not-exists accepts one that is there")
        } else {
            failure
        }
    })?;
    let what = if created.status().code() == 201 { "created" } else { "there already" };
    Ok(output::print(&format!("Database {id}: {what}.\n"))?)
}

async fn show(
    client: &CosmosClient,
    id: &str,
    format: &FormatArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let database = client.database(id);
    let properties = diagnostics.of(database.read(None).await);
    let properties = properties.map_err(|error| missing(error, id))?;
    let properties = properties.into_properties()?;
    let throughput = database.read_throughput(None).await?;
    let containers = database.query_containers("SELECT * FROM root", None).collect().await?;
    let ids: Vec<String> = containers.into_iter().map(|container| container.id).collect();
    let facts = [
        ("id", json!(properties.id)),
        ("throughput", throughput::json(throughput)),
        ("containers", json!(ids)),
        ("_rid", json!(properties.system.rid)),
        ("_etag", json!(properties.system.etag)),
        ("_ts", json!(properties.system.timestamp)),
    ];
    format.print_facts(&facts)
}

async fn delete(
    client: &CosmosClient,
    id: &str,
    confirmation: &Confirmation,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    confirmation.ask(&format!("Delete the database {id} with all its containers and items?"))?;
    let deleted = diagnostics.of(client.database(id).delete(None).await);
    deleted.map_err(|error| missing(error, id))?;
    Ok(output::print(&format!("Database {id}: deleted.\n"))?)
}

/// A failure with what this database has to do with it.
pub(crate) fn missing(error: sidereal::Error, id: &str) -> Failure {
    let is_missing = error.kind() == ErrorKind::NotFound;
    let failure = Failure::from(error);
    match is_missing {
        true => Failure::new(failure.status(), format!("there is no database {id}"))
            .with_hint("`sidereal db list` lists those that there are"),
        false => failure,
    }
}

/// The service's time of a change, in seconds since 1970, for people.
fn timestamp(seconds: i64) -> String {
    let since = u64::try_from(seconds).map(Duration::from_secs).unwrap_or_default();
    humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
}
