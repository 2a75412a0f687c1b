//! The database and the container: created if they are not there, checked if they are.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sidereal::prelude::*;
use sidereal_protocol::{CosmosStatus, IndexingPath, IndexingPolicy, TimeToLive};

use crate::ProviderSetupError;
use crate::clock::ProviderClock;
use crate::config::CosmosDBProviderConfig;
use crate::documents::kinds;
use crate::region::{RegionDecision, RegionQuestion, RequestTerms, check_consistency, decide};
use crate::store::Store;

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
    #[serde(rename = "_etag", default, skip_serializing)]
    etag: Option<Etag>,
}

/// What a provider works with.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) store: Store,
    /// The region that everything is pinned to, if the account has several that take writes.
    pub(crate) region: Option<RegionName>,
}

/// The container, ready to be used.
pub(crate) async fn prepare(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
) -> Result<Prepared, ProviderSetupError> {
    let account = client.read_account().await?.into_properties()?;
    check_consistency(&account).map_err(ProviderSetupError::mismatch)?;
    let properties = properties(&config.container)?;
    create_patiently(client, &config.database, &properties).await?;
    let container = client.database(&config.database).container(&config.container);
    let nearest = check_policy(&container, &properties).await?;
    // In an account with several write regions, the one that all providers agree on without asking.
    let agreed = match account.write_region() {
        Some(region) if account.is_multi_write() => RequestTerms::only_in(region, &account),
        _ => RequestTerms::anywhere(&account),
    };
    let schema = read_schema(&container, &agreed).await?;
    let decision = decide(RegionQuestion {
        account: &account,
        is_first: schema.is_none(),
        stored: schema.as_ref().and_then(|schema| schema.region.as_ref()),
        nearest: nearest.as_ref(),
        moved_to: config.moved_to.as_ref(),
    });
    let region = match decision.map_err(ProviderSetupError::mismatch)? {
        RegionDecision::NotNeeded => None,
        RegionDecision::Stored(region) | RegionDecision::Store(region) => Some(region),
    };
    let stored = store_schema(&container, &agreed, schema, region).await?;
    let region = stored.region.filter(|_| account.is_multi_write());
    let terms = match &region {
        Some(region) => RequestTerms::only_in(region, &account),
        None => RequestTerms::anywhere(&account),
    };
    if region.is_some() {
        await_schema(&container, &terms).await?;
    }
    let clock = ProviderClock::new(config.clock.clone());
    Ok(Prepared { store: Store::new(container, clock, terms), region })
}

/// Waits until the region has what was stored in the one that all providers agree on: the session covers it.
async fn await_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<(), ProviderSetupError> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match container.read_item(OWN_PARTITION, SCHEMA_ID, terms.item()).await {
            Ok(_) => break,
            Err(error) if is_behind(&error) && attempt < ATTEMPTS => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_behind(error: &sidereal::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.status().is_some_and(CosmosStatus::is_read_session_not_available)
}

async fn create_patiently(
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

/// Refuses a container that lacks an index that queries need, or lets documents end that must stay. Says which
/// region has answered.
async fn check_policy(
    container: &ContainerClient,
    wanted: &ContainerProperties,
) -> Result<Option<RegionName>, ProviderSetupError> {
    let response = container.read(None).await?;
    let region = response.region().cloned();
    let there = response.into_properties()?;
    if there.default_ttl != wanted.default_ttl {
        return Err(ProviderSetupError::mismatch(format!(
            "the container {} has another defaultTtl than -1: set it, or use another container",
            there.id
        )));
    }
    let Some(policy) = there.indexing_policy else { return Ok(region) };
    let is_included = |path: &str| {
        let included = |it: &IndexingPath| it.path == path || it.path == "/*";
        policy.included_paths.iter().any(included)
    };
    let missing: Vec<&str> = INDEXED.into_iter().filter(|path| !is_included(path)).collect();
    match missing.is_empty() {
        true => Ok(region),
        false => Err(ProviderSetupError::mismatch(format!(
            "the container {} does not index {}: add them to its indexing policy, or use another container",
            there.id,
            missing.join(", ")
        ))),
    }
}

/// What the container says of itself; none if it is empty. One whose documents are not of this layout is refused.
async fn read_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<Option<SchemaDocument>, ProviderSetupError> {
    match container.read_item(OWN_PARTITION, SCHEMA_ID, terms.item()).await {
        Ok(response) => {
            let schema: SchemaDocument = response.into_model()?;
            return match schema.schema_version == SCHEMA_VERSION {
                true => Ok(Some(schema)),
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
    let query = container.query("SELECT TOP 1 VALUE c.id FROM c").with_options(terms.query());
    let foreign: Option<String> = query.first().await?;
    match foreign {
        None => Ok(None),
        Some(id) => Err(ProviderSetupError::mismatch(format!(
            "the container {} has documents of another application, such as {id}: duroxide-cdb's cannot be read \
             by this provider; use another container",
            container.id()
        ))),
    }
}

/// Stores the layout and the region, if they are not. Says what is stored then: another provider may have been faster.
async fn store_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
    there: Option<SchemaDocument>,
    region: Option<RegionName>,
) -> Result<SchemaDocument, ProviderSetupError> {
    let (is_new, etag) = (there.is_none(), there.as_ref().and_then(|there| there.etag.clone()));
    if let Some(there) = there
        && (region.is_none() || there.region == region)
    {
        return Ok(there);
    }
    let schema = SchemaDocument {
        id: SCHEMA_ID.to_owned(),
        instance_id: OWN_PARTITION.to_owned(),
        kind: kinds::SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        region,
        etag: None,
    };
    let mut options = terms.item().unwrap_or_default();
    options.write.if_match_etag = etag;
    let written = match is_new {
        true => container.create_item(OWN_PARTITION, &schema, Some(options)).await,
        false => container.replace_item(OWN_PARTITION, SCHEMA_ID, &schema, Some(options)).await,
    };
    match written {
        Ok(_) => Ok(schema),
        // Somebody else was faster, or an answer was lost.
        Err(error)
            if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PreconditionFailed) =>
        {
            read_schema(container, terms).await?.ok_or_else(|| error.into())
        }
        Err(error) => Err(error.into()),
    }
}
