//! From a query to the requests of its pages.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use sidereal_driver::{CosmosOperation, OperationTarget};
use sidereal_protocol::headers::names;
use sidereal_protocol::{
    OperationType, QueryParameter, QueryRequest, RequestPath, ResourceLink, ResourceType,
    SessionToken,
};
use sidereal_query::Features;
use sidereal_query::merge::Position;

use super::limits::MAX_CONTINUATION_BYTES;
use super::targets::Target;
use crate::item_body::encode;
use crate::{Error, ErrorKind, Result};

const TRUE: HeaderValue = HeaderValue::from_static("True");
const QUERY_VERSION: HeaderValue = HeaderValue::from_static("1.0");
const BY_RANGE: HeaderValue = HeaderValue::from_static(names::EFFECTIVE_PARTITION_KEY_RANGE);

/// The placeholder in the filter of a rewritten ORDER BY, for clients that resume by a condition of their own.
const FILTER_PLACEHOLDER: &str = "{documentdb-formattableorderbyquery-filter}";

/// The features that the merge supports, for the header of plan requests.
pub(super) fn supported_features() -> Features {
    let hybrid = Features::HYBRID_SEARCH
        .with(Features::HYBRID_SEARCH_SKIP_ORDER_BY_REWRITE)
        .with(Features::WEIGHTED_RANK_FUSION);
    // The last is no word of the service's.
    Features::ALL.without(hybrid).without(Features::GROUP_BY_AGGREGATE_ORDER)
}

/// Options of the requests of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) page_size: Option<u32>,
    pub(super) session_token: Option<SessionToken>,
    pub(super) index_metrics: bool,
    pub(super) query_metrics: bool,
}

/// From where on a range is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Start {
    /// From its beginning.
    #[default]
    Beginning,
    /// After the page that came with this continuation.
    After(String),
    /// From a row of a sorted query on, that row included.
    At(Position),
    /// From that row on, after the page that came with this continuation.
    Resumed(Position, String),
}

impl Start {
    /// After the next page.
    pub(super) fn after(&self, continuation: String) -> Self {
        match self {
            Self::Beginning | Self::After(_) => Self::After(continuation),
            // The service takes a continuation with the query that it belongs to.
            Self::At(position) | Self::Resumed(position, _) => {
                Self::Resumed(position.clone(), continuation)
            }
        }
    }
}

/// Builds the page requests of one query.
#[derive(Debug)]
pub(super) struct PageRequests {
    /// With everything but a target, a body and a continuation.
    operation: CosmosOperation,
    request: QueryRequest,
    /// The body of a request that begins at the beginning.
    body: Bytes,
}

impl PageRequests {
    pub(super) fn new(
        (container, rid): (&ResourceLink, &str),
        text: &str,
        parameters: &[QueryParameter],
        options: &RequestOptions,
    ) -> Result<Self> {
        let text = without_placeholder(text);
        let request = QueryRequest {
            query: text,
            parameters: parameters.to_vec(),
            resume_filter: None,
            other: Map::new(),
        };
        let body = encode(&request)?;
        let path = RequestPath::feed(container.clone(), ResourceType::Document)?;
        let operation = with_query_headers(CosmosOperation::new(OperationType::Query, path));
        let mut operation = with_options(operation, options);
        // Another container of the same name must not answer in the middle of a query.
        if let Ok(rid) = HeaderValue::from_str(rid) {
            operation = operation.with_header(names::INTENDED_COLLECTION_RID, rid);
        }
        Ok(Self { operation, request, body })
    }

    /// The request of one page.
    pub(super) fn page(&self, target: &Target, start: &Start) -> Result<CosmosOperation> {
        let operation = target.apply(self.operation.clone());
        Ok(match start {
            Start::Beginning => operation.with_body(self.body.clone()),
            Start::After(continuation) => {
                let value = continuation_header(continuation)?;
                operation.with_body(self.body.clone()).with_header(names::CONTINUATION, value)
            }
            Start::At(position) => operation.with_body(self.resumed_body(position)?),
            Start::Resumed(position, continuation) => {
                let value = continuation_header(continuation)?;
                let operation = operation.with_body(self.resumed_body(position)?);
                operation.with_header(names::CONTINUATION, value)
            }
        })
    }

    fn resumed_body(&self, position: &Position) -> Result<Bytes> {
        let resume_filter = Some(position.resume_filter());
        encode(&QueryRequest { resume_filter, ..self.request.clone() })
    }
}

/// The request for the gateway's plan of a query.
pub(super) fn plan_request(
    container: &ResourceLink,
    text: &str,
    parameters: &[QueryParameter],
) -> Result<CosmosOperation> {
    let request = QueryRequest {
        query: text.to_owned(),
        parameters: parameters.to_vec(),
        resume_filter: None,
        other: Map::new(),
    };
    let path = RequestPath::feed(container.clone(), ResourceType::Document)?;
    let operation = CosmosOperation::new(OperationType::QueryPlan, path);
    Ok(with_query_headers(operation).with_body(encode(&request)?))
}

