//! Every header name of the protocol: data, nothing else.
//!
//! Those of HTTP itself (`if-match`, `etag`, `authorization`, …) are in `http::header`.

use http::HeaderName;

/// The version of the API this crate speaks.
pub const API_VERSION: &str = "2020-07-15";

/// Every version of the API that the service takes, from its SDKs.
pub const API_VERSIONS: &[&str] = &[
    "2014-08-21",
    "2015-04-08",
    "2015-06-03",
    "2015-08-06",
    "2015-12-16",
    "2016-05-30",
    "2016-07-11",
    "2016-11-14",
    "2017-01-19",
    "2017-02-22",
    "2017-05-03",
    "2017-11-15",
    "2018-06-18",
    "2018-08-31",
    "2018-09-17",
    "2018-12-31",
    "2019-10-14",
    API_VERSION,
    "2020-11-05",
    "2024-05-15",
    "2024-06-06",
];

/// The version of change feed items that come in envelopes.
pub const CHANGE_FEED_ENVELOPE_VERSION: &str = "2021-09-15";

/// The value of [`READ_KEY_TYPE`] with a range of keys.
pub const EFFECTIVE_PARTITION_KEY_RANGE: &str = "EffectivePartitionKeyRange";

macro_rules! names {
    ($( $(#[$doc:meta])* $constant:ident = $name:literal; )+) => {
        $(
            $(#[$doc])*
            #[doc = concat!("\n\n`", $name, "`")]
            pub const $constant: HeaderName = HeaderName::from_static($name);
        )+

        /// Every name of this list, as text.
        pub const ALL: &[&str] = &[$( $name, )+];
    };
}

names! {
    // Sent with every request.
    /// The API version, [`API_VERSION`].
    VERSION = "x-ms-version";
    /// The date that was signed.
    DATE = "x-ms-date";
    /// One id per client.
    CLIENT_ID = "x-ms-client-id";
    /// One id per request; echoed in the response.
    ACTIVITY_ID = "x-ms-activity-id";
    /// The correlation id: one for all requests of a query.
    CORRELATED_ACTIVITY_ID = "x-ms-cosmos-correlated-activityid";
    /// The client's capabilities, as a sum of bits.
    SDK_SUPPORTED_CAPABILITIES = "x-ms-cosmos-sdk-supportedcapabilities";
    /// Whether the gateway leaves retries of 449 to the client.
    NO_RETRY_449 = "x-ms-noretry-449";
    /// The user agent, from clients that cannot set the usual header.
    USER_AGENT_ALTERNATIVE = "x-ms-useragent";

    // Routing.
    /// The partition key, a JSON array in ASCII.
    PARTITION_KEY = "x-ms-documentdb-partitionkey";
    /// The partition range, asked for or answering.
    PARTITION_KEY_RANGE_ID = "x-ms-documentdb-partitionkeyrangeid";
    /// The inclusive start of a range of effective partition keys.
    START_EPK = "x-ms-start-epk";
    /// The exclusive end of a range of effective partition keys.
    END_EPK = "x-ms-end-epk";
    /// How the range of keys is given.
    READ_KEY_TYPE = "x-ms-read-key-type";
    /// Required on every write to a multi-write account.
    ALLOW_TENTATIVE_WRITES = "x-ms-cosmos-allow-tentative-writes";
    /// Asks for the region that takes the partition's writes.
    HUB_REGION_PROCESSING_ONLY = "x-ms-cosmos-hub-region-processing-only";
    /// The RID the client believes the container has.
    INTENDED_COLLECTION_RID = "x-ms-cosmos-intended-collection-rid";

    // Consistency.
    /// The session token: the LSNs that the session has seen.
    SESSION_TOKEN = "x-ms-session-token";
    /// The consistency of a read.
    CONSISTENCY_LEVEL = "x-ms-consistency-level";
    /// The strategy of a read; replaces the consistency level.
    READ_CONSISTENCY_STRATEGY = "x-ms-cosmos-read-consistency-strategy";

    // Feeds, queries and change feeds.
    /// The continuation token of the last page.
    CONTINUATION = "x-ms-continuation";
    /// The most items of a page; -1 for as many as fit.
    MAX_ITEM_COUNT = "x-ms-max-item-count";
    /// Which change feed is asked for.
    A_IM = "a-im";
    /// The form of change feed items.
    CHANGE_FEED_WIRE_FORMAT_VERSION = "x-ms-cosmos-changefeed-wire-format-version";
    /// Marks a query.
    IS_QUERY = "x-ms-documentdb-isquery";
    /// Marks a request for a query plan.
    IS_QUERY_PLAN_REQUEST = "x-ms-cosmos-is-query-plan-request";
    /// The query features that a client supports.
    SUPPORTED_QUERY_FEATURES = "x-ms-cosmos-supported-query-features";
    /// The version of the query features.
    QUERY_VERSION = "x-ms-cosmos-query-version";
    /// Allows the gateway to ask several partitions.
    ENABLE_CROSS_PARTITION_QUERY = "x-ms-documentdb-query-enablecrosspartition";
    /// Allows the gateway to ask them at once.
    PARALLELIZE_CROSS_PARTITION_QUERY = "x-ms-documentdb-query-parallelizecrosspartitionquery";
    /// Whether the client will follow pages.
    IS_CONTINUATION_EXPECTED = "x-ms-documentdb-query-iscontinuationexpected";
    /// How long a continuation may be.
    RESPONSE_CONTINUATION_TOKEN_LIMIT = "x-ms-documentdb-responsecontinuationtokenlimitinkb";
    /// Allows a query without an index.
    ENABLE_SCAN_IN_QUERY = "x-ms-documentdb-query-enable-scan";
    /// Asks for metrics of a query.
    POPULATE_QUERY_METRICS = "x-ms-documentdb-populatequerymetrics";
    /// Asks which indexes a query used.
    POPULATE_INDEX_METRICS = "x-ms-cosmos-populateindexmetrics";
    /// Asks the same, in a newer form.
    POPULATE_INDEX_METRICS_V2 = "x-ms-cosmos-populateindexmetrics-v2";
    /// Asks for the quota of a container.
    POPULATE_QUOTA_INFO = "x-ms-documentdb-populatequotainfo";

    // Writes.
    /// Makes a create an upsert.
    IS_UPSERT = "x-ms-documentdb-is-upsert";
    /// Marks a batch.
    IS_BATCH_REQUEST = "x-ms-cosmos-is-batch-request";
    /// Whether a batch is atomic.
    BATCH_ATOMIC = "x-ms-cosmos-batch-atomic";
    /// Whether a batch goes on after a failure.
    BATCH_CONTINUE_ON_ERROR = "x-ms-cosmos-batch-continue-on-error";
    /// Whether a write is indexed.
    INDEXING_DIRECTIVE = "x-ms-indexing-directive";
    /// Triggers to run before a write.
    PRE_TRIGGER_INCLUDE = "x-ms-documentdb-pre-trigger-include";
    /// Triggers to run after a write.
    POST_TRIGGER_INCLUDE = "x-ms-documentdb-post-trigger-include";
    /// Asks for what a script prints.
    SCRIPT_ENABLE_LOGGING = "x-ms-documentdb-script-enable-logging";
    /// Whether a write returns what it wrote.
    PREFER = "prefer";

    // Throughput.
    /// The priority of the request under throttling.
    PRIORITY_LEVEL = "x-ms-cosmos-priority-level";
    /// The share of throughput a request draws on.
    THROUGHPUT_BUCKET = "x-ms-cosmos-throughput-bucket";
    /// Fixed throughput of a new database or container.
    OFFER_THROUGHPUT = "x-ms-offer-throughput";
    /// Autoscale of a new database or container.
    OFFER_AUTOPILOT_SETTINGS = "x-ms-cosmos-offer-autopilot-settings";

    /// Makes fixed throughput autoscale.
    MIGRATE_OFFER_TO_AUTOPILOT = "x-ms-cosmos-migrate-offer-to-autopilot";
    /// Makes autoscale fixed throughput.
    MIGRATE_OFFER_TO_MANUAL_THROUGHPUT = "x-ms-cosmos-migrate-offer-to-manual-throughput";

    // Encoding and the thin client.
    /// The forms of JSON a client reads.
    SUPPORTED_SERIALIZATION_FORMATS = "x-ms-cosmos-supported-serialization-formats";
    /// Asks for the locations of the thin client's gateway.
    USE_THIN_CLIENT = "x-ms-cosmos-use-thinclient";
    /// The operation type of the request inside the frame.
    THIN_CLIENT_OPERATION_TYPE = "x-ms-thinclient-proxy-operation-type";
    /// The resource type of the request inside the frame.
    THIN_CLIENT_RESOURCE_TYPE = "x-ms-thinclient-proxy-resource-type";
    /// That the frame holds the start of a range.
    THIN_CLIENT_RANGE_MIN = "x-ms-thinclient-range-min";
    /// That the frame holds the end of a range.
    THIN_CLIENT_RANGE_MAX = "x-ms-thinclient-range-max";
    /// The account, outside the frame.
    GLOBAL_DATABASE_ACCOUNT_NAME = "globaldatabaseaccountname";
    /// The container, outside the frame.
    COLLECTION_RID = "x-ms-documentdb-collection-rid";

    // Distributed transactions.
    /// One id per transaction, however often it is sent.
    IDEMPOTENCY_TOKEN = "x-ms-cosmos-idempotency-token";
    /// The operation type of the transaction.
    OPERATION_TYPE = "x-ms-cosmos-operation-type";
    /// The resource type of the transaction.
    RESOURCE_TYPE = "x-ms-cosmos-resource-type";

    // Responses.
    /// The charge, in request units.
    REQUEST_CHARGE = "x-ms-request-charge";
    /// Refines the status code.
    SUB_STATUS = "x-ms-substatus";
    /// How long to wait before trying again.
    RETRY_AFTER_MS = "x-ms-retry-after-ms";
    /// How long the service took.
    REQUEST_DURATION_MS = "x-ms-request-duration-ms";
    /// The items of a page.
    ITEM_COUNT = "x-ms-item-count";
    /// The log sequence number (LSN) of the partition.
    LSN = "lsn";
    /// The LSN of the item's last write.
    ITEM_LSN = "x-ms-item-lsn";
    /// The local LSN of the partition: the one of the responding region.
    LOCAL_LSN = "x-ms-cosmos-llsn";
    /// The local LSN of the item's last write.
    ITEM_LOCAL_LSN = "x-ms-cosmos-item-llsn";
    /// The global committed LSN: every region has applied it.
    GLOBAL_COMMITTED_LSN = "x-ms-global-committed-lsn";
    /// The LSN that a quorum of replicas has acknowledged.
    QUORUM_ACKED_LSN = "x-ms-quorum-acked-lsn";
    /// The local LSN that a quorum of the region's replicas has acknowledged.
    QUORUM_ACKED_LOCAL_LSN = "x-ms-cosmos-quorum-acked-llsn";
    /// How many regions replicate the partition.
    NUMBER_OF_READ_REGIONS = "x-ms-number-of-read-regions";
    /// The service's internal id of the partition.
    INTERNAL_PARTITION_ID = "x-ms-cosmos-internal-partition-id";
    /// The physical partition.
    PHYSICAL_PARTITION_ID = "x-ms-cosmos-physical-partition-id";
    /// The container, by names.
    OWNER_FULL_NAME = "x-ms-alt-content-path";
    /// The container, by RID.
    OWNER_ID = "x-ms-content-path";
    /// The request on its connection.
    TRANSPORT_REQUEST_ID = "x-ms-transport-request-id";
    /// When the replica last changed its state.
    LAST_STATE_CHANGE_UTC = "x-ms-last-state-change-utc";
    /// The version of the gateway.
    GATEWAY_VERSION = "x-ms-gatewayversion";
    /// The version of the service.
    SERVICE_VERSION = "x-ms-serviceversion";
    /// The version of the stored form.
    SCHEMA_VERSION = "x-ms-schemaversion";
    /// The quota.
    RESOURCE_QUOTA = "x-ms-resource-quota";
    /// The usage against the quota.
    RESOURCE_USAGE = "x-ms-resource-usage";
    /// Whether a change of throughput is still pending.
    OFFER_REPLACE_PENDING = "x-ms-offer-replace-pending";
    /// Which indexes a query used.
    INDEX_UTILIZATION = "x-ms-cosmos-index-utilization";
    /// How a query spent its time.
    QUERY_METRICS = "x-ms-documentdb-query-metrics";
    /// How a query was run.
    QUERY_EXECUTION_INFO = "x-ms-cosmos-query-execution-info";
    /// The log output of a script.
    SCRIPT_LOG_RESULTS = "x-ms-documentdb-script-log-results";
    /// How far a new indexing policy is applied, in percent.
    INDEX_TRANSFORMATION_PROGRESS = "x-ms-documentdb-collection-index-transformation-progress";
    /// How far a lazy index is, in percent.
    LAZY_INDEXING_PROGRESS = "x-ms-documentdb-collection-lazy-indexing-progress";
    /// Whether a delete by partition key is still pending.
    IS_PARTITION_KEY_DELETE_PENDING = "x-ms-cosmos-is-partition-key-delete-pending";
    /// How many replicas a write needs.
    CURRENT_WRITE_QUORUM = "x-ms-current-write-quorum";
    /// How many replicas there are.
    CURRENT_REPLICA_SET_SIZE = "x-ms-current-replica-set-size";
    /// The role of the region in replication.
    XP_ROLE = "x-ms-xp-role";
    /// When a conflict between regions was settled.
    CONFLICT_RESOLVED_TIMESTAMP = "x-ms-cosmos-conflict-resolved-timestamp";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_header_is_listed_twice() {
        let names: HashSet<_> = ALL.iter().collect();
        assert_eq!(names.len(), ALL.len());
    }
}
