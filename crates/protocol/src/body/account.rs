//! The account's description of itself: its regions, and how it behaves.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::levels::ConsistencyLevel;
use crate::region::RegionName;
use crate::wire::{readable_elements, readable_or_default};

/// The account's description of itself: the answer to `GET /`.
///
/// Nearly everything is optional: emulators leave out much of it. A field or a location that cannot be read counts as
/// absent: whatever the service writes there one day, the others still say where the account is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AccountProperties {
    /// The account's name; from a regional endpoint, the name with the region appended.
    #[serde(deserialize_with = "readable_or_default")]
    pub id: String,
    /// The RID, if the service gave one.
    #[serde(
        rename = "_rid",
        deserialize_with = "readable_or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub rid: Option<String>,
    /// The regions that take writes; several for a moment during a failover.
    #[serde(deserialize_with = "readable_elements")]
    pub writable_locations: Vec<AccountLocation>,
    /// The regions that take reads, the write region first.
    #[serde(deserialize_with = "readable_elements")]
    pub readable_locations: Vec<AccountLocation>,
    /// Where the thin client may write; only if it was asked for.
    #[serde(deserialize_with = "readable_elements", skip_serializing_if = "Vec::is_empty")]
    pub thin_client_writable_locations: Vec<AccountLocation>,
    /// Where the thin client may read; only if it was asked for.
    #[serde(deserialize_with = "readable_elements", skip_serializing_if = "Vec::is_empty")]
    pub thin_client_readable_locations: Vec<AccountLocation>,
    /// Whether every region takes writes.
    #[serde(deserialize_with = "readable_or_default")]
    pub enable_multiple_write_locations: bool,
    /// Whether automatic partition failover is on.
    #[serde(deserialize_with = "readable_or_default")]
    pub enable_per_partition_failover_behavior: bool,
    /// Whether hedging is to be off; absent means that the last answer still holds.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub disable_cross_regional_hedging: Option<bool>,
    /// The consistency of reads that ask for nothing else.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub user_consistency_policy: Option<AccountConsistency>,
    /// The replicas of each partition.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub user_replication_policy: Option<ReplicationPolicy>,
    /// The replicas of the account's own data.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub system_replication_policy: Option<ReplicationPolicy>,
    /// How reads are spread over replicas.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub read_policy: Option<ReadPolicy>,
    /// Settings of the query engine: JSON inside a string.
    #[serde(deserialize_with = "readable_or_default", skip_serializing_if = "Option::is_none")]
    pub query_engine_configuration: Option<String>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl AccountProperties {
    /// The consistency of the account; session if it does not say, or names a level that is not known here: requests
    /// then carry session tokens, which no level minds and all weaker ones need.
    pub fn default_consistency(&self) -> ConsistencyLevel {
        self.user_consistency_policy
            .as_ref()
            .map_or(ConsistencyLevel::Session, |policy| policy.default_consistency_level)
    }

    /// The region that takes writes, or the first of several.
    pub fn write_region(&self) -> Option<&RegionName> {
        self.writable_locations.first().map(|location| &location.name)
    }

    /// Whether the account accepts writes in more than one region for good, not for the moment of
    /// a failover.
    pub fn is_multi_write(&self) -> bool {
        self.enable_multiple_write_locations && self.writable_locations.len() > 1
    }
}

/// A region of the account and where it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountLocation {
    /// The region.
    pub name: RegionName,
    /// Its URL; always this one, never one put together from names.
    pub database_account_endpoint: String,
}

/// The consistency policy of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountConsistency {
    /// The level.
    pub default_consistency_level: ConsistencyLevel,
    /// The bounds of bounded staleness, and whatever else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The replicas of a partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicationPolicy {
    /// Whether replication is asynchronous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_replication: Option<bool>,
    /// The fewest replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replica_set_size: Option<u32>,
    /// The most replicas; the service spells it so.
    #[serde(rename = "maxReplicasetSize", skip_serializing_if = "Option::is_none")]
    pub max_replica_set_size: Option<u32>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How reads are spread over replicas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadPolicy {
    /// The share of the primary.
    pub primary_read_coefficient: f64,
    /// The share of each secondary.
    pub secondary_read_coefficient: f64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::regions;

    #[test]
    fn an_account_round_trips_with_fields_nobody_knows() {
        let json = json!({
            "_self": "", "id": "shop", "_rid": "shop.documents.azure.com", "media": "//media/",
            "addresses": "//addresses/", "_dbs": "//dbs/",
            "writableLocations": [{"name": "West US 2",
                "databaseAccountEndpoint": "https://shop-westus2.documents.azure.com:443/"}],
            "readableLocations": [{"name": "West US 2",
                "databaseAccountEndpoint": "https://shop-westus2.documents.azure.com:443/"}],
            "enableMultipleWriteLocations": false,
            "enablePerPartitionFailoverBehavior": true,
            "userReplicationPolicy": {"asyncReplication": false, "minReplicaSetSize": 3,
                "maxReplicasetSize": 4},
            "userConsistencyPolicy": {"defaultConsistencyLevel": "BoundedStaleness",
                "maxStalenessPrefix": 100},
            "readPolicy": {"primaryReadCoefficient": 1.0, "secondaryReadCoefficient": 1.0},
            "queryEngineConfiguration": "{\"maxSqlQueryInputLength\":262144}",
            "continuousBackupEnabled": false,
        });
        let account: AccountProperties = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(account.write_region(), Some(&regions::WEST_US_2));
        assert_eq!(account.default_consistency(), ConsistencyLevel::BoundedStaleness);
        assert_eq!(serde_json::to_value(account).unwrap(), json);
    }

    /// One odd field cost the account its regions, and so every failover.
    #[test]
    fn what_cannot_be_read_counts_as_absent() {
        let west = json!({"name": "West US 2", "databaseAccountEndpoint": "https://west/", "x": 1});
        let account: AccountProperties = serde_json::from_value(json!({
            "id": 7,
            "writableLocations": [{"databaseAccountEndpoint": "https://nameless/"}, west],
            "readableLocations": [west, null, {"name": "East US"}, "UK South"],
            "thinClientReadableLocations": {},
            "enableMultipleWriteLocations": "perhaps",
            "disableCrossRegionalHedging": [],
            "userConsistencyPolicy": {"defaultConsistencyLevel": "Telepathic"},
            "readPolicy": "all",
            "queryEngineConfiguration": {},
        }))
        .unwrap();
        let names = |locations: &[AccountLocation]| {
            locations.iter().map(|it| it.name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&account.writable_locations), ["West US 2"]);
        assert_eq!(names(&account.readable_locations), ["West US 2"]);
        assert_eq!(account.default_consistency(), ConsistencyLevel::Session);
        assert!(!account.is_multi_write() && account.disable_cross_regional_hedging.is_none());
    }

    #[test]
    fn an_account_may_say_almost_nothing() {
        let account: AccountProperties =
            serde_json::from_str(r#"{"id":"x","readableLocations":null}"#).unwrap();
        assert_eq!(account.default_consistency(), ConsistencyLevel::Session);
        assert_eq!(account.disable_cross_regional_hedging, None);
        assert!(!account.is_multi_write());
    }
}
