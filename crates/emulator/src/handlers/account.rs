//! The account itself: where it can be read and written, and what it promises.

use http::Method;
use serde_json::json;
use sidereal_protocol::CosmosStatus;

use super::unsupported;
use crate::account::Account;
use crate::error::Result;
use crate::reply::Reply;
use crate::request::Incoming;

/// `GET /`.
pub(super) fn read(account: &Account, incoming: &Incoming) -> Result<Reply> {
    if incoming.method != Method::GET {
        return unsupported(&incoming.method);
    }
    let options = account.options();
    let location = json!({
        "name": options.region.to_string(),
        "databaseAccountEndpoint": format!("{}/", incoming.base_url()),
    });
    let id = incoming.uri.host().unwrap_or("localhost");
    let policy =
        json!({ "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 });
    let body = json!({
        "_self": "",
        "id": id,
        "_rid": id,
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": [location],
        "readableLocations": [location],
        "enableMultipleWriteLocations": false,
        "continuousBackupEnabled": false,
        "enableNRegionSynchronousCommit": false,
        "enablePerPartitionFailoverBehavior": false,
        "userReplicationPolicy": policy,
        "userConsistencyPolicy": { "defaultConsistencyLevel": options.consistency.to_string() },
        "systemReplicationPolicy": policy,
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": QUERY_ENGINE,
    });
    Ok(Reply::json(CosmosStatus::OK, &body))
}

/// The limits that clients with a query engine of their own read.
const QUERY_ENGINE: &str = r#"{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}"#;
