//! A request, classified once: everything that authorization, dispatch, fault rules and counters ask of it.
//!
//! Classification parses the path, tells the operation and finds the container. What follows reads the
//! value and never looks at verb, path or flags again, so that two parts of the account cannot disagree
//! about what a request is.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use serde_json::Value;
use sidereal_protocol::headers::{MaxItemCount, RequestHeaders, names};
use sidereal_protocol::{
    CosmosStatus, PartitionKey, RequestPath, ResourceLink, ResourceType, decode_binary_json,
    is_binary_json,
};

use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::grease::{Draw, Latitude};
use crate::interruption::Interruption;
use crate::operation::Operation;
use crate::outcome::ClientOrigin;
use crate::store::{Catalog, Container, Expiry, Partition, ReplicaView, WriteCondition};
use crate::topology::Topology;

/// The most items of a page that is cut short.
const MOST_OF_SHORT_PAGE: u64 = 3;

/// When and where a request arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) now: Timestamp,
    /// That moment, as finely as the clock counts.
    pub(crate) since_epoch: Duration,
    /// The index of the region that the request reached.
    pub(crate) region: usize,
    /// The account's regions at that moment. Held for the whole request: a failover in between does not
    /// change what this request sees.
    pub(crate) topology: Arc<Topology>,
}

/// A request on its way through the account.
#[derive(Debug)]
pub(crate) struct ClassifiedRequest {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
    /// When it first arrived, as the time since the epoch: its duration counts from here, and includes the
    /// delay of a fault rule.
    pub(crate) arrived: Duration,
    /// The index of the region that the request reached.
    pub(crate) region: usize,
    pub(crate) topology: Arc<Topology>,
    pub(crate) origin: ClientOrigin,
    method: Method,
    /// The parsed path, or why it names no resource.
    path: Result<RequestPath, sidereal_protocol::Error>,
    operation: Operation,
    /// A flag that decides the operation and cannot be read; the request is refused with it.
    malformed_flag: Option<sidereal_protocol::Error>,
    /// The container that the path names, if there is one.
    container: Option<Arc<Container>>,
    /// The client's activity id, or one of our own.
    pub(crate) activity_id: HeaderValue,
    /// Ends the request's work early; `None` where it runs on the thread of the caller that waits for it.
    pub(crate) interruption: Option<Interruption>,
    /// Which latitudes its answer uses; none where the account answers as conveniently as it can.
    pub(crate) draw: Option<Draw>,
}

impl ClassifiedRequest {
    pub(crate) fn new(request: Request<Bytes>, arrival: Arrival, catalog: &Catalog) -> Self {
        let (parts, body) = request.into_parts();
        let path = path_of(&parts.uri);
        let (operation, malformed_flag) =
            match operation_of(&parts.method, &parts.headers, path.as_ref().ok()) {
                Ok(operation) => (operation, None),
                Err(error) => (Operation::Other, Some(error)),
            };
        // Looked up once: authorization, handler, fault rules and counters share the `Arc`.
        let container = path.as_ref().ok().and_then(|path| catalog.container(path.link()));
        let activity_id = activity_id_of(&parts.headers);
        let Arrival { now, since_epoch: arrived, region, topology } = arrival;
        Self {
            uri: parts.uri,
            headers: parts.headers,
            body,
            now,
            arrived,
            region,
            topology,
            origin: ClientOrigin::in_extensions(&parts.extensions),
            method: parts.method,
            path,
            operation,
            malformed_flag,
            container,
            activity_id,
            interruption: None,
            draw: None,
        }
    }

    /// Lets the request arrive again: after a delay it meets the account as it is then.
    pub(crate) fn arriving(self, arrival: Arrival, catalog: &Catalog) -> Self {
        let container = self.path.as_ref().ok().and_then(|path| catalog.container(path.link()));
        let Arrival { now, since_epoch: _, region, topology } = arrival;
        Self { now, region, topology, container, ..self }
    }

    /// Whether answering takes long enough to keep a thread from other requests: evaluation, also over metadata;
    /// pages of up to 4 MiB; throughput, which may split a container many times.
    pub(crate) fn is_blocking_work(&self) -> bool {
        let is_about = |kind| self.resource() == Some(kind);
        match self.operation {
            Operation::Query | Operation::QueryPlan => true,
            Operation::ReadFeed | Operation::ChangeFeed => is_about(ResourceType::Document),
            Operation::Replace => is_about(ResourceType::Offer),
            Operation::Create
            | Operation::Read
            | Operation::Batch
            | Operation::Upsert
            | Operation::Patch
            | Operation::Delete
            | Operation::Other => false,
        }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// The operation of the request.
    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }

    /// The path, or the refusal of one that names no resource.
    pub(crate) fn path(&self) -> Result<&RequestPath> {
        self.path.as_ref().map_err(|error| ServiceError::bad_request(error.to_string()))
    }

