//! The definition of the container: its partition key, time to live and indexing policy, and whether an existing one has them.

use serde_json::json;
use sidereal::prelude::*;
use sidereal_protocol::{CompositeOrder, CompositePath, IndexingPath, IndexingPolicy, TimeToLive};

const PARTITION_KEY: &str = "/instanceId";

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

/// Properties that make rare conditions cheap. A container without them works: it was created by an earlier release.
const ALSO_INDEXED: [&str; 2] = ["/retryAt/?", "/lockOwner/?"];

/// The paths of each composite index, all ascending.
const COMPOSITES: [&[&str]; 4] = [
    &["/type", "/dispatchSlot", "/visibleAt", "/enqueuedAt"],
    &["/type", "/visibleAt", "/enqueuedAt"],
    &["/type", "/executionId", "/eventId"],
    &["/type", "/status"],
];

/// The definition of the container, for creating it.
pub(crate) fn properties(container: &str) -> ContainerProperties {
    let key = PartitionKeyDefinition::new([PARTITION_KEY]).expect("the path is constant and valid");
    let mut properties = ContainerProperties::new(container, key);
    // Documents that have a time to live end by themselves; the others stay.
    properties.default_ttl = Some(TimeToLive::PerItem);
    properties.indexing_policy = Some(policy());
    properties
}

fn policy() -> IndexingPolicy {
    let policy = json!({
        "indexingMode": "consistent",
        "automatic": true,
        "includedPaths": INDEXED.iter().chain(&ALSO_INDEXED).map(|path| json!({"path": path})).collect::<Vec<_>>(),
        "excludedPaths": [
            {"path": "/eventData/*"}, {"path": "/workItem/*"}, {"path": "/payload/*"},
            {"path": "/output/*"}, {"path": "/customStatus/*"}, {"path": "/*"},
        ],
        "compositeIndexes": COMPOSITES.map(composite),
    });
    serde_json::from_value(policy).expect("the policy is constant and valid")
}

fn composite(paths: &[&str]) -> Vec<CompositePath> {
    let path =
        |path: &&str| CompositePath { path: (*path).to_owned(), order: CompositeOrder::Ascending };
    paths.iter().map(path).collect()
}

/// Refuses a container that lacks an index that queries need, or whose documents end that must stay. More indexes are
/// accepted.
pub(crate) fn check(there: &ContainerProperties) -> Result<(), String> {
    let (id, default_ttl) = (&there.id, Some(TimeToLive::PerItem));
    if there.default_ttl != default_ttl {
        return Err(format!(
            "the container {id} has another defaultTtl than -1: set it, or use another container"
        ));
    }
    let paths = there.partition_key.paths();
    if paths.iter().map(ToString::to_string).ne([PARTITION_KEY]) {
        return Err(format!(
            "the container {id} has another partition key than {PARTITION_KEY}: use another container"
        ));
    }
    let missing = there.indexing_policy.as_ref().map(missing_indexes).unwrap_or_default();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the container {id} lacks indexes: add to its indexing policy {}, or use another container",
            missing.join(" and ")
        )),
    }
}

/// The indexes that a policy lacks, as the properties of a policy.
fn missing_indexes(policy: &IndexingPolicy) -> Vec<String> {
    let is_included = |path: &str| {
        let included = |it: &IndexingPath| it.path == path || it.path == "/*";
        policy.included_paths.iter().any(included)
    };
    let paths: Vec<_> = INDEXED.into_iter().filter(|path| !is_included(path)).collect();
    let has_composite = |wanted: &Vec<CompositePath>| {
        policy.composite_indexes.iter().any(|it| serves_order(it, wanted))
    };
    let composites: Vec<_> =
        COMPOSITES.into_iter().map(composite).filter(|wanted| !has_composite(wanted)).collect();
    let mut missing = Vec::new();
    if !paths.is_empty() {
        let paths: Vec<_> = paths.iter().map(|path| json!({"path": path})).collect();
        missing.push(format!("\"includedPaths\": {}", json!(paths)));
    }
    if !composites.is_empty() {
        missing.push(format!("\"compositeIndexes\": {}", json!(composites)));
    }
    missing
}

/// Whether a composite index has these paths. The service reads an index backwards as well, so the opposite of all directions
/// will do.
fn serves_order(index: &[CompositePath], wanted: &[CompositePath]) -> bool {
    let has_same_paths = index.iter().map(|it| &it.path).eq(wanted.iter().map(|it| &it.path));
    let is_one_way = index.windows(2).all(|pair| pair[0].order == pair[1].order);
    has_same_paths && is_one_way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut ContainerProperties)) -> String {
        let mut there = properties("c");
        change(&mut there);
        check(&there).unwrap_err()
    }

    fn policy_of(there: &mut ContainerProperties) -> &mut IndexingPolicy {
        there.indexing_policy.as_mut().unwrap()
    }

    #[test]
    fn its_own_definition_and_one_with_more_indexes_are_accepted() {
        let mut there = properties("c");
        assert_eq!(check(&there), Ok(()));
        let policy = policy_of(&mut there);
        policy.included_paths = vec![IndexingPath::new("/*")];
        policy.composite_indexes.push(composite(&["/a", "/b"]));
        for path in &mut policy.composite_indexes[0] {
            path.order = CompositeOrder::Descending;
        }
        assert_eq!(check(&there), Ok(()));
    }

    #[test]
    fn missing_indexes_are_named_as_a_policy_has_them() {
        let told = refused(|there| {
            policy_of(there).included_paths.retain(|it| it.path != "/tag/?");
        });
        assert!(told.contains(r#""includedPaths": [{"path":"/tag/?"}]"#), "{told}");
        assert!(!told.contains("compositeIndexes"), "{told}");
        let told = refused(|there| {
            policy_of(there).composite_indexes.remove(3);
            policy_of(there).composite_indexes[1][2].order = CompositeOrder::Descending;
        });
        assert!(
            told.contains(r#"[{"path":"/type","order":"ascending"},{"path":"/status""#),
            "{told}"
        );
        assert!(told.contains("/enqueuedAt") && !told.contains("/dispatchSlot"), "{told}");
    }

    #[test]
    fn another_time_to_live_or_partition_key_is_refused() {
        assert!(refused(|there| there.default_ttl = None).contains("defaultTtl"));
        let other = PartitionKeyDefinition::new(["/id"]).unwrap();
        assert!(refused(|there| there.partition_key = other).contains("/instanceId"));
    }

    /// The documentation has the policy for those who create the container by other means.
    #[test]
    fn the_documented_policy_is_the_one_of_the_container() {
        let text = include_str!("../../../docs/provider-data-model.md");
        let (_, text) = text.split_once("```json\n").unwrap();
        let (text, _) = text.split_once("```").unwrap();
        let documented: IndexingPolicy = serde_json::from_str(text).unwrap();
        assert_eq!(documented, policy());
    }
}
