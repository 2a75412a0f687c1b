//! A page of a query or feed: rows are added until it is full in number or in bytes.

use bytes::Bytes;
use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, Rid};

use crate::reply::Reply;

/// Rows of a page where the client names no number: the service's default.
const DEFAULT_ROWS: usize = 100;
/// The most bytes of a page, as on the service; one row that is larger makes a page of its own.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A page under construction. Rows are kept as text: what is counted is what is sent.
#[derive(Debug)]
pub(super) struct Page {
    rows: Vec<String>,
    bytes: usize,
    max_rows: usize,
}

impl Page {
    pub(super) fn new(max_rows: Option<usize>) -> Self {
        Self { rows: Vec::new(), bytes: 0, max_rows: max_rows.unwrap_or(DEFAULT_ROWS) }
    }

    /// Adds a row unless the page is full; returns whether it did.
    pub(super) fn push(&mut self, row: &Value) -> bool {
        if self.rows.len() >= self.max_rows {
            return false;
        }
        let text = row.to_string();
        // Never refused on an empty page: a row larger than the bound would stop the feed for ever.
        if !self.rows.is_empty() && self.bytes + text.len() > MAX_BYTES {
            return false;
        }
        self.bytes += text.len();
        self.rows.push(text);
        true
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= self.max_rows || self.bytes >= MAX_BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn into_reply(self, container: Rid) -> Reply {
        let rows = self.rows.join(",");
        let count = self.rows.len();
        let body =
            format!("{{\"_rid\":\"{container}\",\"Documents\":[{rows}],\"_count\":{count}}}");
        Reply::bytes(CosmosStatus::OK, Bytes::from(body)).with(headers::ITEM_COUNT, count)
    }
}
