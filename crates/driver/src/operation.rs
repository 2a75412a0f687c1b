//! Operations: requests to the service, independent of endpoint and attempts.

mod encoded;
mod target;
mod text_buffer;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sidereal_protocol::{
    Etag, OperationType, PartitionKey, PartitionKeyRangeId, PatchDocument, RequestPath,
    ResourceLink, ResourceType, SessionToken,
};

pub(crate) use self::encoded::Encoded;
pub(crate) use self::target::EncodedTarget;
pub use self::target::OperationTarget;
use crate::options::AmbiguousWriteRetry;
use crate::retry::RequestKind;

/// One operation on one resource or feed: what is asked, not where or how often.
///
/// It is made once and not changed by the attempts it needs.
#[derive(Clone, Debug)]
pub struct CosmosOperation {
    operation_type: OperationType,
    path: RequestPath,
    target: Option<OperationTarget>,
    precondition: Option<Precondition>,
    session_token: Option<SessionToken>,
    encoded: Encoded,
    headers: HeaderMap,
    body: Bytes,
    is_repeatable: bool,
    is_conditional: bool,
}

/// A condition on the version of a resource, for an operation to take place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It still has this version: optimistic concurrency.
    IfMatch(Etag),
    /// It no longer has this version: a read is answered with 304 otherwise.
    IfNoneMatch(Etag),
}

/// Operations on items, each on the path that it is about.
impl CosmosOperation {
    /// Reads an item.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container, `ErrorKind::ResourceId` if the id is
    /// invalid.
    pub fn read_item(
        container: &ResourceLink,
        key: PartitionKey,
        id: &str,
    ) -> Result<Self, sidereal_protocol::Error> {
        Self::on_item(OperationType::Read, container, key, id)
    }

    /// Creates an item; there must be none of its id.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container.
    pub fn create_item(
        container: &ResourceLink,
        key: PartitionKey,
        item: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        Ok(Self::on_items(OperationType::Create, container, key)?.with_body(item))
    }

    /// Creates an item or replaces the one of its id.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container.
    pub fn upsert_item(
        container: &ResourceLink,
        key: PartitionKey,
        item: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        Ok(Self::on_items(OperationType::Upsert, container, key)?.with_body(item))
    }

    /// Replaces an item; there must be one.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container, `ErrorKind::ResourceId` if the id is
    /// invalid.
    pub fn replace_item(
        container: &ResourceLink,
        key: PartitionKey,
        id: &str,
        item: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        Ok(Self::on_item(OperationType::Replace, container, key, id)?.with_body(item))
    }

    /// Changes parts of an item. It may be repeated if the patch is idempotent.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container, `ErrorKind::ResourceId` if the id is
    /// invalid.
    pub fn patch_item(
        container: &ResourceLink,
        key: PartitionKey,
        id: &str,
        patch: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        let parsed = PatchDocument::from_json(&patch);
        let mut operation =
            Self::on_item(OperationType::Patch, container, key, id)?.with_body(patch);
        // What cannot be read is refused by the service, and so is harmless too; but that is its to say.
        operation.is_repeatable = parsed.is_ok_and(|patch| patch.is_idempotent());
        Ok(operation)
    }

    /// Deletes an item.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container, `ErrorKind::ResourceId` if the id is
    /// invalid.
    pub fn delete_item(
        container: &ResourceLink,
        key: PartitionKey,
        id: &str,
    ) -> Result<Self, sidereal_protocol::Error> {
        Self::on_item(OperationType::Delete, container, key, id)
    }

    /// Executes the operations of a batch on the items of one partition key, all or none of them. It may not be
    /// repeated, unless [`repeatable`](Self::repeatable) says so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container.
    pub fn execute_batch(
        container: &ResourceLink,
        key: PartitionKey,
        operations: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        Ok(Self::on_items(OperationType::Batch, container, key)?.with_body(operations))
    }

    /// Executes operations on the items of one partition range, each by itself: one that fails leaves the others as
    /// they are. Each names its own partition key in the body. They may not be repeated, unless
    /// [`repeatable`](Self::repeatable) says so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container.
    pub fn execute_bulk(
        container: &ResourceLink,
        range: PartitionKeyRangeId,
        operations: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        let path = RequestPath::feed(container.clone(), ResourceType::Document)?;
        Ok(Self::new(OperationType::Batch, path)
            .with_target(OperationTarget::PartitionRange(range))
            .with_body(operations))
    }

