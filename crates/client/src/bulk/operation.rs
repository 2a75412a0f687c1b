//! One operation of a bulk, and its text in a batch.

use bytes::Bytes;
use serde::Serialize;
use sidereal_protocol::{
    BatchOperationType, Etag, MAX_BATCH_BYTES, PartitionKey, PatchDocument, ResourceType, check_id,
};

use crate::batch::is_answered_with_item;
use crate::item_body::encode_named_item;
use crate::{Error, Patch, Result};

/// One operation of a bulk, on one item: see [`ContainerClient::bulk`](crate::ContainerClient::bulk).
///
/// One that cannot be sent, such as an item without an id, fails alone when the bulk is executed.
///
/// ```
/// use sidereal::BulkOperation;
///
/// let order = serde_json::json!({"id": "4711", "customer": "contoso", "total": 120});
/// let operation = BulkOperation::upsert_item("contoso", &order);
/// assert_eq!(operation.id(), Some("4711"));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct BulkOperation {
    kind: BatchOperationType,
    key: PartitionKey,
    /// None of an item that has none.
    id: Option<String>,
    body: Result<Option<Bytes>>,
    if_match: Option<Etag>,
    if_none_match: Option<Etag>,
}

impl BulkOperation {
    /// Creates an item; there must be none of its id.
    pub fn create_item(key: impl Into<PartitionKey>, item: impl Serialize) -> Self {
        Self::with_item(BatchOperationType::Create, key.into(), encode_named_item(&item))
    }

    /// Creates an item, or replaces the one of its id.
    pub fn upsert_item(key: impl Into<PartitionKey>, item: impl Serialize) -> Self {
        Self::with_item(BatchOperationType::Upsert, key.into(), encode_named_item(&item))
    }

    /// Replaces an item.
    pub fn replace_item(key: impl Into<PartitionKey>, id: &str, item: impl Serialize) -> Self {
        let body = encode_named_item(&item).map(|(body, _)| Some(body));
        Self::on_id(BatchOperationType::Replace, key.into(), id, body)
    }

    /// Reads an item.
    pub fn read_item(key: impl Into<PartitionKey>, id: &str) -> Self {
        Self::on_id(BatchOperationType::Read, key.into(), id, Ok(None))
    }

    /// Deletes an item.
    pub fn delete_item(key: impl Into<PartitionKey>, id: &str) -> Self {
        Self::on_id(BatchOperationType::Delete, key.into(), id, Ok(None))
    }

    /// Changes parts of an item.
    pub fn patch_item(key: impl Into<PartitionKey>, id: &str, patch: Patch) -> Self {
        Self::on_id(BatchOperationType::Patch, key.into(), id, patch.encode().map(Some))
    }

    /// Applies the operation only if the item still has this etag.
    pub fn with_if_match(mut self, etag: Etag) -> Self {
        self.if_match = Some(etag);
        self
    }

    /// Applies the operation only if the item does not have this etag.
    pub fn with_if_none_match(mut self, etag: Etag) -> Self {
        self.if_none_match = Some(etag);
        self
    }

    /// The type of the operation.
    #[must_use]
    pub fn operation(&self) -> BatchOperationType {
        self.kind
    }

    /// The id of the item; none if it has none, in which case the operation fails.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The partition key of the item.
    #[must_use]
    pub fn partition_key(&self) -> &PartitionKey {
        &self.key
    }

    fn with_item(
        kind: BatchOperationType,
        key: PartitionKey,
        item: Result<(Bytes, String)>,
    ) -> Self {
        let (id, body) = match item {
            Ok((body, id)) => (Some(id), Ok(Some(body))),
            Err(error) => (None, Err(error)),
        };
        Self { kind, key, id, body, if_match: None, if_none_match: None }
    }

    fn on_id(
        kind: BatchOperationType,
        key: PartitionKey,
        id: &str,
        body: Result<Option<Bytes>>,
    ) -> Self {
        let refused = check_id(ResourceType::Document, id).err();
        let body = refused.map_or(body, |error| Err(error.into()));
        Self { kind, key, id: Some(id.to_owned()), body, if_match: None, if_none_match: None }
    }

    /// Its name, for the result, and its text, if it has one that can be sent.
    pub(super) fn encoded(self, wants_item: bool) -> (Name, Result<Encoded>) {
        let Self { kind, key, id, body, if_match, if_none_match } = self;
        let encoded = body.and_then(|body| {
            // A creation and an upsert name their item in its body.
            let is_in_body =
                matches!(kind, BatchOperationType::Create | BatchOperationType::Upsert);
            let head = Head {
                operation_type: kind,
                id: id.as_deref().filter(|_| !is_in_body),
                partition_key: key.to_header(),
                if_match: if_match.as_ref(),
                if_none_match: if_none_match.as_ref(),
                minimal_return_preference: is_answered_with_item(kind) && !wants_item,
            };
            Encoded::new(kind, &head, body.unwrap_or_default())
        });
        (Name { kind, key, id }, encoded)
    }
}