    /// The kind of resource that the request is about; none where its path names no resource.
    pub(crate) fn resource(&self) -> Option<ResourceType> {
        self.path.as_ref().ok().map(RequestPath::kind)
    }

    /// Refuses a request whose operation cannot be told.
    pub(crate) fn check_flags(&self) -> Result<()> {
        match &self.malformed_flag {
            Some(error) => Err(ServiceError::bad_request(error.to_string())),
            None => Ok(()),
        }
    }

    /// The container of the request; one that does not exist is an error about the owner.
    pub(crate) fn container(&self) -> Result<&Arc<Container>> {
        self.container.as_ref().ok_or_else(ServiceError::owner_not_found)
    }

    /// The container of a request about items, which must be the one the client means.
    pub(crate) fn intended_container(&self) -> Result<&Arc<Container>> {
        let container = self.container()?;
        match self.typed().intended_collection_rid()? {
            // SDKs cache RIDs by name; this tells them that a container was recreated.
            Some(rid) if rid != container.rid.to_string() => Err(ServiceError::new(
                CosmosStatus::COLLECTION_RID_MISMATCH,
                "The container's RID is not the one the request was meant for: it was deleted and created again.",
            )),
            _ => Ok(container),
        }
    }

    /// Database and container of the request by name, whether or not they exist. RIDs say nothing to
    /// people, so a container that is addressed by one and exists goes by its names.
    pub(crate) fn container_names(&self) -> Option<(&str, &str)> {
        if let Some(container) = &self.container {
            return Some((&container.database, &container.id));
        }
        let link = self.path.as_ref().ok()?.link();
        let database = link.ancestor_id(ResourceType::Database)?;
        Some((database, link.ancestor_id(ResourceType::DocumentCollection)?))
    }

    /// The id of the partition range that a request about items names: in a header, or by a whole
    /// partition key.
    pub(crate) fn addressed_range(&self) -> Option<String> {
        if let Some(range) = self.typed().text(&names::PARTITION_KEY_RANGE_ID).ok()? {
            return Some(range_id(range).to_owned());
        }
        if self.resource()?.is_metadata() {
            return None;
        }
        let key = self.partition_key().ok()??;
        let container = self.container.as_ref()?;
        let effective_key = container.definition().key.effective_key(&key).ok()?;
        Some(container.partition_of(&effective_key).id.to_string())
    }

    /// The id of the item that the request is about: in its path, or in the body of one that creates it.
    pub(crate) fn item_id(&self) -> Option<String> {
        let path = self.path.as_ref().ok()?;
        if path.kind() != ResourceType::Document {
            return None;
        }
        if !path.is_feed() {
            return Some(path.link().id().to_owned());
        }
        if !matches!(self.operation, Operation::Create | Operation::Upsert) {
            return None;
        }
        let body: Value = serde_json::from_slice(&self.json_body().ok()?).ok()?;
        Some(body.get("id")?.as_str()?.to_owned())
    }

    /// Decides whether the items of the request's container have expired.
    pub(crate) fn expiry(&self) -> Expiry {
        let container = self.container.as_ref();
        container.map_or_else(|| Expiry::new(None, self.now), |it| it.expiry(self.now))
    }

    /// The link of the resource, or of the one whose feed is addressed.
    pub(crate) fn link(&self) -> &ResourceLink {
        self.path.as_ref().map_or(&ResourceLink::ACCOUNT, RequestPath::link)
    }