fn with_query_headers(operation: CosmosOperation) -> CosmosOperation {
    let features = supported_features().names().join(",");
    let operation = operation.with_header(names::QUERY_VERSION, QUERY_VERSION);
    match HeaderValue::try_from(features) {
        Ok(features) => operation.with_header(names::SUPPORTED_QUERY_FEATURES, features),
        // Names are letters, so this does not happen.
        Err(_) => operation,
    }
}

fn with_options(mut operation: CosmosOperation, options: &RequestOptions) -> CosmosOperation {
    if let Some(size) = options.page_size {
        operation = operation.with_header(names::MAX_ITEM_COUNT, HeaderValue::from(size));
    }
    if let Some(token) = &options.session_token {
        operation = operation.with_session_token(token.clone());
    }
    let asked = [
        (names::POPULATE_INDEX_METRICS, options.index_metrics),
        (names::POPULATE_QUERY_METRICS, options.query_metrics),
    ];
    for (name, _) in asked.into_iter().filter(|(_, is_asked)| *is_asked) {
        operation = operation.with_header(name, TRUE);
    }
    operation
}

/// A continuation as it is sent back.
pub(super) fn continuation_header(continuation: &str) -> Result<HeaderValue> {
    let refused = |why: &str| {
        Error::new(
            ErrorKind::InvalidResponse,
            format!("the service gave a continuation that cannot be sent back: {why}"),
        )
    };
    if continuation.len() > MAX_CONTINUATION_BYTES {
        return Err(refused(&format!(
            "it is {} bytes long, and headers end at {MAX_CONTINUATION_BYTES}",
            continuation.len()
        )));
    }
    HeaderValue::from_str(continuation).map_err(|_| refused("it has characters no header can have"))
}

impl Target {
    /// Addresses a query to the target.
    pub(super) fn apply(&self, query: CosmosOperation) -> CosmosOperation {
        let query = self.address(query);
        match self {
            Self::Key(_) => query,
            Self::Range { .. } => query.with_header(names::ENABLE_CROSS_PARTITION_QUERY, TRUE),
        }
    }

    /// Addresses an operation to the target.
    pub(crate) fn address(&self, operation: CosmosOperation) -> CosmosOperation {
        match self {
            Self::Key(key) => operation.with_partition_key(key.clone()),
            Self::Range { id, window } => {
                let operation = operation.with_target(OperationTarget::PartitionRange(id.clone()));
                let Some(window) = window else { return operation };
                let bounds = [(names::START_EPK, window.min()), (names::END_EPK, window.max())];
                let headers = bounds.into_iter().filter_map(|(name, bound)| {
                    // Hexadecimal digits make a header.
                    Some((name, HeaderValue::try_from(bound.to_string()).ok()?))
                });
                let headers: Vec<(HeaderName, HeaderValue)> = headers.collect();
                let operation = operation.with_header(names::READ_KEY_TYPE, BY_RANGE);
                headers.into_iter().fold(operation, |it, (name, value)| it.with_header(name, value))
            }
        }
    }
}

/// The text with `true` for the placeholder, wherever it stands outside of strings and comments.
pub(super) fn without_placeholder(text: &str) -> String {
    let (mut output, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(FILTER_PLACEHOLDER) {
            output.push_str("true");
            rest = after;
            continue;
        }
        let (token, after) = rest.split_at(opaque_prefix(rest));
        output.push_str(token);
        rest = after;
    }
    output
}

/// The length of the string or comment that a text begins with, or of its first character.
fn opaque_prefix(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    match text.as_bytes() {
        [quote @ (b'\'' | b'"'), ..] => {
            let mut escaped = false;
            let end = text.bytes().enumerate().skip(1).find(|(_, byte)| {
                let is_end = byte == quote && !escaped;
                escaped = *byte == b'\\' && !escaped;
                is_end
            });
            end.map_or(text.len(), |(at, _)| at + 1)
        }
        [b'-', b'-', ..] => text.find('\n').unwrap_or(text.len()),
        _ => first,
    }
}

/// A parameter's value, with its sign.
pub(super) fn parameter(name: &str, value: Value) -> QueryParameter {
    let name = if name.starts_with('@') { name.to_owned() } else { format!("@{name}") };
    QueryParameter { name, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_placeholder_is_replaced_where_it_is_one() {
        let text = format!(
            "SELECT '{FILTER_PLACEHOLDER}' AS a, \"\\\"{FILTER_PLACEHOLDER}\" AS b -- {FILTER_PLACEHOLDER}\n\
             FROM c WHERE (c.é = 1) AND {FILTER_PLACEHOLDER}"
        );
        let replaced = without_placeholder(&text);
        assert_eq!(replaced.matches(FILTER_PLACEHOLDER).count(), 3);
        assert!(replaced.ends_with("(c.é = 1) AND true"), "{replaced}");
    }

    #[test]
    fn text_that_ends_in_a_string_or_a_comment_stays_as_it_is() {
        for text in ["SELECT 'open", "SELECT 1 -- end", "", "SELECT \"\\", "a - b", "é"] {
            assert_eq!(without_placeholder(text), text);
        }
    }

    #[test]
    fn a_continuation_that_no_header_can_carry_is_refused() {
        for (bad, expected) in
            [("x".repeat(MAX_CONTINUATION_BYTES + 1), "bytes long"), ("a\nb".to_owned(), "header")]
        {
            let error = continuation_header(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidResponse);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
