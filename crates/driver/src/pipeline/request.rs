//! From an operation to the request of one attempt.

use std::time::Instant;

use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue};
use sidereal_protocol::headers::names;
use sidereal_protocol::{OperationType, RegionName};
use uuid::Uuid;

use crate::diagnostics::ExecutionContext;
use crate::options::RequestOptionsView;
use crate::transport::{AuthorizationContext, Endpoint, ThrottleRetryState, TransportRequest};
use crate::{CosmosOperation, Error};

// Spelt as the .NET SDK spells them (`bool.TrueString`).
const TRUE: HeaderValue = HeaderValue::from_static("True");
const FALSE: HeaderValue = HeaderValue::from_static("False");
/// What the service demands of a patch; its own media type, not that of RFC 6902.
const PATCH_JSON: HeaderValue = HeaderValue::from_static("application/json_patch+json");
const QUERY_JSON: HeaderValue = HeaderValue::from_static("application/query+json");

/// Where an attempt goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutingDecision {
    /// The endpoint.
    pub(crate) endpoint: Endpoint,
    /// Its region, where it is known.
    pub(crate) region: Option<RegionName>,
}

/// What an attempt needs beside the operation and its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptTerms<'a> {
    /// What the call and the settings ask of the service.
    pub(crate) options: &'a RequestOptionsView<'a>,
    /// The id of the operation.
    pub(crate) activity_id: Uuid,
    /// Why the attempt is made.
    pub(crate) execution_context: ExecutionContext,
    /// When the operation ends.
    pub(crate) deadline: Option<Instant>,
    /// The retry budgets at one endpoint.
    pub(crate) throttling: ThrottleRetryState,
}

/// The request of one attempt at an operation.
///
/// # Errors
///
/// The operation's path or partition key cannot be sent.
pub(crate) fn build_transport_request(
    operation: &CosmosOperation,
    routing: &RoutingDecision,
    terms: &AttemptTerms<'_>,
) -> Result<TransportRequest, Error> {
    let path = PathAndQuery::try_from(operation.path().encode())
        .map_err(|error| Error::invalid("the operation's path cannot be sent", error))?;
    let auth_context = AuthorizationContext {
        resource_type: operation.path().kind(),
        signed_link: operation.path().signed_link().into_owned(),
    };
    Ok(TransportRequest {
        method: operation.operation_type().method(),
        endpoint: routing.endpoint.clone(),
        region: routing.region.clone(),
        path,
        headers: headers(operation, terms.options)?,
        body: operation.body().clone(),
        auth_context,
        activity_id: terms.activity_id,
        execution_context: terms.execution_context,
        is_repeatable: operation.is_repeatable(),
        deadline: terms.deadline,
        slow_after: None,
        throttling: terms.throttling,
    })
}

/// The headers that belong to the operation: what its kind asks for, then the settings, then its own.
fn headers(
    operation: &CosmosOperation,
    options: &RequestOptionsView<'_>,
) -> Result<HeaderMap, Error> {
    // Room for what a point operation carries, without growing.
    let mut headers = HeaderMap::with_capacity(8);
    if let Some(marker) = marker_of(operation.operation_type()) {
        headers.insert(marker, TRUE);
    }
    if matches!(operation.operation_type(), OperationType::Query | OperationType::QueryPlan) {
        headers.insert(names::IS_QUERY, TRUE);
        headers.insert(CONTENT_TYPE, QUERY_JSON);
    }
    if operation.operation_type() == OperationType::Patch {
        headers.insert(CONTENT_TYPE, PATCH_JSON);
    }
    if operation.operation_type() == OperationType::Batch {
        // The service wants both words: atomic, and so not going on after an error.
        headers.insert(names::BATCH_ATOMIC, TRUE);
        headers.insert(names::BATCH_CONTINUE_ON_ERROR, FALSE);
    }
    if let Some(key) = operation.partition_key() {
        let key = HeaderValue::try_from(key.to_header())
            .map_err(|error| Error::invalid("the partition key cannot be sent", error))?;
        headers.insert(names::PARTITION_KEY, key);
    }
    if operation.operation_type().is_read_only() {
        consistency(options, &mut headers);
    }
    if let Some(priority) = options.priority() {
        headers.insert(names::PRIORITY_LEVEL, HeaderValue::from_static(priority.as_str()));
    }
    if let Some(bucket) = options.throughput_bucket() {
        headers.insert(names::THROUGHPUT_BUCKET, HeaderValue::from(bucket));
    }
    for (name, value) in options.custom_headers() {
        headers.insert(name, value);
    }
    for (name, value) in operation.headers() {
        headers.insert(name, value.clone());
    }
    Ok(headers)
}

/// A strategy replaces a level.
fn consistency(options: &RequestOptionsView<'_>, headers: &mut HeaderMap) {
    match (options.read_consistency_strategy(), options.consistency_level()) {
        (Some(strategy), _) => {
            if let Some(word) = strategy.header_value() {
                let value = HeaderValue::from_static(word);
                headers.insert(names::READ_CONSISTENCY_STRATEGY, value);
            }
        }
        (None, Some(level)) => {
            headers.insert(names::CONSISTENCY_LEVEL, HeaderValue::from_static(level.as_str()));
        }
        (None, None) => {}
    }
}

