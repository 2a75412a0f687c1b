//! From an operation to the request of one attempt.

use std::sync::Arc;
use std::time::Instant;

use http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue};
use sidereal_protocol::headers::names;
use sidereal_protocol::{OperationType, ReadConsistencyStrategy, ResourceType};
use uuid::Uuid;

use super::OperationRetryState;
use crate::diagnostics::ExecutionContext;
use crate::options::{CustomHeaders, ItemWriteOptionsView, RequestOptionsView};
use crate::retry::RequestKind;
use crate::routing::CosmosEndpoint;
use crate::session::SessionHeaders;
use crate::transport::{AuthorizationContext, HeaderList, TransportRequest};
use crate::{CosmosOperation, Error, ErrorKind, OperationTarget, Precondition};

// Spelt as the .NET SDK spells them (`bool.TrueString`).
const TRUE: HeaderValue = HeaderValue::from_static("True");
const FALSE: HeaderValue = HeaderValue::from_static("False");
/// The media type of a patch: the service's own, not that of RFC 6902.
const PATCH_JSON: HeaderValue = HeaderValue::from_static("application/json_patch+json");
// RFC 7240, section 4.2: a write is answered without the item.
const RETURN_MINIMAL: HeaderValue = HeaderValue::from_static("return=minimal");
// Tells a query from the creation of an item: both are a POST to the feed.
const QUERY_JSON: HeaderValue = HeaderValue::from_static("application/query+json");

/// The inputs of a request beside the operation and its endpoint.
#[derive(Clone, Debug)]
pub(crate) struct AttemptTerms<'a> {
    /// The request options of call and settings.
    pub(crate) options: &'a RequestOptionsView<'a>,
    /// The write options of call and environment.
    pub(crate) write: &'a ItemWriteOptionsView<'a>,
    /// The effect of repeating the operation.
    pub(crate) kind: RequestKind,
    /// The id of the operation.
    pub(crate) activity_id: Uuid,
    /// Why the attempt is made.
    pub(crate) execution_context: ExecutionContext,
    /// When the attempt is made, where that is known.
    pub(crate) started: Option<Instant>,
    /// When the operation ends.
    pub(crate) deadline: Option<Instant>,
    /// Whether every region of the account accepts writes.
    pub(crate) is_multi_write: bool,
    /// Whether only the partition's hub region may answer, whose data is complete.
    pub(crate) is_hub_only: bool,
    /// Whether the account turns hedging off.
    pub(crate) is_hedging_suppressed: bool,
    /// How reads get their consistency.
    pub(crate) strategy: Option<ReadConsistencyStrategy>,
    /// The RID of the container that the operation is meant for, where it is known: a container that was recreated under
    /// the same name refuses the request, instead of taking it with the definition of the old one.
    pub(crate) container_rid: Option<HeaderValue>,
    /// The session token from the driver's session, if the request is to carry one.
    pub(crate) session: Option<SessionHeaders>,
}

/// The request of one attempt at an operation, but for its path and headers: see [`complete_request`].
///
/// In two steps, so that the request is made where it stays: it is large, and a result that holds it is copied.
#[inline]
pub(crate) fn begin_request(
    operation: &CosmosOperation,
    routed_to: &CosmosEndpoint,
    terms: &AttemptTerms<'_>,
    state: &OperationRetryState,
) -> TransportRequest {
    let auth_context = AuthorizationContext {
        resource_type: operation.path().kind(),
        signed_link: Arc::clone(&operation.encoded().signed_link),
    };
    TransportRequest {
        method: operation.operation_type().method(),
        endpoint: routed_to.endpoint.clone(),
        slot: routed_to.slot,
        region: routed_to.region.clone(),
        partition_range: state.partition.as_ref().map(|it| it.range().clone()),
        path: PathAndQuery::from_static("/"),
        headers: HeaderList::new(),
        body: operation.body().clone(),
        auth_context,
        activity_id: terms.activity_id,
        execution_context: terms.execution_context,
        kind: terms.kind,
        started: terms.started,
        deadline: terms.deadline,
        slow_after: None,
        budgets: state.budgets,
    }
}

/// Adds the path and the headers to the request of an attempt.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`] if the operation's path or partition key cannot be sent.
pub(crate) fn complete_request(
    request: &mut TransportRequest,
    operation: &CosmosOperation,
    terms: &AttemptTerms<'_>,
) -> Result<(), Error> {
    check_path(operation)?;
    request.path = operation.encoded().path()?;
    add_headers(operation, terms, &mut request.headers)
}

