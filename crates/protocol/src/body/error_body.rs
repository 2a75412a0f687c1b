//! The body of an error.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::status::CosmosStatus;

/// `{"code": "NotFound", "message": "…"}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorBody {
    /// The name of the status.
    pub code: String,
    /// The message, for people.
    pub message: String,
    /// The query plan, when a query was refused because it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_error_info: Option<String>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl ErrorBody {
    /// The body for a status.
    pub fn new(status: CosmosStatus, message: impl Into<String>) -> Self {
        let code = status.code_name().unwrap_or("Unknown").to_owned();
        Self { code, message: message.into(), ..Self::default() }
    }

    /// Reads a body if it is one: proxies in between answer with anything.
    pub fn from_json(body: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(body)
            .ok()
            .filter(|error| !error.code.is_empty() || !error.message.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_back() {
        let error = ErrorBody::new(CosmosStatus::READ_SESSION_NOT_AVAILABLE, "try another region");
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(json, r#"{"code":"NotFound","message":"try another region"}"#);
        assert_eq!(ErrorBody::from_json(json.as_bytes()), Some(error));
    }

    #[test]
    fn the_page_of_a_proxy_is_not_an_error_body() {
        for body in ["<html>", "", "[]", "{}", "\"no\""] {
            assert_eq!(ErrorBody::from_json(body.as_bytes()), None);
        }
    }
}
