//! What a request does, as faults and counters name it.
//!
//! The words are those of the protocol, with one more: a change feed is told from the reading of a feed,
//! since the two fail and cost differently.

use std::fmt;
use std::str::FromStr;

use http::{HeaderMap, HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use sidereal_protocol::headers::{RequestHeaders, names};
use sidereal_protocol::{RequestPath, ResourceType};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum Operation {
    /// Create a resource that must not exist.
    Create,
    /// Read one resource; the account is one.
    Read,
    /// List resources.
    ReadFeed,
    /// Follow the changes of a container.
    ChangeFeed,
    /// Run a query.
    Query,
    /// Ask for the plan of a query.
    QueryPlan,
    /// Run a batch.
    Batch,
    /// Create or replace.
    Upsert,
    /// Replace a resource that must exist.
    Replace,
    /// Change parts of an item.
    Patch,
    /// Delete a resource, or all items of a partition key.
    Delete,
    /// Anything else: a probe, or a verb that no resource has.
    Other,
}

impl Operation {
    /// Every operation with its word.
    const WORDS: [(Self, &'static str); 12] = [
        (Self::Create, "Create"),
        (Self::Read, "Read"),
        (Self::ReadFeed, "ReadFeed"),
        (Self::ChangeFeed, "ChangeFeed"),
        (Self::Query, "Query"),
        (Self::QueryPlan, "QueryPlan"),
        (Self::Batch, "Batch"),
        (Self::Upsert, "Upsert"),
        (Self::Replace, "Replace"),
        (Self::Patch, "Patch"),
        (Self::Delete, "Delete"),
        (Self::Other, "Other"),
    ];

    /// The operation's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(operation, _)| *operation == self);
        found.map_or("Other", |(_, word)| word)
    }

    /// What a request does; `path` is absent where it names no resource.
    pub(crate) fn of(method: &Method, headers: &HeaderMap, path: Option<&RequestPath>) -> Self {
        let Some(path) = path else { return Self::Other };
        let typed = RequestHeaders::new(headers);
        match *method {
            Method::GET | Method::HEAD if headers.contains_key(names::A_IM) => Self::ChangeFeed,
            Method::GET | Method::HEAD if path.is_feed() => Self::ReadFeed,
            Method::GET | Method::HEAD => Self::Read,
            Method::PUT => Self::Replace,
            Method::PATCH => Self::Patch,
            Method::DELETE => Self::Delete,
            Method::POST if path.kind() == ResourceType::PartitionKey => Self::Delete,
            Method::POST if typed.is_query_plan_request().unwrap_or(false) => Self::QueryPlan,
            Method::POST if says_query(headers) => Self::Query,
            Method::POST if typed.is_batch_request().unwrap_or(false) => Self::Batch,
            Method::POST if typed.is_upsert().unwrap_or(false) => Self::Upsert,
            Method::POST => Self::Create,
            _ => Self::Other,
        }
    }
}

fn says_query(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    content_type.is_some_and(|value| value.starts_with(b"application/query+json"))
        || RequestHeaders::new(headers).is_query().unwrap_or(false)
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl From<Operation> for &'static str {
    fn from(operation: Operation) -> Self {
        operation.as_str()
    }
}

/// A word that is no operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperation(String);

impl fmt::Display for UnknownOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Operation::WORDS.map(|(_, word)| word).join(", ");
        write!(formatter, "\"{}\" is not an operation: expected one of {words}", self.0)
    }
}

impl std::error::Error for UnknownOperation {}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let found = Self::WORDS.iter().find(|(_, word)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(operation, _)| *operation).ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

impl TryFrom<String> for Operation {
    type Error = UnknownOperation;

    fn try_from(text: String) -> Result<Self, UnknownOperation> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const DOCS: &str = "/dbs/db/colls/c/docs";

    fn of(method: Method, path: &str, header: Option<(&'static str, &'static str)>) -> Operation {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(HeaderName::from_static(name), value.parse().unwrap());
        }
        Operation::of(&method, &headers, path.parse().ok().as_ref())
    }

    #[test]
    fn a_request_is_told_by_its_verb_its_path_and_its_headers() {
        let item = "/dbs/db/colls/c/docs/1";
        let cases = [
            (Method::GET, "/", None, Operation::Read),
            (Method::GET, item, None, Operation::Read),
            (Method::GET, DOCS, None, Operation::ReadFeed),
            (Method::GET, DOCS, Some(("a-im", "Incremental feed")), Operation::ChangeFeed),
            (Method::POST, DOCS, None, Operation::Create),
            (Method::POST, DOCS, Some(("x-ms-documentdb-is-upsert", "true")), Operation::Upsert),
            (Method::POST, DOCS, Some(("x-ms-documentdb-isquery", "True")), Operation::Query),
            (
                Method::POST,
                DOCS,
                Some(("content-type", "application/query+json")),
                Operation::Query,
            ),
            (
                Method::POST,
                DOCS,
                Some(("x-ms-cosmos-is-query-plan-request", "True")),
                Operation::QueryPlan,
            ),
            (Method::POST, DOCS, Some(("x-ms-cosmos-is-batch-request", "true")), Operation::Batch),
            (Method::PUT, item, None, Operation::Replace),
            (Method::PATCH, item, None, Operation::Patch),
            (Method::DELETE, item, None, Operation::Delete),
            (
                Method::POST,
                "/dbs/db/colls/c/operations/partitionkeydelete",
                None,
                Operation::Delete,
            ),
            (Method::GET, "/probe", None, Operation::Other),
            (Method::OPTIONS, "/", None, Operation::Other),
        ];
        for (method, path, header, expected) in cases {
            assert_eq!(of(method.clone(), path, header), expected, "{method} {path} {header:?}");
        }
    }

    #[test]
    fn words_are_read_in_any_case_and_a_wrong_one_names_the_right_ones() {
        assert_eq!("queryplan".parse(), Ok(Operation::QueryPlan));
        for (operation, word) in Operation::WORDS {
            assert_eq!((operation.as_str(), word.parse()), (word, Ok(operation)));
        }
        let said = "Write".parse::<Operation>().unwrap_err().to_string();
        assert!(said.contains("\"Write\"") && said.contains("Upsert"), "{said}");
    }
}