    /// Runs a query over all items of a container, or over a part of it if it is given a target.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Link` of `sidereal_protocol` if the link does not name a container.
    pub fn query_items(
        container: &ResourceLink,
        query: Bytes,
    ) -> Result<Self, sidereal_protocol::Error> {
        let path = RequestPath::feed(container.clone(), ResourceType::Document)?;
        Ok(Self::new(OperationType::Query, path)
            .with_target(OperationTarget::Feed)
            .with_body(query))
    }

    fn on_item(
        operation_type: OperationType,
        container: &ResourceLink,
        key: PartitionKey,
        id: &str,
    ) -> Result<Self, sidereal_protocol::Error> {
        let path = RequestPath::of(container.item(id)?);
        Ok(Self::on_key(operation_type, path, container, key))
    }

    fn on_items(
        operation_type: OperationType,
        container: &ResourceLink,
        key: PartitionKey,
    ) -> Result<Self, sidereal_protocol::Error> {
        let path = RequestPath::feed(container.clone(), ResourceType::Document)?;
        Ok(Self::on_key(operation_type, path, container, key))
    }

    /// As `new` and `with_partition_key`, with fewer allocations.
    fn on_key(
        operation_type: OperationType,
        path: RequestPath,
        container: &ResourceLink,
        key: PartitionKey,
    ) -> Self {
        let encoded = Encoded::on_key(&path, container, &key);
        let target = Some(OperationTarget::PartitionKey(key));
        Self { target, ..Self::encoded_as(operation_type, path, encoded) }
    }
}

impl CosmosOperation {
    /// An operation without a body.
    ///
    /// Whether it may be repeated when its fate is unknown follows from its type: what only reads, or
    /// ends in the same data, may. A patch or a batch may not, unless
    /// [`repeatable`](Self::repeatable) says so. An operation on a path that it cannot have, such as a
    /// creation at an item's own, is refused when it is executed.
    #[must_use]
    pub fn new(operation_type: OperationType, path: RequestPath) -> Self {
        let encoded = Encoded::of(&path);
        Self::encoded_as(operation_type, path, encoded)
    }

    fn encoded_as(operation_type: OperationType, path: RequestPath, encoded: Encoded) -> Self {
        Self {
            operation_type,
            encoded,
            path,
            target: None,
            precondition: None,
            session_token: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_repeatable: operation_type.is_idempotent(),
            is_conditional: false,
        }
    }

    /// Targets the items of one partition key.
    #[must_use]
    pub fn with_partition_key(self, key: PartitionKey) -> Self {
        self.with_target(OperationTarget::PartitionKey(key))
    }

    /// Targets a part of the container.
    #[must_use]
    pub fn with_target(mut self, target: OperationTarget) -> Self {
        self.encoded.target = Some(EncodedTarget::of(&target));
        self.target = Some(target);
        self
    }

    /// Adds a precondition on the version of the resource.
    #[must_use]
    pub fn with_precondition(mut self, precondition: Precondition) -> Self {
        self.precondition = Some(precondition);
        self
    }

