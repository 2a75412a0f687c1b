//! The body of a query request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};

/// A query and its parameters: `{"query": "…", "parameters": […]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryRequest {
    /// The text of the query.
    pub query: String,
    /// Values for the parameters the text mentions.
    #[serde(
        default,
        deserialize_with = "crate::wire::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub parameters: Vec<QueryParameter>,
    /// Where to take up an ordered query again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_filter: Option<ResumeFilter>,
    /// Anything else the sender put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl QueryRequest {
    /// A query without parameters.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), parameters: Vec::new(), resume_filter: None, other: Map::new() }
    }

    /// Adds the value of a parameter, named with or without its `@`.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: impl Into<Value>) -> Self {
        let name = if name.starts_with('@') { name.to_owned() } else { format!("@{name}") };
        self.parameters.push(QueryParameter { name, value: value.into() });
        self
    }

    /// Reads a request body.
    pub fn from_json(body: &[u8]) -> Result<Self> {
        let request: Self = serde_json::from_slice(body).map_err(|error| {
            let message = format!(
                "the body is not a query: {error}; expected {{\"query\": \"SELECT …\", \"parameters\": []}}"
            );
            Error::new(ErrorKind::Query, message)
        })?;
        match request.parameters.iter().find(|parameter| !parameter.name.starts_with('@')) {
            None => Ok(request),
            Some(parameter) => {
                let message =
                    format!("the query parameter \"{}\" must begin with @", parameter.name);
                Err(Error::new(ErrorKind::Query, message))
            }
        }
    }

    /// The value of a parameter, named with its `@`.
    pub fn parameter(&self, name: &str) -> Option<&Value> {
        let found = self.parameters.iter().find(|parameter| parameter.name == name)?;
        Some(&found.value)
    }
}

/// One parameter of a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryParameter {
    /// The name, `@` included.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// Where an ordered query was interrupted: the server answers from this row on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumeFilter {
    /// The sort values of the last row seen; undefined is written as `[]`.
    pub value: Vec<Value>,
    /// The RID of the last row seen, which tells rows with equal values apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rid: Option<String>,
    /// Whether the answer leaves out that row itself.
    #[serde(default)]
    pub exclude: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_round_trips_with_fields_nobody_knows() {
        let body = json!({
            "query": "SELECT * FROM c WHERE c.a = @a",
            "parameters": [{"name": "@a", "value": {"nested": [1]}}],
            "resumeFilter": {"value": [1, []], "rid": "abc", "exclude": false},
            "newer": true,
        });
        let request = QueryRequest::from_json(body.to_string().as_bytes()).unwrap();
        assert_eq!(request.parameter("@a"), Some(&json!({"nested": [1]})));
        assert_eq!(serde_json::to_value(request).unwrap(), body);
    }

    #[test]
    fn parameters_may_be_missing_or_null() {
        for body in [r#"{"query":"SELECT 1"}"#, r#"{"query":"SELECT 1","parameters":null}"#] {
            assert_eq!(QueryRequest::from_json(body.as_bytes()), Ok(QueryRequest::new("SELECT 1")));
        }
    }

    #[test]
    fn a_body_that_is_no_query_is_refused() {
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"query":1}"#,
            r#"{"query":"","parameters":[{"name":"a","value":1}]}"#,
        ] {
            assert_eq!(
                QueryRequest::from_json(bad.as_bytes()).unwrap_err().kind(),
                ErrorKind::Query,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_parameter_gains_its_sign() {
        let request =
            QueryRequest::new("SELECT @a, @b").with_parameter("a", 1).with_parameter("@b", "x");
        assert_eq!(request.parameter("@a"), Some(&json!(1)));
        assert_eq!(request.parameter("@b"), Some(&json!("x")));
    }
}
