//! Batches: several operations on one partition key, in one request.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::patch::PatchDocument;
use crate::error::{Error, ErrorKind, Result};
use crate::etag::Etag;
use crate::partition_key::PartitionKey;
use crate::resource::OperationType;
use crate::status::CosmosStatus;
use crate::wire::wire_enum;

/// The most operations of one batch.
// A documented limit of the service.
pub const MAX_BATCH_OPERATIONS: usize = 100;

/// The most bytes of one batch.
// A documented limit of the service, that of any request.
pub const MAX_BATCH_BYTES: usize = 2 * 1024 * 1024;

/// One operation of a batch. Its body stays as it was written.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchOperation {
    /// The type of the operation.
    pub operation_type: BatchOperationType,
    /// The item; not for a create or upsert, whose body says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The key of the item, where the batch is addressed to a range: a JSON array inside a string.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "key_in_text")]
    pub partition_key: Option<PartitionKey>,
    /// The item, or the patch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_body: Option<Box<RawValue>>,
    /// The version the item must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_match: Option<Etag>,
    /// The version the item must not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_none_match: Option<Etag>,
    /// Whether a write is answered without the item.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub minimal_return_preference: bool,
    /// Anything else the sender put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl BatchOperation {
    /// An operation without item, body or condition.
    pub fn new(operation_type: BatchOperationType) -> Self {
        Self {
            operation_type,
            id: None,
            partition_key: None,
            resource_body: None,
            if_match: None,
            if_none_match: None,
            minimal_return_preference: false,
            other: Map::new(),
        }
    }

    /// Whether it is idempotent: applied twice, it leaves the data as applied once; see
    /// [`PatchDocument::is_idempotent`] for patches.
    pub fn is_idempotent(&self) -> bool {
        match self.operation_type {
            BatchOperationType::Patch => self
                .resource_body
                .as_ref()
                .and_then(|body| PatchDocument::from_json(body.get().as_bytes()).ok())
                .is_some_and(|patch| patch.is_idempotent()),
            BatchOperationType::Create
            | BatchOperationType::Upsert
            | BatchOperationType::Replace
            | BatchOperationType::Read
            | BatchOperationType::Delete => true,
        }
    }

    /// Whether it takes place only if something holds of its item: an `ifMatch`, or, for a create, that there is none
    /// of its id.
    pub fn is_conditional(&self) -> bool {
        self.if_match.is_some() || self.operation_type == BatchOperationType::Create
    }
}

wire_enum! {
    /// The type of a batch operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum BatchOperationType: "batch operation" {
        /// Create an item.
        Create = "Create",
        /// Create or replace an item.
        Upsert = "Upsert",
        /// Replace an item.
        Replace = "Replace",
        /// Read an item.
        Read = "Read",
        /// Delete an item.
        Delete = "Delete",
        /// Change parts of an item.
        Patch = "Patch",
    }
}

impl From<BatchOperationType> for OperationType {
    fn from(operation: BatchOperationType) -> Self {
        match operation {
            BatchOperationType::Create => Self::Create,
            BatchOperationType::Upsert => Self::Upsert,
            BatchOperationType::Replace => Self::Replace,
            BatchOperationType::Read => Self::Read,
            BatchOperationType::Delete => Self::Delete,
            BatchOperationType::Patch => Self::Patch,
        }
    }
}

/// Reads the body of a batch; refuses an empty one and one beyond the limits.
pub fn parse_batch(body: &[u8]) -> Result<Vec<BatchOperation>> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Batch, why));
    if body.len() > MAX_BATCH_BYTES {
        return refuse(format!(
            "the batch is {} bytes long: it may have at most {MAX_BATCH_BYTES}",
            body.len()
        ));
    }
    let operations: Vec<BatchOperation> = match serde_json::from_slice(body) {
        Ok(operations) => operations,
        Err(error) => {
            return refuse(format!(
                "the body is not a batch: {error}; \
                 expected [{{\"operationType\": \"Create\", \"resourceBody\": {{}}}}]"
            ));
        }
    };
    // The service's words, which applications look for.
    match operations.len() {
        0 => refuse("Batch request has no operations.".to_owned()),
        1..=MAX_BATCH_OPERATIONS => Ok(operations),
        count => refuse(format!(
            "Batch request has more operations than what is supported. It has {count}, of at most \
             {MAX_BATCH_OPERATIONS}."
        )),
    }
}