/// Refuses an operation that its path does not have: the service would answer as if something else were
/// asked.
fn check_path(operation: &CosmosOperation) -> Result<(), Error> {
    let (kind, path) = (operation.operation_type(), operation.path());
    let what = match (kind.is_feed(), path.is_feed()) {
        (true, false) => "a feed of resources",
        (false, true) => "one resource",
        (true, true) | (false, false) => return Ok(()),
    };
    let sentence = format!("{} is about {what}, and {path} is not", kind.as_str());
    Err(Error::new(ErrorKind::InvalidRequest, sentence))
}

/// Adds the headers that belong to the operation: what its kind asks for, then the settings, then its own.
fn add_headers(
    operation: &CosmosOperation,
    terms: &AttemptTerms<'_>,
    headers: &mut HeaderList,
) -> Result<(), Error> {
    let options = terms.options;
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
        // The service wants both words: atomic, and so not going on after an error; or, for the items of a
        // partition range, each operation by itself.
        let is_bulk = matches!(operation.target(), Some(OperationTarget::PartitionRange(_)));
        let (atomic, goes_on) = if is_bulk { (FALSE, TRUE) } else { (TRUE, FALSE) };
        headers.insert(names::BATCH_ATOMIC, atomic);
        headers.insert(names::BATCH_CONTINUE_ON_ERROR, goes_on);
    }
    if let Some(target) = &operation.encoded().target {
        target.add_to(operation.operation_type(), |name, value| headers.insert(name, value))?;
    }
    if terms.is_multi_write && !operation.operation_type().is_read_only() {
        headers.insert(names::ALLOW_TENTATIVE_WRITES, TRUE);
    }
    if terms.is_hub_only {
        headers.insert(names::HUB_REGION_PROCESSING_ONLY, TRUE);
    }
    if operation.operation_type().is_read_only() {
        consistency(terms, headers);
    } else if operation.path().kind() == ResourceType::Document {
        item_write(operation.operation_type(), terms.write, headers)?;
    }
    session_and_precondition(operation, terms, headers)?;
    if let Some(priority) = options.priority() {
        headers.insert(names::PRIORITY_LEVEL, HeaderValue::from_static(priority.as_str()));
    }
    if let Some(bucket) = options.throughput_bucket() {
        headers.insert(names::THROUGHPUT_BUCKET, HeaderValue::from(bucket));
    }
    for (name, value) in options.each_custom_headers().flat_map(CustomHeaders::iter) {
        headers.insert(name.clone(), value.clone());
    }
    for (name, value) in operation.headers() {
        headers.insert(name.clone(), value.clone());
    }
    Ok(())
}

/// Adds the headers of write options to a write of an item.
fn item_write(
    operation: OperationType,
    options: &ItemWriteOptionsView<'_>,
    headers: &mut HeaderList,
) -> Result<(), Error> {
    // A deletion and a procedure's own response are never shortened, and each operation of a batch says it for itself.
    let has_content =
        !matches!(operation, OperationType::Delete | OperationType::Execute | OperationType::Batch);
    if has_content && !options.content_response_on_write() {
        headers.insert(names::PREFER, RETURN_MINIMAL);
    }
    if let Some(directive) = options.indexing_directive() {
        let value = HeaderValue::from_static(directive.as_str());
        headers.insert(names::INDEXING_DIRECTIVE, value);
    }
    let triggers = [
        (names::PRE_TRIGGER_INCLUDE, options.pre_triggers()),
        (names::POST_TRIGGER_INCLUDE, options.post_triggers()),
    ];
    for (name, triggers) in triggers {
        if let Some(triggers) = triggers.filter(|triggers| !triggers.is_empty()) {
            headers.insert(name, text_header(triggers.join(","), "a trigger's name")?);
        }
    }
    Ok(())
}

