//! The creation of the database and the container.

use std::time::Duration;

use sidereal::prelude::*;

use crate::ProviderSetupError;

/// How often creating is tried, and how long the first pause is; each next one is twice as long.
pub(super) const ATTEMPTS: u32 = 10;
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(500);

pub(super) async fn create_patiently(
    client: &CosmosClient,
    database: &str,
    properties: &ContainerProperties,
) -> Result<(), ProviderSetupError> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match create(client, database, properties.clone()).await {
            Ok(()) => break,
            Err(error) if is_worth_waiting(&error) && attempt < ATTEMPTS => {
                tracing::debug!(%error, "the container is created later");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_worth_waiting(error: &sidereal::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Throttled
            | ErrorKind::Overloaded
            | ErrorKind::Unavailable
            | ErrorKind::DeadlineExceeded
    )
}

async fn create(
    client: &CosmosClient,
    database: &str,
    properties: ContainerProperties,
) -> sidereal::Result<()> {
    client.create_database_if_not_exists(database, None).await?;
    let database = client.database(database);
    database.create_container_if_not_exists(properties, None).await?;
    Ok(())
}