/// The outcome of one operation of a batch.
///
/// Only the status is required, for a result that cannot be read hides whether its operation was applied. Names are
/// read in any case (SDKs differ in `subStatusCode`), numbers also as fractions or text, and a field whose value means
/// nothing counts as absent.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// The HTTP code.
    pub status_code: u16,
    /// The sub-status, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_status_code: Option<u32>,
    /// The charge, in request units.
    pub request_charge: f64,
    /// The version of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e_tag: Option<Etag>,
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_body: Option<Box<RawValue>>,
    /// How long to wait before trying again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_milliseconds: Option<u64>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl BatchResult {
    /// The status as one value.
    pub fn status(&self) -> CosmosStatus {
        CosmosStatus::with_sub_status(self.status_code, self.sub_status_code.unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for BatchResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = BTreeMap::<String, Box<RawValue>>::deserialize(deserializer)?;
        let (mut result, mut status) = (Self::default(), None);
        for (name, value) in fields {
            match name.to_ascii_lowercase().as_str() {
                "statuscode" => status = whole_number(&value),
                "substatuscode" => result.sub_status_code = whole_number(&value),
                "requestcharge" => result.request_charge = number(&value).unwrap_or_default(),
                "etag" => result.e_tag = serde_json::from_str(value.get()).ok(),
                "resourcebody" => result.resource_body = (value.get() != "null").then_some(value),
                "retryaftermilliseconds" => result.retry_after_milliseconds = whole_number(&value),
                _ => {
                    let value = serde_json::from_str(value.get()).map_err(D::Error::custom)?;
                    result.other.insert(name, value);
                }
            }
        }
        result.status_code = status.ok_or_else(|| D::Error::missing_field("statusCode"))?;
        Ok(result)
    }
}

/// A number, or a text that is one.
fn number(value: &RawValue) -> Option<f64> {
    let number: f64 = value.get().trim_matches('"').parse().ok()?;
    number.is_finite().then_some(number)
}

/// The whole part of a number, if it has a value of this type.
fn whole_number<T: TryFrom<u64>>(value: &RawValue) -> Option<T> {
    let number = number(value).filter(|number| *number >= 0.0)?;
    T::try_from(number as u64).ok()
}