/// The session token of the operation or of the call, or else of the driver's session.
fn session_and_precondition(
    operation: &CosmosOperation,
    terms: &AttemptTerms<'_>,
    headers: &mut HeaderList,
) -> Result<(), Error> {
    let options = terms.write;
    let mut rid = terms.container_rid.as_ref();
    if let Some(token) = operation.session_token().or(options.session_token()) {
        let value = text_header(token.to_string(), "the session token")?;
        headers.insert(names::SESSION_TOKEN, value);
    } else if let Some(session) = &terms.session {
        headers.insert(names::SESSION_TOKEN, session.token.clone());
        // The token is of that container, whatever has been read of it since.
        rid = session.rid.as_ref().or(rid);
    }
    if let Some(rid) = rid {
        headers.insert(names::INTENDED_COLLECTION_RID, rid.clone());
    }
    let (name, etag) = match (operation.precondition(), options.if_match_etag()) {
        (Some(Precondition::IfMatch(etag)), _) => (IF_MATCH, etag),
        (Some(Precondition::IfNoneMatch(etag)), _) => (IF_NONE_MATCH, etag),
        (None, Some(etag)) if !operation.operation_type().is_read_only() => (IF_MATCH, etag),
        (None, _) => return Ok(()),
    };
    headers.insert(name, text_header(etag.as_str().to_owned(), "the etag")?);
    Ok(())
}

fn text_header(text: String, what: &str) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(text).map_err(|error| {
        Error::new(ErrorKind::InvalidRequest, format!("{what} cannot be sent as a header"))
            .caused_by(error)
    })
}