/// What tells operations apart that travel by the same method.
fn marker_of(operation: OperationType) -> Option<HeaderName> {
    match operation {
        OperationType::Upsert => Some(names::IS_UPSERT),
        OperationType::QueryPlan => Some(names::IS_QUERY_PLAN_REQUEST),
        OperationType::Batch => Some(names::IS_BATCH_REQUEST),
        OperationType::Create
        | OperationType::Read
        | OperationType::ReadFeed
        | OperationType::Replace
        | OperationType::Delete
        | OperationType::Patch
        | OperationType::Query
        | OperationType::Execute
        | OperationType::Head
        | OperationType::HeadFeed => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use sidereal_protocol::{
        ConsistencyLevel, PartitionKey, PriorityLevel, RequestPath, ResourceLink, ResourceType,
    };

    use super::*;
    use crate::options::{AvailabilityOptions, OptionLayers, RequestOptions};

    fn orders() -> ResourceLink {
        ResourceLink::container("store", "orders").unwrap()
    }

    fn read_item() -> CosmosOperation {
        let item = orders().item("a b").unwrap();
        CosmosOperation::new(OperationType::Read, RequestPath::of(item))
            .with_partition_key(PartitionKey::from("contoso"))
    }

    fn build(operation: &CosmosOperation, call: &RequestOptions) -> TransportRequest {
        let layers = OptionLayers::default();
        let unset = AvailabilityOptions::default();
        let now = Instant::now();
        let routing = RoutingDecision {
            endpoint: "https://contoso-westus.documents.azure.com/".parse().unwrap(),
            region: Some(RegionName::from("West US")),
        };
        let terms = AttemptTerms {
            options: &layers.request(call),
            activity_id: Uuid::nil(),
            execution_context: ExecutionContext::Initial,
            deadline: Some(now + Duration::from_secs(1)),
            throttling: ThrottleRetryState::new(&layers.availability(&unset)),
        };
        let request = build_transport_request(operation, &routing, &terms).unwrap();
        assert_eq!((&request.endpoint, &request.region), (&routing.endpoint, &routing.region));
        assert_eq!(request.deadline, terms.deadline);
        request
    }

    #[test]
    fn a_point_read_signs_its_link_and_sends_its_path_and_key() {
        let request = build(&read_item(), &RequestOptions::default());
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("GET", "/dbs/store/colls/orders/docs/a%20b")
        );
        assert_eq!(request.auth_context.signed_link, "dbs/store/colls/orders/docs/a b");
        assert_eq!(request.auth_context.resource_type, ResourceType::Document);
        assert_eq!(request.headers[names::PARTITION_KEY], "[\"contoso\"]");
        assert!(request.is_repeatable && request.body.is_empty());
    }

    #[test]
    fn operations_of_one_method_are_told_apart_by_their_headers() {
        let feed = RequestPath::feed(orders(), ResourceType::Document).unwrap();
        let sent = |kind| {
            let operation =
                CosmosOperation::new(kind, feed.clone()).with_body(Bytes::from_static(b"{}"));
            build(&operation, &RequestOptions::default())
        };
        assert!(!sent(OperationType::Create).headers.contains_key(names::IS_UPSERT));
        assert_eq!(sent(OperationType::Upsert).headers[names::IS_UPSERT], "True");
        let query = sent(OperationType::Query);
        assert_eq!(query.headers[names::IS_QUERY], "True");
        assert_eq!(query.headers[CONTENT_TYPE], "application/query+json");
        let batch = sent(OperationType::Batch);
        assert_eq!(batch.headers[names::IS_BATCH_REQUEST], "True");
        assert_eq!(batch.headers[names::BATCH_ATOMIC], "True");
        assert_eq!(batch.headers[names::BATCH_CONTINUE_ON_ERROR], "False");
        assert_eq!(query.path, "/dbs/store/colls/orders/docs");
    }

    #[test]
    fn a_patch_has_the_service_s_own_media_type() {
        let item = RequestPath::of(orders().item("1").unwrap());
        let patch = CosmosOperation::new(OperationType::Patch, item);
        let request = build(&patch, &RequestOptions::default());
        assert_eq!(request.headers[CONTENT_TYPE], "application/json_patch+json");
    }

    #[test]
    fn settings_become_headers_and_the_operation_s_own_win() {
        let call = RequestOptions::default()
            .with_priority(PriorityLevel::Low)
            .with_throughput_bucket(3)
            .with_consistency_level(ConsistencyLevel::Eventual)
            .with_custom_headers([(names::PRIORITY_LEVEL, HeaderValue::from_static("High"))]);
        let request = build(&read_item(), &call);
        assert_eq!(request.headers[names::CONSISTENCY_LEVEL], "Eventual");
        assert_eq!(request.headers[names::PRIORITY_LEVEL], "High");
        assert_eq!(request.headers[names::THROUGHPUT_BUCKET], "3");
        let own = read_item().with_header(names::THROUGHPUT_BUCKET, HeaderValue::from_static("4"));
        assert_eq!(build(&own, &call).headers[names::THROUGHPUT_BUCKET], "4");
    }

    #[test]
    fn a_write_asks_for_no_consistency() {
        let call = RequestOptions::default().with_consistency_level(ConsistencyLevel::Eventual);
        let item = RequestPath::of(orders().item("1").unwrap());
        let request = build(&CosmosOperation::new(OperationType::Delete, item), &call);
        assert!(!request.headers.contains_key(names::CONSISTENCY_LEVEL));
    }
}
