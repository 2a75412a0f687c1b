//! The account itself: where it can be read and written, and what it promises.

use http::Method;
use serde_json::{Value, json};
use sidereal_protocol::CosmosStatus;

use super::unsupported;
use crate::account::Account;
use crate::error::Result;
use crate::regions::Region;
use crate::reply::Reply;
use crate::request::Incoming;

/// `GET /`.
pub(super) fn read(account: &Account, incoming: &Incoming) -> Result<Reply> {
    if incoming.method != Method::GET {
        return unsupported(&incoming.method);
    }
    let options = account.options();
    let topology = &incoming.topology;
    let locations = |regions: Vec<usize>| -> Vec<Value> {
        regions.into_iter().map(|region| location(incoming, &topology.regions[region])).collect()
    };
    let id = incoming.uri.host().unwrap_or("localhost");
    let policy =
        json!({ "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 });
    let mut body = json!({
        "_self": "",
        "id": id,
        "_rid": id,
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": locations(topology.writable(incoming.now)),
        "readableLocations": locations(topology.readable()),
        "enableMultipleWriteLocations": topology.multi_write,
        "continuousBackupEnabled": false,
        "enableNRegionSynchronousCommit": false,
        "enablePerPartitionFailoverBehavior": options.partition_failover,
        "disableCrossRegionalHedging": options.hedging_suppressed,
        "userReplicationPolicy": policy,
        "userConsistencyPolicy": { "defaultConsistencyLevel": options.consistency.to_string() },
        "systemReplicationPolicy": policy,
        "readPolicy": { "primaryReadCoefficient": 1, "secondaryReadCoefficient": 1 },
        "queryEngineConfiguration": QUERY_ENGINE,
    });
    if options.thin_client && incoming.typed().uses_thin_client()? {
        body["thinClientWritableLocations"] = body["writableLocations"].clone();
        body["thinClientReadableLocations"] = body["readableLocations"].clone();
    }
    Ok(Reply::json(CosmosStatus::OK, &body))
}

/// A region with its address: the one that the client used, on the region's own port.
fn location(incoming: &Incoming, region: &Region) -> Value {
    let base = incoming.base_url();
    let endpoint = match (region.port, base.rsplit_once(':')) {
        (Some(port), Some((address, last))) if last.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{address}:{port}/")
        }
        (Some(port), _) => format!("{base}:{port}/"),
        (None, _) => format!("{base}/"),
    };
    json!({ "name": region.name.to_string(), "databaseAccountEndpoint": endpoint })
}

/// The limits that clients with a query engine of their own read.
const QUERY_ENGINE: &str = r#"{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}"#;