/// A strategy replaces a level.
fn consistency(terms: &AttemptTerms<'_>, headers: &mut HeaderList) {
    match (terms.strategy, terms.options.consistency_level()) {
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

/// The header that tells operations apart that share a method and path.
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
        ConsistencyLevel, Etag, PartitionKey, PriorityLevel, RegionName, RequestPath, ResourceLink,
        ResourceType,
    };

    use super::*;
    use crate::options::{
        AmbiguousWriteRetry, AvailabilityOptions, ItemWriteOptions, OptionLayers, RequestOptions,
    };
    use crate::retry::Budgets;

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
        let (unset, no_write) = (AvailabilityOptions::default(), ItemWriteOptions::default());
        let now = Instant::now();
        let routing = CosmosEndpoint {
            endpoint: "https://contoso-westus.documents.azure.com/".parse().unwrap(),
            region: Some(RegionName::from("West US")),
            slot: 1,
        };
        let terms = AttemptTerms {
            options: &layers.request(call),
            write: &layers.write(&no_write),
            kind: operation.request_kind(AmbiguousWriteRetry::Idempotent, false),
            activity_id: Uuid::nil(),
            execution_context: ExecutionContext::Initial,
            started: Some(now),
            deadline: Some(now + Duration::from_secs(1)),
            is_multi_write: false,
            is_hub_only: false,
            is_hedging_suppressed: false,
            strategy: layers.request(call).read_consistency_strategy(),
            container_rid: None,
            session: None,
        };
        let budgets = Budgets::new(&layers.availability(&unset));
        let state = OperationRetryState::new(budgets, now);
        let mut request = begin_request(operation, &routing, &terms, &state);
        complete_request(&mut request, operation, &terms).unwrap();
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
        assert_eq!(&*request.auth_context.signed_link, "dbs/store/colls/orders/docs/a b");
        assert_eq!(request.auth_context.resource_type, ResourceType::Document);
        assert_eq!(request.headers[names::PARTITION_KEY], "[\"contoso\"]");
        assert_eq!(request.kind, crate::retry::RequestKind::Read);
        assert!(request.body.is_empty());
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
        let bulk = CosmosOperation::execute_bulk(&orders(), 3.into(), Bytes::new()).unwrap();
        let bulk = build(&bulk, &RequestOptions::default());
        assert_eq!(bulk.headers[names::IS_BATCH_REQUEST], "True");
        assert_eq!(bulk.headers[names::BATCH_ATOMIC], "False");
        assert_eq!(bulk.headers[names::BATCH_CONTINUE_ON_ERROR], "True");
        assert_eq!(bulk.headers[names::PARTITION_KEY_RANGE_ID], "3");
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
    fn a_creation_at_an_item_s_own_path_is_refused_and_so_is_a_read_of_a_feed() {
        let (item, feed) = (
            RequestPath::of(orders().item("1").unwrap()),
            RequestPath::feed(orders(), ResourceType::Document).unwrap(),
        );
        for (kind, path) in [(OperationType::Create, item), (OperationType::Read, feed)] {
            let error = check_path(&CosmosOperation::new(kind, path)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.to_string().contains("/docs"), "{error}");
        }
    }

    fn headers(operation: &CosmosOperation, terms: &AttemptTerms<'_>) -> HeaderList {
        let mut headers = HeaderList::default();
        add_headers(operation, terms, &mut headers).unwrap();
        headers
    }

    fn written(operation: &CosmosOperation, write: &ItemWriteOptions) -> HeaderList {
        let (layers, unset) = (OptionLayers::default(), RequestOptions::default());
        let terms = AttemptTerms {
            options: &layers.request(&unset),
            write: &layers.write(write),
            kind: operation.request_kind(AmbiguousWriteRetry::Idempotent, false),
            activity_id: Uuid::nil(),
            execution_context: ExecutionContext::Initial,
            started: None,
            deadline: None,
            is_multi_write: false,
            is_hub_only: false,
            is_hedging_suppressed: false,
            strategy: None,
            container_rid: None,
            session: None,
        };
        headers(operation, &terms)
    }

    /// Regression: the settings were parsed and had no effect.
    #[test]
    fn what_a_write_asks_for_is_sent() {
        let upsert = CosmosOperation::upsert_item(&orders(), "contoso".into(), Bytes::new());
        let upsert = upsert.unwrap();
        let sent = written(&upsert, &ItemWriteOptions::default());
        assert_eq!(sent[names::PREFER], "return=minimal");
        let write = ItemWriteOptions::default()
            .with_content_response_on_write(true)
            .with_if_match_etag(Etag::new("\"1\"").unwrap())
            .with_pre_triggers(["a".to_owned(), "b".to_owned()]);
        let sent = written(&upsert, &write);
        assert!(!sent.contains_key(names::PREFER));
        assert_eq!(sent[IF_MATCH], "\"1\"");
        assert_eq!(sent[names::PRE_TRIGGER_INCLUDE], "a,b");
    }

    #[test]
    fn preconditions_and_sessions_are_sent_for_reads_too() {
        let etag = Etag::new("\"1\"").unwrap();
        let token: sidereal_protocol::SessionToken = "0:-1#12".parse().unwrap();
        let read = read_item()
            .with_precondition(Precondition::IfNoneMatch(etag.clone()))
            .with_session_token(token.clone());
        let sent = written(&read, &ItemWriteOptions::default());
        assert_eq!(
            (&sent[IF_NONE_MATCH], &sent[names::SESSION_TOKEN]),
            (&HeaderValue::from_static("\"1\""), &HeaderValue::from_static("0:-1#12"),)
        );
        // Of a call's options for writes, a read takes the session and no condition.
        let call = ItemWriteOptions::default().with_if_match_etag(etag).with_session_token(token);
        let sent = written(&read_item(), &call);
        assert!(!sent.contains_key(IF_MATCH) && sent.contains_key(names::SESSION_TOKEN));
    }

    #[test]
    fn only_writes_to_a_multi_write_account_say_that_they_may_be_tentative() {
        let (layers, unset) = (OptionLayers::default(), RequestOptions::default());
        let no_write = ItemWriteOptions::default();
        let sends = |operation: &CosmosOperation, is_multi_write| {
            let terms = AttemptTerms {
                options: &layers.request(&unset),
                write: &layers.write(&no_write),
                kind: operation.request_kind(AmbiguousWriteRetry::Idempotent, false),
                activity_id: Uuid::nil(),
                execution_context: ExecutionContext::Initial,
                started: None,
                deadline: None,
                is_multi_write,
                is_hub_only: false,
                is_hedging_suppressed: false,
                strategy: None,
                container_rid: None,
                session: None,
            };
            headers(operation, &terms).contains_key(names::ALLOW_TENTATIVE_WRITES)
        };
        let item = RequestPath::of(orders().item("1").unwrap());
        let delete = CosmosOperation::new(OperationType::Delete, item);
        assert!(sends(&delete, true) && !sends(&delete, false) && !sends(&read_item(), true));
    }

    #[test]
    fn a_write_asks_for_no_consistency() {
        let call = RequestOptions::default().with_consistency_level(ConsistencyLevel::Eventual);
        let item = RequestPath::of(orders().item("1").unwrap());
        let request = build(&CosmosOperation::new(OperationType::Delete, item), &call);
        assert!(!request.headers.contains_key(names::CONSISTENCY_LEVEL));
    }
}