    /// The view of a partition in the region that the request reached, as it is by now.
    pub(crate) fn view<'a>(&self, partition: &'a Partition) -> ReplicaView<'a> {
        partition.view(self.region, &self.topology, self.now)
    }

    /// The headers as typed values; a malformed one is an error to answer with.
    pub(crate) fn typed(&self) -> RequestHeaders<'_> {
        RequestHeaders::new(&self.headers)
    }

    /// The body as JSON: the definition of a database, a container or an offer.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.json_body()?).map_err(|error| payload_refused(&error))
    }

    /// The body as JSON text, whichever form it came in.
    pub(crate) fn json_body(&self) -> Result<Cow<'_, [u8]>> {
        if !is_binary_json(&self.body) {
            return Ok(Cow::Borrowed(&self.body));
        }
        let value = decode_binary_json(&self.body).map_err(|error| payload_refused(&error))?;
        Ok(Cow::Owned(value.to_string().into_bytes()))
    }

    /// The body as an item.
    pub(crate) fn item(&self) -> Result<Value> {
        parse_item(&self.json_body()?)
    }

    pub(crate) fn partition_key(&self) -> Result<Option<PartitionKey>> {
        Ok(self.typed().partition_key()?)
    }

    /// The partition key of a request that must name one.
    pub(crate) fn required_partition_key(&self) -> Result<PartitionKey> {
        self.partition_key()?.ok_or_else(|| {
            ServiceError::bad_request("PartitionKey value must be supplied for this operation.")
        })
    }

    pub(crate) fn conditions(&self) -> Result<WriteCondition> {
        let headers = self.typed();
        Ok(WriteCondition {
            if_match: headers.if_match()?,
            if_none_match: headers.if_none_match()?,
        })
    }

    /// The most items of a page; `None` leaves it to the server.
    pub(crate) fn max_item_count(&self) -> Result<Option<usize>> {
        match self.typed().max_item_count()? {
            Some(MaxItemCount::AtMost(count)) => Ok(Some(count.get() as usize)),
            Some(MaxItemCount::Unlimited) | None => Ok(None),
        }
    }

    /// Whether the answer uses a latitude of the service's contract.
    pub(crate) fn takes(&self, latitude: Latitude) -> bool {
        self.draw.as_ref().is_some_and(|draw| draw.takes(latitude))
    }

    /// Whether the request changes items.
    pub(crate) fn is_item_write(&self) -> bool {
        match self.operation {
            Operation::Create
            | Operation::Replace
            | Operation::Upsert
            | Operation::Patch
            | Operation::Delete
            | Operation::Batch => self.resource().is_some_and(|kind| !kind.is_metadata()),
            Operation::Read
            | Operation::ReadFeed
            | Operation::Query
            | Operation::QueryPlan
            | Operation::ChangeFeed
            | Operation::Other => false,
        }
    }

    /// The most items of a page: as the client wants it, or fewer.
    pub(crate) fn page_items(&self) -> Result<Option<usize>> {
        let asked = self.max_item_count()?;
        Ok(match &self.draw {
            Some(draw) if draw.takes(Latitude::ShortPages) => {
                let drawn = 1 + draw.below(Latitude::ShortPages, 0, MOST_OF_SHORT_PAGE) as usize;
                Some(asked.map_or(drawn, |asked| asked.min(drawn)))
            }
            _ => asked,
        })
    }

    /// The scheme and authority the client used: what advertised URLs begin with by default.
    pub(crate) fn base_url(&self) -> String {
        self.url("")
    }

    /// The URL that the client used, without its query: what a response is about.
    pub(crate) fn full_url(&self) -> String {
        self.url(self.uri.path())
    }

    fn url(&self, path: &str) -> String {
        let scheme = self.uri.scheme_str().unwrap_or("http");
        let host = || self.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let authority = self.uri.authority().map(http::uri::Authority::as_str).or_else(host);
        [scheme, "://", authority.unwrap_or("localhost"), path].concat()
    }
}

/// The resource that a URI names. The JavaScript SDK leaves `?` in the id of an item as it is, and no request about items
/// has a query, so what is behind it belongs to the id.
fn path_of(uri: &Uri) -> Result<RequestPath, sidereal_protocol::Error> {
    let path: RequestPath = uri.path().parse()?;
    match uri.query() {
        Some(query) if path.kind() == ResourceType::Document && !path.is_feed() => {
            format!("{}%3F{query}", uri.path()).parse()
        }
        Some(_) | None => Ok(path),
    }
}

/// The id in a partition range header. The .NET and Java SDKs (`PartitionKeyRangeIdentity`) put the
/// container's RID and a comma before it.
pub(crate) fn range_id(header: &str) -> &str {
    header.rsplit(',').next().unwrap_or(header)
}

/// An item from a body, its numbers rounded to the doubles that the service keeps.
pub(crate) fn parse_item(body: &[u8]) -> Result<Value> {
    sidereal_query::parse_document(body).map_err(|error| payload_refused(&error))
}

/// The service's words for what is not JSON.
fn payload_refused(error: &dyn std::error::Error) -> ServiceError {
    ServiceError::bad_request(format!(
        "The request payload is invalid. Ensure to provide a valid request payload: {error}."
    ))
}

/// Tells the operation from verb, path and flags; the error is a flag that cannot be read.
fn operation_of(
    method: &Method,
    headers: &HeaderMap,
    path: Option<&RequestPath>,
) -> Result<Operation, sidereal_protocol::Error> {
    let Some(path) = path else { return Ok(Operation::Other) };
    let kind = path.kind();
    if kind == ResourceType::PartitionKey {
        // `operations/partitionkeydelete` is a procedure in the shape of a resource; POST runs it.
        let runs = *method == Method::POST;
        return Ok(if runs { Operation::Delete } else { Operation::Other });
    }
    Ok(match *method {
        Method::GET if path.is_feed() && has_change_feed(kind) && asks_for_changes(headers) => {
            Operation::ChangeFeed
        }
        Method::GET if path.is_feed() => Operation::ReadFeed,
        Method::GET => Operation::Read,
        Method::PUT => Operation::Replace,
        Method::PATCH => Operation::Patch,
        Method::DELETE => Operation::Delete,
        Method::POST => posted_operation(kind, headers)?,
        _ => Operation::Other,
    })
}

