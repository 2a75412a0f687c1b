//! Errors as the service words them: a status, a sub-status and a body.

use std::time::Duration;

use serde_json::{Value, json};
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::names as headers;

use crate::reply::Reply;
use crate::store::Refusal;

/// A request that is answered with an error.
#[derive(Clone, Debug)]
pub(crate) struct ServiceError {
    pub(crate) status: CosmosStatus,
    pub(crate) message: String,
    pub(crate) retry_after: Option<Duration>,
    /// Further members of the body, beside code and message: the plan of a query that must be fanned out.
    pub(crate) additional: Option<Value>,
}

pub(crate) type Result<T, E = ServiceError> = std::result::Result<T, E>;

impl ServiceError {
    /// The write cannot be stored. Whether it is there after a restart cannot be told.
    pub(crate) fn not_durable(reason: &str) -> Self {
        let message = format!(
            "The account cannot store what it is told, since {reason}. Whether the writes that were under way \
             are there after a restart is not known; free space or repair the disk, and start it again."
        );
        Self::new(CosmosStatus::INTERNAL_SERVER_ERROR, message)
    }

    pub(crate) fn new(status: CosmosStatus, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None, additional: None }
    }

    /// A malformed request; the message says what to change.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(CosmosStatus::BAD_REQUEST, message)
    }

    /// A header whose value cannot be used.
    pub(crate) fn bad_header(name: &str, value: &str) -> Self {
        Self::bad_request(format!("Invalid value '{value}' specified for the header '{name}'."))
    }

    /// A malformed continuation, or one of another query or feed.
    pub(crate) fn invalid_continuation(token: &str) -> Self {
        /// As much of a refused token as its refusal repeats.
        const MAX_SHOWN: usize = 64;
        let shown: String = token.chars().take(MAX_SHOWN).collect();
        Self::bad_request(format!(
            "Invalid Continuation Token '{shown}': send back the x-ms-continuation of the page before, \
             unchanged, to the same container, range or key."
        ))
    }

    pub(crate) fn not_found() -> Self {
        let message = "Entity with the specified id does not exist in the system. \
                       More info: https://aka.ms/cosmosdb-tsg-not-found";
        Self::new(CosmosStatus::NOT_FOUND, message)
    }

    /// The database or container of the request does not exist.
    pub(crate) fn owner_not_found() -> Self {
        Self::new(CosmosStatus::OWNER_RESOURCE_NOT_FOUND, "Owner resource does not exist")
    }

    /// A partition key of more or fewer components than the container's.
    pub(crate) fn partition_key_mismatch() -> Self {
        Self::new(
            CosmosStatus::PARTITION_KEY_MISMATCH,
            "Partition key provided either doesn't correspond to definition in the collection or doesn't match \
             partition key field values specified in the document.",
        )
    }

    pub(crate) fn conflict() -> Self {
        Self::new(
            CosmosStatus::CONFLICT,
            "Entity with the specified id already exists in the system.",
        )
    }

    pub(crate) fn precondition_failed() -> Self {
        let message =
            "Operation cannot be performed because one of the specified precondition is not met.";
        Self::new(CosmosStatus::PRECONDITION_FAILED, message)
    }

    pub(crate) fn too_large() -> Self {
        let message = r#"Message: {"Errors":["Request size is too large"]}"#;
        Self::new(CosmosStatus::PAYLOAD_TOO_LARGE, message)
    }

    pub(crate) fn batch_response_too_large() -> Self {
        Self::new(
            CosmosStatus::BATCH_RESPONSE_SIZE_EXCEEDED,
            "The items of the batch's response are too large: send fewer operations in one batch.",
        )
    }

    pub(crate) fn throttled(retry_after: Duration) -> Self {
        let message = "Request rate is large. More Request Units may be needed, so no changes were made. \
                       Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429";
        let error = Self::new(CosmosStatus::REQUEST_UNITS_EXCEEDED, message);
        Self { retry_after: Some(retry_after), ..error }
    }

    /// The region does not accept writes, of the account or of this partition.
    pub(crate) fn write_forbidden() -> Self {
        let message = "The requested operation cannot be performed at this region: it is not the region \
                       that accepts writes.";
        Self::new(CosmosStatus::WRITE_FORBIDDEN, message)
    }

    /// The region is no longer part of the account.
    pub(crate) fn region_removed() -> Self {
        let message = "The database account does not exist in this region: read the account again.";
        Self::new(CosmosStatus::DATABASE_ACCOUNT_NOT_FOUND, message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "The requested verb is not supported for this resource.";
        Self::new(CosmosStatus::METHOD_NOT_ALLOWED, message)
    }
}

impl ServiceError {
    /// The error as a response: code and message, as clients parse them.
    pub(crate) fn into_reply(self) -> Reply {
        let code = self.status.code_name().unwrap_or("Error");
        let mut body = json!({ "code": code, "message": self.message });
        if let Some(additional) = self.additional {
            body["additionalErrorInfo"] = additional;
        }
        let reply = Reply::json(self.status, &body);
        match self.retry_after {
            Some(wait) => reply.with(headers::RETRY_AFTER_MS, wait.as_millis()),
            None => reply,
        }
    }
}

/// Whatever is malformed on the wire is the client's to correct, and the error says how.
impl From<sidereal_protocol::Error> for ServiceError {
    fn from(error: sidereal_protocol::Error) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// A query that passes a bound while it runs.
impl From<sidereal_query::EvalError> for ServiceError {
    fn from(error: sidereal_query::EvalError) -> Self {
        Self::bad_request(error.to_string())
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflict => Self::conflict(),
            Refusal::UniqueKeyConflict => {
                Self::new(CosmosStatus::UNIQUE_INDEX_CONFLICT, "Unique index constraint violation.")
            }
            Refusal::NotFound => Self::not_found(),
            Refusal::NotModified(_) => Self::new(CosmosStatus::NOT_MODIFIED, ""),
            Refusal::PreconditionFailed => Self::precondition_failed(),
            Refusal::PatchConditionNotMet => Self::new(
                CosmosStatus::PATCH_CONDITION_NOT_MET,
                "One of the specified pre-condition is not met: the patch's condition does not hold.",
            ),
            Refusal::TooLarge => Self::too_large(),
            Refusal::Invalid(message) => Self::bad_request(message),
        }
    }
}
