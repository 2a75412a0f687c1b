//! The definition of the container: its partition key, time to live and indexing policy, and whether an existing one has them.

use serde_json::json;
use sidereal::prelude::*;
use sidereal_protocol::{IndexingPath, IndexingPolicy, TimeToLive};

use crate::ProviderSetupError;

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

pub(super) fn properties(container: &str) -> Result<ContainerProperties, ProviderSetupError> {
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
pub(super) async fn check_policy(
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
