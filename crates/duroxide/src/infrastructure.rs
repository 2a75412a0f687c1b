//! The database and the container: created if they are not there, checked if they are.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sidereal::prelude::*;
use sidereal_protocol::{IndexingPath, IndexingPolicy, TimeToLive};

use crate::ProviderSetupError;
use crate::documents::kinds;

/// The version of the documents' layout.
const SCHEMA_VERSION: u32 = 1;

/// The partition of what belongs to the container itself.
const OWN_PARTITION: &str = "__sidereal__";
const SCHEMA_ID: &str = "schema";

/// How often creating is tried, and how long the first pause is; each next one is twice as long.
const ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Properties that queries are about.
const INDEXED: [&str; 24] = [
    "/type/?",
    "/instanceId/?",
    "/dispatchSlot/?",
    "/visibleAt/?",
    "/enqueuedAt/?",
    "/lockedUntil/?",
    "/lockToken/?",
    "/executionId/?",
    "/eventId/?",
    "/status/?",
    "/sessionId/?",
    "/ownerId/?",
    "/parentInstanceId/?",
    "/createdAt/?",
    "/completedAt/?",
    "/customStatusVersion/?",
    "/lastActivity/?",
    "/tag/?",
    "/activityId/?",
    "/owner/?",
    "/isProvisional/?",
    "/isDeleting/?",
    "/stagedTurn/?",
    "/staged/turn/?",
];

/// What the container says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaDocument {
    id: String,
    instance_id: String,
    #[serde(rename = "type")]
    kind: String,
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<RegionName>,
}

/// The container, ready to be used.
pub(crate) async fn prepare(
    client: &CosmosClient,
    database: &str,
    container: &str,
) -> Result<ContainerClient, ProviderSetupError> {
    let properties = properties(container)?;
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
    let container = client.database(database).container(container);
    check_policy(&container, &properties).await?;
    check_schema(&container).await?;
    Ok(container)
}

fn is_worth_waiting(error: &sidereal::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Throttled | ErrorKind::Unavailable | ErrorKind::DeadlineExceeded
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

fn properties(container: &str) -> Result<ContainerProperties, ProviderSetupError> {
    let key = PartitionKeyDefinition::new(["/instanceId"]).map_err(sidereal::Error::from)?;
    let mut properties = ContainerProperties::new(container, key);
    // Documents that have a time to live end by themselves; the others stay.
    properties.default_ttl = Some(TimeToLive::PerItem);
    properties.indexing_policy = Some(policy()?);
    Ok(properties)
}

fn policy() -> Result<IndexingPolicy, ProviderSetupError> {
    let composite = |paths: &[&str]| {
        let path = |path: &&str| json!({"path": path, "order": "ascending"});
        paths.iter().map(path).collect::<Vec<_>>()
    };
    let policy = json!({
        "indexingMode": "consistent",
        "automatic": true,
        "includedPaths": INDEXED.map(|path| json!({"path": path})),
        "excludedPaths": [
            {"path": "/eventData/*"}, {"path": "/workItem/*"}, {"path": "/payload/*"},
            {"path": "/output/*"}, {"path": "/customStatus/*"}, {"path": "/*"},
        ],
        "compositeIndexes": [
            composite(&["/type", "/dispatchSlot", "/visibleAt", "/enqueuedAt"]),
            composite(&["/type", "/visibleAt", "/enqueuedAt"]),
            composite(&["/type", "/executionId", "/eventId"]),
            composite(&["/type", "/status"]),
        ],
    });
    serde_json::from_value(policy)
        .map_err(|error| ProviderSetupError::configuration(format!("the policy is none: {error}")))
}

/// Refuses a container that lacks an index that queries need, or lets documents end that must stay.
async fn check_policy(
    container: &ContainerClient,
    wanted: &ContainerProperties,
) -> Result<(), ProviderSetupError> {
    let there = container.read(None).await?.into_properties()?;
    if there.default_ttl != wanted.default_ttl {
        return Err(ProviderSetupError::mismatch(format!(
            "the container {} has another defaultTtl than -1: set it, or use another container",
            there.id
        )));
    }
    let Some(policy) = there.indexing_policy else { return Ok(()) };
    let is_included = |path: &str| {
        let included = |it: &IndexingPath| it.path == path || it.path == "/*";
        policy.included_paths.iter().any(included)
    };
    let missing: Vec<&str> = INDEXED.into_iter().filter(|path| !is_included(path)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(ProviderSetupError::mismatch(format!(
            "the container {} does not index {}: add them to its indexing policy, or use another container",
            there.id,
            missing.join(", ")
        ))),
    }
}

/// Refuses a container whose documents are not of this layout.
async fn check_schema(container: &ContainerClient) -> Result<(), ProviderSetupError> {
    match container.read_item(OWN_PARTITION, SCHEMA_ID, None).await {
        Ok(response) => {
            let schema: SchemaDocument = response.into_model()?;
            return match schema.schema_version == SCHEMA_VERSION {
                true => Ok(()),
                false => Err(ProviderSetupError::mismatch(format!(
                    "the container {} has documents of layout {}, and this provider knows layout {SCHEMA_VERSION}: \
                     use the provider that wrote them, or another container",
                    container.id(),
                    schema.schema_version
                ))),
            };
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let foreign: Option<String> = container.query("SELECT TOP 1 VALUE c.id FROM c").first().await?;
    if let Some(id) = foreign {
        return Err(ProviderSetupError::mismatch(format!(
            "the container {} has documents of another application, such as {id}: duroxide-cdb's cannot be read \
             by this provider; use another container",
            container.id()
        )));
    }
    let schema = SchemaDocument {
        id: SCHEMA_ID.to_owned(),
        instance_id: OWN_PARTITION.to_owned(),
        kind: kinds::SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        region: None,
    };
    match container.create_item(OWN_PARTITION, &schema, None).await {
        // Somebody else was faster.
        Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
        _ => Ok(()),
    }
}
