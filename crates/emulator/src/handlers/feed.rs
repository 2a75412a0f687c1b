//! Pages of metadata: lists and queries of databases, containers and offers.

use serde_json::Value;
use sidereal_protocol::{QueryRequest, Rid};
use sidereal_query::{Program, parse};

use super::query::{evaluation_context, parameters_of, query_refused};
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use sidereal_protocol::headers::names as headers;

/// All entries, a page at a time.
pub(super) fn list(
    incoming: &Incoming,
    rid: Option<Rid>,
    name: &str,
    entries: Vec<Value>,
) -> Result<Reply> {
    let skip: usize = match incoming.typed().continuation()? {
        None => 0,
        Some(token) => token
            .parse()
            .map_err(|_| ServiceError::bad_header(headers::CONTINUATION.as_str(), token))?,
    };
    let size = incoming.max_item_count()?.unwrap_or(DEFAULT_PAGE);
    let total = entries.len();
    let page: Vec<Value> = entries.into_iter().skip(skip).take(size).collect();
    let next = skip.saturating_add(page.len());
    let reply = Reply::feed(rid, name, page);
    Ok(if next < total { reply.with(headers::CONTINUATION, next) } else { reply })
}

/// The entries that a query selects, a page at a time.
pub(super) fn query(
    incoming: &Incoming,
    rid: Option<Rid>,
    name: &str,
    entries: &[Value],
) -> Result<Reply> {
    let request = QueryRequest::from_json(&incoming.body)?;
    let tree = parse(&request.query).map_err(|error| query_refused(&error.into()))?;
    let parameters = parameters_of(&request);
    let program = Program::new(&tree, &parameters).map_err(|error| query_refused(&error.into()))?;
    let context = evaluation_context(incoming.now);
    let rows = program.run(entries, &context)?;
    list(incoming, rid, name, rows)
}

/// Entries of a page where the client names no number.
const DEFAULT_PAGE: usize = 100;
