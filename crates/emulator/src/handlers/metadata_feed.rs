//! Pages of metadata: lists and queries of databases, containers and offers.

use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{Etag, Rid};

use super::query::{ParsedQuery, evaluation_context};
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;

/// All entries, a page at a time.
pub(super) fn list(
    request: &ClassifiedRequest,
    rid: Option<Rid>,
    name: &str,
    entries: Vec<Value>,
) -> Result<Reply> {
    let skip: usize = match request.typed().continuation()? {
        None => 0,
        Some(token) => token.parse().map_err(|_| ServiceError::invalid_continuation(token))?,
    };
    let size = request.page_items()?.unwrap_or(DEFAULT_PAGE);
    let total = entries.len();
    let page: Vec<Value> = entries.into_iter().skip(skip).take(size).collect();
    let next = skip.saturating_add(page.len());
    let reply = Reply::feed(rid, name, page);
    Ok(if next < total { reply.with(headers::CONTINUATION, next) } else { reply })
}

/// The entries that a query selects, a page at a time.
pub(super) fn query(
    request: &ClassifiedRequest,
    rid: Option<Rid>,
    name: &str,
    entries: &[Value],
) -> Result<Reply> {
    let program = ParsedQuery::from_body(&request.body)?.compile()?;
    let rows = program.run(entries, &evaluation_context(request.now))?;
    list(request, rid, name, rows)
}

/// Refuses a write of a resource that is not of the version that the client names.
pub(super) fn check_version(request: &ClassifiedRequest, current: &Etag) -> Result<()> {
    match request.conditions()?.if_match {
        Some(wanted) if !wanted.matches(current) => Err(ServiceError::precondition_failed()),
        _ => Ok(()),
    }
}

/// Entries of a page where the client names no number: the service's default.
const DEFAULT_PAGE: usize = 100;