    /// Sets the session token: a read sees what the session has seen.
    #[must_use]
    pub fn with_session_token(mut self, token: SessionToken) -> Self {
        self.session_token = Some(token);
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    /// Marks the operation as idempotent: the caller has looked at its body.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Marks the operation as conditional: its body holds a condition that refuses the repetition of all of it, as a batch
    /// with an `ifMatch` or a create does. See [`AmbiguousWriteRetry`](crate::options::AmbiguousWriteRetry).
    #[must_use]
    pub fn conditional(mut self) -> Self {
        self.is_conditional = true;
        self
    }

    /// The type of the operation.
    #[must_use]
    pub fn operation_type(&self) -> OperationType {
        self.operation_type
    }

    /// The path of the resource or feed.
    #[must_use]
    pub fn path(&self) -> &RequestPath {
        &self.path
    }

    /// The part of its container that it is about, if it is about one.
    #[must_use]
    pub fn target(&self) -> Option<&OperationTarget> {
        self.target.as_ref()
    }

    /// The partition key, if it is about one.
    #[must_use]
    pub fn partition_key(&self) -> Option<&PartitionKey> {
        match &self.target {
            Some(OperationTarget::PartitionKey(key)) => Some(key),
            _ => None,
        }
    }

    /// Whether it is about one partition, so that it can be routed around it: items, and procedures when they
    /// are executed.
    pub(crate) fn is_in_partition(&self) -> bool {
        match self.path().kind() {
            ResourceType::Document => true,
            ResourceType::StoredProcedure => self.operation_type() == OperationType::Execute,
            _ => false,
        }
    }

    /// Whether it is about one item.
    pub(crate) fn is_about_one_item(&self) -> bool {
        self.path().kind() == ResourceType::Document
            && !matches!(
                self.operation_type(),
                OperationType::Query
                    | OperationType::QueryPlan
                    | OperationType::ReadFeed
                    | OperationType::Batch
            )
    }

    /// Its parts as they are sent.
    pub(crate) fn encoded(&self) -> &Encoded {
        &self.encoded
    }

    /// The precondition, if there is one.
    #[must_use]
    pub fn precondition(&self) -> Option<&Precondition> {
        self.precondition.as_ref()
    }

    /// The session it belongs to.
    #[must_use]
    pub fn session_token(&self) -> Option<&SessionToken> {
        self.session_token.as_ref()
    }

    /// Its own headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Its body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The effect of repeating it, as far as the settings let it be repeated. `has_etag`: the call gives it a condition.
    pub(crate) fn request_kind(&self, retry: AmbiguousWriteRetry, has_etag: bool) -> RequestKind {
        if self.operation_type.is_read_only() {
            return RequestKind::Read;
        }
        match retry.permits(self.is_repeatable, self.is_conditional() || has_etag) {
            true => RequestKind::IdempotentWrite,
            false => RequestKind::Write,
        }
    }

    /// Whether it takes place only if something holds of what it changes.
    pub(crate) fn is_conditional(&self) -> bool {
        self.is_conditional || matches!(self.precondition, Some(Precondition::IfMatch(_)))
    }

    /// Whether applying it twice does no harm.
    #[must_use]
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> ResourceLink {
        ResourceLink::container("store", "orders").unwrap()
    }

    fn key() -> PartitionKey {
        PartitionKey::from("contoso")
    }

    #[test]
    fn operations_on_items_know_their_path() {
        let (own, feed) = ("/dbs/store/colls/orders/docs/1", "/dbs/store/colls/orders/docs");
        let body = || Bytes::from_static(b"{}");
        for (operation, path) in [
            (CosmosOperation::read_item(&orders(), key(), "1"), own),
            (CosmosOperation::create_item(&orders(), key(), body()), feed),
            (CosmosOperation::upsert_item(&orders(), key(), body()), feed),
            (CosmosOperation::replace_item(&orders(), key(), "1", body()), own),
            (CosmosOperation::patch_item(&orders(), key(), "1", body()), own),
            (CosmosOperation::delete_item(&orders(), key(), "1"), own),
            (CosmosOperation::query_items(&orders(), body()), feed),
            (CosmosOperation::execute_batch(&orders(), key(), body()), feed),
            (CosmosOperation::execute_bulk(&orders(), 0.into(), body()), feed),
        ] {
            let operation = operation.unwrap();
            assert_eq!(operation.path().to_string(), path, "{:?}", operation.operation_type());
            assert_eq!(operation.path().is_feed(), operation.operation_type().is_feed());
        }
    }

    #[test]
    fn an_operation_knows_its_container() {
        let container = |operation: CosmosOperation| operation.encoded().container.clone();
        let feed = RequestPath::feed(orders(), ResourceType::Document).unwrap();
        let read = CosmosOperation::read_item(&orders(), key(), "1").unwrap();
        let list = CosmosOperation::new(OperationType::ReadFeed, feed);
        assert_eq!(container(read).as_deref(), Some(orders().as_str()));
        assert_eq!(container(list).as_deref(), Some(orders().as_str()));
        let database = RequestPath::of(ResourceLink::database("store").unwrap());
        assert_eq!(container(CosmosOperation::new(OperationType::Read, database)), None);
    }

    #[test]
    fn only_containers_have_items() {
        let database = ResourceLink::database("store").unwrap();
        assert!(CosmosOperation::read_item(&database, key(), "1").is_err());
        assert!(CosmosOperation::upsert_item(&database, key(), Bytes::new()).is_err());
    }

    #[test]
    fn a_patch_may_be_repeated_if_it_is_idempotent() {
        let repeatable = |patch: &'static str| {
            let patch = Bytes::from_static(patch.as_bytes());
            CosmosOperation::patch_item(&orders(), key(), "1", patch).unwrap().is_repeatable()
        };
        assert!(repeatable(r#"{"operations":[{"op":"set","path":"/n","value":1}]}"#));
        assert!(!repeatable(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#));
        assert!(!repeatable("no patch"));
    }
}