/// The identity of an operation in its result.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) kind: BatchOperationType,
    pub(super) key: PartitionKey,
    pub(super) id: Option<String>,
}

/// The headers of an operation: its type, key, id and conditions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    operation_type: BatchOperationType,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    /// A JSON array inside a string, as other SDKs write it.
    partition_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_match: Option<&'a Etag>,
    #[serde(skip_serializing_if = "Option::is_none")]
    if_none_match: Option<&'a Etag>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    minimal_return_preference: bool,
}

/// The text of an operation in a batch. The item's own is not copied before the batch is made.
#[derive(Clone, Debug)]
pub(super) struct Encoded {
    /// The object without its closing brace.
    head: Vec<u8>,
    body: Bytes,
    /// Whether it may be sent again after an attempt that may have been applied: if applied twice, it leaves the data
    /// as applied once. The settings can say less.
    pub(super) is_repeatable: bool,
    /// It takes place only if something holds of its item.
    pub(super) is_conditional: bool,
    /// It changes nothing.
    pub(super) is_read: bool,
}

const BODY: &[u8] = br#","resourceBody":"#;

impl Encoded {
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the operation alone exceeds the size limit of a batch.
    fn new(kind: BatchOperationType, head: &Head<'_>, body: Bytes) -> Result<Self> {
        let is_repeatable = kind != BatchOperationType::Patch
            || PatchDocument::from_json(&body).is_ok_and(|patch| patch.is_idempotent());
        let is_conditional = kind == BatchOperationType::Create || head.if_match.is_some();
        let mut head = crate::item_body::encode(head)?.to_vec();
        head.pop();
        let is_read = kind == BatchOperationType::Read;
        let encoded = Self { head, body, is_repeatable, is_conditional, is_read };
        match encoded.len() + BRACKETS <= MAX_BATCH_BYTES {
            true => Ok(encoded),
            false => Err(Error::invalid(format!(
                "it is {} bytes long: the service takes at most {MAX_BATCH_BYTES} in one request; split the item, \
                 or keep its large parts elsewhere",
                encoded.len() + BRACKETS
            ))),
        }
    }

    /// Its length, with the comma before the next one.
    pub(super) fn len(&self) -> usize {
        let body = if self.body.is_empty() { 0 } else { BODY.len() + self.body.len() };
        self.head.len() + body + 2
    }

    fn write_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.head);
        if !self.body.is_empty() {
            text.extend_from_slice(BODY);
            text.extend_from_slice(&self.body);
        }
        text.push(b'}');
    }
}

/// The bytes around the operations of a batch.
pub(super) const BRACKETS: usize = 2;

/// The body of a batch.
pub(super) fn batch_body<'a>(operations: impl Iterator<Item = &'a Encoded> + Clone) -> Bytes {
    let length: usize = operations.clone().map(Encoded::len).sum();
    let mut text = Vec::with_capacity(length + BRACKETS);
    text.push(b'[');
    for (number, operation) in operations.enumerate() {
        if number > 0 {
            text.push(b',');
        }
        operation.write_to(&mut text);
    }
    text.push(b']');
    text.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sidereal_protocol::parse_batch;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_batch_is_what_the_service_reads() {
        let etag = Etag::new("\"7\"").unwrap();
        let item = json!({"id": "1", "pk": "a\"b"});
        let operations = [
            BulkOperation::create_item("a\"b", &item),
            BulkOperation::replace_item("a\"b", "1", &item).with_if_match(etag.clone()),
            BulkOperation::delete_item(("t", 1), "x y"),
            BulkOperation::patch_item("a", "2", Patch::new().increment("/n", 1)),
        ];
        let encoded: Vec<Encoded> =
            operations.into_iter().map(|it| it.encoded(true).1.unwrap()).collect();
        let idempotent: Vec<bool> = encoded.iter().map(|it| it.is_repeatable).collect();
        assert_eq!(idempotent, [true, true, true, false]);
        let body = batch_body(encoded.iter());
        let length: usize = encoded.iter().map(Encoded::len).sum();
        assert!(body.len() <= length + BRACKETS);
        let parsed = parse_batch(&body).unwrap();
        assert_eq!(parsed[0].resource_body.as_ref().unwrap().get(), item.to_string());
        assert_eq!(parsed[0].partition_key, Some("a\"b".into()));
        assert_eq!((parsed[0].id.as_deref(), parsed[1].id.as_deref()), (None, Some("1")));
        assert_eq!(parsed[1].if_match, Some(etag));
        assert_eq!(parsed[2].partition_key, Some(("t", 1).into()));
        assert!(parsed[3].resource_body.is_some());
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_reason() {
        let large = json!({"id": "1", "text": "x".repeat(MAX_BATCH_BYTES - 60)});
        for (operation, expected) in [
            (BulkOperation::upsert_item("a", json!({"no": "id"})), "id"),
            (BulkOperation::delete_item("a", "a/b"), "/"),
            (BulkOperation::patch_item("a", "1", Patch::new()), "patch"),
            (BulkOperation::upsert_item("a", &large), "2097152"),
        ] {
            let error = operation.encoded(true).1.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