/// A partition key as the JavaScript SDK writes it into a batch: as the text of its header.
mod key_in_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    use crate::partition_key::PartitionKey;

    pub(super) fn serialize<S: Serializer>(
        key: &Option<PartitionKey>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        key.as_ref().map(ToString::to_string).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<PartitionKey>, D::Error> {
        match Option::<Value>::deserialize(deserializer)? {
            None => Ok(None),
            Some(Value::String(text)) => text.parse().map(Some).map_err(serde::de::Error::custom),
            Some(array) => {
                PartitionKey::deserialize(array).map(Some).map_err(serde::de::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_round_trips_and_leaves_bodies_as_they_are() {
        let body = [
            r#"[{"operationType":"Create","resourceBody":{"id": "1",  "v":1.0}}"#,
            r#"{"operationType":"Delete","id":"2","ifMatch":"\"7\""}"#,
            r#"{"operationType":"Read","id":"3","partitionKey":"[\"b\"]"}]"#,
        ]
        .join(",");
        let operations = parse_batch(body.as_bytes()).unwrap();
        assert_eq!(operations[0].resource_body.as_ref().unwrap().get(), r#"{"id": "1",  "v":1.0}"#);
        assert_eq!(operations[2].partition_key, Some("b".into()));
        assert_eq!(serde_json::to_string(&operations).unwrap(), body);
    }

    #[test]
    fn a_batch_is_idempotent_unless_a_patch_in_it_is_not() {
        let operation = |op: &str| {
            let body = json!([{"operationType": "Patch", "id": "1",
                "resourceBody": {"operations": [{"op": op, "path": "/a", "value": 1}]}}]);
            parse_batch(body.to_string().as_bytes()).unwrap().remove(0)
        };
        assert!(operation("set").is_idempotent());
        assert!(!operation("incr").is_idempotent());
        assert!(BatchOperation::new(BatchOperationType::Delete).is_idempotent());
        assert!(!BatchOperation::new(BatchOperationType::Patch).is_idempotent());
    }

    #[test]
    fn the_limits_of_a_batch_are_kept() {
        let of =
            |count| json!(vec![json!({"operationType": "Read", "id": "1"}); count]).to_string();
        assert!(parse_batch(of(100).as_bytes()).is_ok());
        for bad in [of(0), of(101), "{}".to_owned(), " ".repeat(MAX_BATCH_BYTES + 1)] {
            assert_eq!(parse_batch(bad.as_bytes()).unwrap_err().kind(), ErrorKind::Batch);
        }
    }

    #[test]
    fn a_result_has_one_status() {
        let result: BatchResult =
            serde_json::from_str(r#"{"statusCode":412,"substatusCode":1110,"requestCharge":1.5}"#)
                .unwrap();
        assert_eq!(result.status(), CosmosStatus::PATCH_CONDITION_NOT_MET);
        let spelled = |name| format!(r#"{{"statusCode":412,"{name}":1110}}"#);
        for name in ["subStatusCode", "substatusCode", "SubStatusCode", "substatuscode"] {
            let result: BatchResult = serde_json::from_str(&spelled(name)).unwrap();
            assert_eq!(result.status(), CosmosStatus::PATCH_CONDITION_NOT_MET, "{name}");
        }
        let json =
            serde_json::to_string(&BatchResult { status_code: 424, ..BatchResult::default() })
                .unwrap();
        assert_eq!(json, r#"{"statusCode":424,"requestCharge":0.0}"#);
    }

    #[test]
    fn an_odd_field_of_a_result_does_not_hide_its_status() {
        let odd = r#"{"statusCode":429.0,"subStatusCode":"3200","requestCharge":"1.5","eTag":"",
            "retryAfterMilliseconds":12.7,"resourceBody":null,"new":{"a":1}}"#;
        let result: BatchResult = serde_json::from_str(odd).unwrap();
        assert_eq!(result.status(), CosmosStatus::with_sub_status(429, 3200));
        assert_eq!((result.request_charge, result.retry_after_milliseconds), (1.5, Some(12)));
        assert!(result.e_tag.is_none() && result.resource_body.is_none());
        assert_eq!(result.other["new"], json!({"a": 1}));
        for field in ["subStatusCode", "requestCharge", "eTag", "retryAfterMilliseconds"] {
            for value in ["-1", "{}", "[]", "null", "true", "1e999", "\"\""] {
                let text = format!(r#"{{"statusCode":200,"{field}":{value}}}"#);
                let result: BatchResult = serde_json::from_str(&text).unwrap();
                assert_eq!(result.status_code, 200, "{text}");
            }
        }
        let item = r#"{"statusCode":201,"resourceBody":{"id": "1",  "v":1.0}}"#;
        let result: BatchResult = serde_json::from_str(item).unwrap();
        assert_eq!(result.resource_body.unwrap().get(), r#"{"id": "1",  "v":1.0}"#);
        for unreadable in ["{}", r#"{"statusCode":"x"}"#, r#"{"statusCode":70000}"#, "1", "[]"] {
            assert!(serde_json::from_str::<BatchResult>(unreadable).is_err(), "{unreadable}");
        }
    }
}
