//! The container and its database: read first, and created only if they are missing.
//!
//! A credential of the data plane (Entra ID) may use what exists, and can create neither databases nor containers.

use std::time::Duration;

use sidereal::options::CreateContainerOptions;
use sidereal::prelude::*;
use sidereal::{Error, Response};

use crate::ProviderSetupError;
use crate::config::CosmosDBProviderConfig;

/// How often creating is tried, and how long the first pause is; each next one is twice as long.
pub(super) const ATTEMPTS: u32 = 10;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A request that the start of a provider consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    ReadAccount,
    ReadContainer,
    CreateContainer,
    CreateDatabase,
}

/// Opens the container. Creates it, and its database, if it is missing.
pub(super) async fn open(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
    wanted: &ContainerProperties,
) -> Result<Response<ContainerProperties>, ProviderSetupError> {
    let (mut attempt, mut pause) = (1, FIRST_PAUSE);
    loop {
        match read_or_create(client, config, wanted).await {
            Ok(opened) => return Ok(opened),
            Err((step, error)) if attempt < ATTEMPTS && is_worth_waiting(step, &error) => {
                tracing::debug!(%error, attempt, "the container is opened later");
            }
            Err((step, error)) => return Err(explain(step, error, config)),
        }
        tokio::time::sleep(pause).await;
        (attempt, pause) = (attempt + 1, pause * 2);
    }
}

fn is_worth_waiting(step: Step, error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Throttled
        | ErrorKind::Overloaded
        | ErrorKind::Unavailable
        | ErrorKind::DeadlineExceeded => true,
        // It was created a moment ago, and the region that reads is behind.
        ErrorKind::NotFound => step == Step::ReadContainer,
        _ => false,
    }
}

async fn read_or_create(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
    wanted: &ContainerProperties,
) -> Result<Response<ContainerProperties>, (Step, Error)> {
    let container = client.database(&config.database).container(&config.container);
    let read = async || container.read(None).await.map_err(|error| (Step::ReadContainer, error));
    match read().await {
        Err((_, error)) if error.kind() == ErrorKind::NotFound => {}
        read => return read,
    }
    match create_container(client, config, wanted).await {
        // The database is missing too.
        Err((_, error)) if error.kind() == ErrorKind::NotFound => {
            let created = client.create_database(&config.database, None).await;
            unless_it_exists(created).map_err(|error| (Step::CreateDatabase, error))?;
            create_container(client, config, wanted).await?;
        }
        created => created?,
    }
    read().await
}

async fn create_container(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
    wanted: &ContainerProperties,
) -> Result<(), (Step, Error)> {
    let options = CreateContainerOptions { throughput: config.throughput, ..Default::default() };
    let database = client.database(&config.database);
    let created = database.create_container(wanted.clone(), Some(options)).await;
    unless_it_exists(created).map_err(|error| (Step::CreateContainer, error))
}

/// A conflict means that another process was faster, or that the response to an earlier attempt was lost.
fn unless_it_exists<T>(created: sidereal::Result<T>) -> sidereal::Result<()> {
    match created {
        Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
        _ => Ok(()),
    }
}

/// The error of a step, with the right that a refused credential lacks.
pub(super) fn explain(
    step: Step,
    error: Error,
    config: &CosmosDBProviderConfig,
) -> ProviderSetupError {
    if error.kind() != ErrorKind::Unauthorized {
        return error.into();
    }
    let (database, container) = (&config.database, &config.container);
    let is_create = matches!(step, Step::CreateContainer | Step::CreateDatabase);
    let sentence = match step {
        Step::ReadAccount => "the account cannot be read".to_owned(),
        Step::ReadContainer => format!("the container {database}/{container} cannot be read"),
        Step::CreateContainer | Step::CreateDatabase => {
            format!("the container {database}/{container} does not exist and cannot be created")
        }
    };
    let advice = match is_create {
        true => format!(
            "create the database {database} and in it the container {container} with the partition key \
             /instanceId, the defaultTtl -1 and the indexing policy of CosmosDBProviderConfig::container_properties \
             (also in docs/provider-data-model.md), or use an account key: roles of the data plane (Entra ID) can create \
             neither databases nor containers"
        ),
        false => "check the key, or the role of the data plane (Entra ID), which is for example Cosmos DB Built-in Data \
                  Contributor"
            .to_owned(),
    };
    ProviderSetupError::refused(format!("{sentence}: {error}; {advice}"), error)
}
