//! A page of a query or feed: rows are added until it is full in number or in bytes.

use bytes::Bytes;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, Rid};
use sidereal_query::Row;

use crate::reply::Reply;
use crate::store::Item;

/// Rows of a page where the client names no number: the service's default.
const DEFAULT_ROWS: usize = 100;
/// The most bytes of a page, as on the service; one row that is larger makes a page of its own.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A page under construction. Rows are written as text at once: what is counted is what is sent.
#[derive(Debug)]
pub(super) struct Page {
    /// The rows, separated by commas.
    text: Vec<u8>,
    rows: usize,
    max_rows: usize,
}

/// How far a page was filled at some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    bytes: usize,
    rows: usize,
}

impl Page {
    pub(super) fn new(max_rows: Option<usize>) -> Self {
        Self { text: Vec::new(), rows: 0, max_rows: max_rows.unwrap_or(DEFAULT_ROWS) }
    }

    /// Adds an item as it is stored, unless the page is full; returns whether it did.
    pub(super) fn push_item(&mut self, item: &Item) -> bool {
        self.push(|text| text.extend_from_slice(&item.text))
    }

    /// Adds a row that was made from an item, unless the page is full; returns whether it did.
    pub(super) fn push_row(&mut self, row: &Row<'_>, item: Option<&Item>) -> bool {
        match item.filter(|_| row.is_document()) {
            // The stored text is copied rather than written again from the value.
            Some(item) => self.push_item(item),
            None => self.push(|text| {
                let _ = serde_json::to_writer(text, row); // Neither a row nor memory can fail to be written.
            }),
        }
    }

    fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        if self.is_full() {
            return false;
        }
        let before = self.text.len();
        if self.rows > 0 {
            self.text.push(b',');
        }
        write(&mut self.text);
        // Never refused on an empty page: a row larger than the bound would stop the feed for ever.
        if self.rows > 0 && self.text.len() > MAX_BYTES {
            self.text.truncate(before);
            return false;
        }
        self.rows += 1;
        true
    }

    /// How far it is filled, for [`back_to`](Self::back_to).
    pub(super) fn filled(&self) -> Filled {
        Filled { bytes: self.text.len(), rows: self.rows }
    }

    /// Takes back the rows that were added since.
    pub(super) fn back_to(&mut self, filled: Filled) {
        self.text.truncate(filled.bytes);
        self.rows = filled.rows;
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows >= self.max_rows || self.text.len() >= MAX_BYTES
    }

    pub(super) fn bytes(&self) -> usize {
        self.text.len()
    }

    pub(super) fn len(&self) -> usize {
        self.rows
    }

    pub(super) fn into_reply(self, container: Rid) -> Reply {
        feed_of(container, &self.text, self.rows)
    }
}

/// A feed of items or rows, which are text already, separated by commas.
pub(in crate::handlers) fn feed_of(container: Rid, rows: &[u8], count: usize) -> Reply {
    let head = format!("{{\"_rid\":\"{container}\",\"Documents\":[");
    let tail = format!("],\"_count\":{count}}}");
    let body = [head.as_bytes(), rows, tail.as_bytes()].concat();
    Reply::bytes(CosmosStatus::OK, Bytes::from(body)).with(headers::ITEM_COUNT, count)
}
