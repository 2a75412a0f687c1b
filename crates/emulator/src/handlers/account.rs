//! The account itself: where it can be read and written, and what it promises.

use serde_json::{Value, json};
use sidereal_protocol::CosmosStatus;

use crate::advertised_host::AdvertisedHost;
use crate::error::Result;
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::topology::Region;

/// `GET /`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let options = &account.options;
    let topology = &request.topology;
    let used = request.base_url();
    let locations = |regions: Vec<usize>| -> Vec<Value> {
        let regions = regions.into_iter().map(|region| &topology.regions[region]);
        regions.map(|region| location(&used, options.advertised_host.as_ref(), region)).collect()
    };
    let id = request.uri.host().unwrap_or("localhost");
    let policy =
        json!({ "asyncReplication": false, "minReplicaSetSize": 1, "maxReplicasetSize": 4 });
    let mut body = json!({
        // The links are constants on the service too.
        "_self": "",
        "id": id,
        "_rid": id,
        "media": "//media/",
        "addresses": "//addresses/",
        "_dbs": "//dbs/",
        "writableLocations": locations(topology.writable(request.now)),
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
    // Only to clients that ask for them with a header, as on the service.
    if options.thin_client && request.typed().uses_thin_client()? {
        body["thinClientWritableLocations"] = body["writableLocations"].clone();
        body["thinClientReadableLocations"] = body["readableLocations"].clone();
    }
    Ok(Reply::json(CosmosStatus::OK, &body))
}

/// A region with the URL that clients are to use for it.
fn location(used: &str, host: Option<&AdvertisedHost>, region: &Region) -> Value {
    let endpoint = match (&region.advertised_url, host) {
        (Some(url), _) => url.to_string(),
        (None, Some(host)) => derived_url(&host.for_region(&region.name).in_url(used), region.port),
        (None, None) => derived_url(used, region.port),
    };
    json!({ "name": region.name.to_string(), "databaseAccountEndpoint": endpoint })
}

/// The scheme and host that the client used or is told to use, on the region's own port: right for a client
/// that came over a port forwarding or a container's network as well.
fn derived_url(base: &str, port: Option<u16>) -> String {
    match (port, base.rsplit_once(':')) {
        // What follows the last colon is a port, not the end of an IPv6 address or of the scheme.
        (Some(port), Some((address, last))) if last.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{address}:{port}/")
        }
        (Some(port), _) => format!("{base}:{port}/"),
        (None, _) => format!("{base}/"),
    }
}

/// The limits that clients with a query engine of their own read.
const QUERY_ENGINE: &str = r#"{"maxSqlQueryInputLength":524288,"maxJoinsPerSqlQuery":10,"maxLogicalAndPerSqlQuery":2000,"maxLogicalOrPerSqlQuery":2000,"maxUdfRefPerSqlQuery":10,"maxInExpressionItemsCount":16000,"queryMaxInMemorySortDocumentCount":500,"maxQueryRequestTimeoutFraction":0.9,"sqlAllowNonFiniteNumbers":false,"sqlAllowAggregateFunctions":true,"sqlAllowSubQuery":true,"sqlAllowScalarSubQuery":true,"allowNewKeywords":true,"sqlAllowLike":true,"sqlAllowGroupByClause":true,"maxSpatialQueryCells":12,"spatialMaxGeometryPointCount":256,"sqlDisableOptimizationFlags":0,"sqlAllowTop":true,"enableSpatialIndexing":true}"#;