/// The operations that share POST are told apart by flags. The order matters: a request for a plan has the
/// content type of a query besides.
fn posted_operation(
    kind: ResourceType,
    headers: &HeaderMap,
) -> Result<Operation, sidereal_protocol::Error> {
    let flags = RequestHeaders::new(headers);
    let of_items = kind == ResourceType::Document;
    if of_items && flags.is_query_plan_request()? {
        return Ok(Operation::QueryPlan);
    }
    if flags.is_query()? || has_query_body(headers) {
        return Ok(Operation::Query);
    }
    if of_items && flags.is_batch_request()? {
        return Ok(Operation::Batch);
    }
    let upsert = of_items && flags.is_upsert()?;
    Ok(if upsert { Operation::Upsert } else { Operation::Create })
}

/// Partition ranges have one too: SDKs refresh their routing maps incrementally.
fn has_change_feed(kind: ResourceType) -> bool {
    matches!(kind, ResourceType::Document | ResourceType::PartitionKeyRange)
}

/// `A-IM` names an instance manipulation (RFC 3229); the service knows the incremental feed.
fn asks_for_changes(headers: &HeaderMap) -> bool {
    headers.contains_key(names::A_IM)
}

/// The protocol asks for the flag and the content type of a query; either is enough here.
fn has_query_body(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"application/query+json"))
}

/// The client's activity id, so that both sides log the same one, or a new one.
fn activity_id_of(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get(names::ACTIVITY_ID);
    match sent.filter(|value| !value.is_empty() && value.to_str().is_ok()) {
        // Shares the bytes of the request's header.
        Some(value) => value.clone(),
        None => {
            let mut text = uuid::Uuid::encode_buffer();
            let text = uuid::Uuid::new_v4().hyphenated().encode_lower(&mut text);
            HeaderValue::from_str(text).expect("hexadecimal digits and hyphens are a header value")
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const DOCS: &str = "/dbs/db/colls/c/docs";

    type Flag = Option<(&'static str, &'static str)>;

    fn of(method: Method, path: &str, header: Flag) -> Option<Operation> {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        operation_of(&method, &headers, path.parse().ok().as_ref()).ok()
    }

    #[test]
    fn a_request_is_told_by_its_verb_its_path_and_its_headers() {
        let item = "/dbs/db/colls/c/docs/1";
        let ranges = "/dbs/db/colls/c/pkranges";
        let delete_key = "/dbs/db/colls/c/operations/partitionkeydelete";
        let changes = Some(("a-im", "Incremental feed"));
        let upsert = Some(("x-ms-documentdb-is-upsert", "true"));
        let query = Some(("x-ms-documentdb-isquery", "True"));
        let query_body = Some(("content-type", "application/query+json"));
        let plan = Some(("x-ms-cosmos-is-query-plan-request", "True"));
        let batch = Some(("x-ms-cosmos-is-batch-request", "true"));
        let cases = [
            (Method::GET, "/", None, Operation::Read),
            (Method::GET, item, None, Operation::Read),
            (Method::GET, item, changes, Operation::Read),
            (Method::GET, DOCS, None, Operation::ReadFeed),
            (Method::GET, DOCS, changes, Operation::ChangeFeed),
            (Method::GET, ranges, changes, Operation::ChangeFeed),
            (Method::GET, "/dbs", changes, Operation::ReadFeed),
            (Method::POST, DOCS, None, Operation::Create),
            (Method::POST, DOCS, upsert, Operation::Upsert),
            (Method::POST, "/dbs", upsert, Operation::Create),
            (Method::POST, DOCS, query, Operation::Query),
            (Method::POST, DOCS, query_body, Operation::Query),
            (Method::POST, DOCS, plan, Operation::QueryPlan),
            (Method::POST, DOCS, batch, Operation::Batch),
            (Method::PUT, item, None, Operation::Replace),
            (Method::PATCH, item, None, Operation::Patch),
            (Method::DELETE, item, None, Operation::Delete),
            (Method::POST, delete_key, None, Operation::Delete),
            (Method::DELETE, delete_key, None, Operation::Other),
            (Method::GET, "/probe", None, Operation::Other),
            (Method::HEAD, "/", None, Operation::Other),
            (Method::OPTIONS, "/", None, Operation::Other),
        ];
        for (method, path, header, expected) in cases {
            let told = of(method.clone(), path, header);
            assert_eq!(told, Some(expected), "{method} {path} {header:?}");
        }
    }

    #[test]
    fn a_flag_that_cannot_be_read_leaves_the_operation_open() {
        assert_eq!(of(Method::POST, DOCS, Some(("x-ms-documentdb-is-upsert", "maybe"))), None);
    }
}
