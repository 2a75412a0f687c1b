//! The change feed: the latest version of each item, in the order of the log.
//!
//! The cursor is a sequence number, and a page ends only between two of them: what a transactional batch
//! wrote together arrives together.

use std::sync::Arc;

use http::header;
use serde_json::json;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, Etag, HttpDate};
use sidereal_query::parse_at;

use super::items::PartitionHeaders;
use super::query::feed_of;
use super::target::{Slice, Target};
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::grease::Latitude;
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Container, Item, Replica, ReplicaProgress};

/// Items of a page where the client names no number: the service's default.
const DEFAULT_PAGE: usize = 100;
/// Bytes after which a page ends at the next log sequence number; the service's limit for a response.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// `GET …/docs` with `A-IM: Incremental Feed`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let mode = request.typed().text(&headers::A_IM)?.unwrap_or_default();
    if !mode.eq_ignore_ascii_case("Incremental Feed") {
        return Err(ServiceError::bad_request(format!(
            "The change feed mode '{mode}' is not available: this emulator keeps the latest version of each \
             item; send A-IM: Incremental Feed."
        )));
    }
    let definition = container.definition();
    let target = Target::of(request, container, &definition)?;
    let [slice] = target.slices() else {
        return Err(ServiceError::bad_request(
            "The change feed is read per partition: name a partition key or a partition key range.",
        ));
    };
    account.admit(request, container, &slice.partition)?;
    let replica = request.view(&slice.partition);
    let progress = ReplicaProgress::of(&replica);
    account.check_session(request, &slice.partition, &progress)?;
    let page = Page::read(request, slice, &replica)?;
    drop(replica); // The read lock; the page holds its items by `Arc`.
    account.spend(&slice.partition, request.now, page.charge);
    let headers = PartitionHeaders { request, container, partition: &slice.partition, progress };
    Ok(headers.add_to(page.into_reply(request, container)?))
}

/// The content of a page and where the next one begins.
struct Page {
    items: Vec<Arc<Item>>,
    cursor: u64,
    charge: f64,
}

impl Page {
    fn read(request: &ClassifiedRequest, slice: &Slice, replica: &Replica) -> Result<Self> {
        let lsn = replica.lsn();
        let Start { after, since } = Start::of(request, lsn)?;
        if request.takes(Latitude::EmptyChanges) {
            return Ok(Self { items: Vec::new(), cursor: after, charge: charge::MINIMUM });
        }
        let size = request.page_items()?.unwrap_or(DEFAULT_PAGE);
        let expiry = request.expiry();
        let wanted = |item: &&Arc<Item>| {
            slice.contains(item) && !expiry.is_over(item) && item.written_at >= since
        };
        let mut items: Vec<Arc<Item>> = Vec::new();
        // Never before the client's own: a region that is behind would give what it has already, once it catches up.
        let (mut bytes, mut cursor) = (0, lsn.max(after));
        for item in replica.changed_after(after).filter(wanted) {
            let last = items.last().map(|last| last.lsn);
            // A full page still takes the rest of its entry: transactional batches are not torn apart.
            let full = items.len() >= size || bytes >= PAGE_BYTES;
            if let Some(last) = last.filter(|last| full && *last != item.lsn) {
                cursor = last;
                break;
            }
            bytes += item.size();
            items.push(item.clone());
        }
        let charge = items.iter().map(|item| charge::read(item.size())).sum::<f64>();
        Ok(Self { items, cursor, charge: charge.max(charge::MINIMUM) })
    }

    fn into_reply(self, request: &ClassifiedRequest, container: &Container) -> Result<Reply> {
        let etag = Etag::new(format!("\"{}\"", self.cursor))?;
        // 304 with an etag, as the protocol has it: nothing new, and where to ask from next.
        if self.items.is_empty() && !request.takes(Latitude::EmptyChanges) {
            return Ok(Reply::empty(CosmosStatus::NOT_MODIFIED)
                .with_etag(&etag)
                .charged(self.charge));
        }
        let enveloped = request.typed().text(&headers::CHANGE_FEED_WIRE_FORMAT_VERSION)?.is_some();
        let entry = |item: &Arc<Item>| if enveloped { envelope(item) } else { flat(item) };
        let entries: Vec<Vec<u8>> = self.items.iter().map(entry).collect();
        let reply = feed_of(container.rid, &entries.join(&b','), entries.len());
        Ok(reply.with_etag(&etag).charged(self.charge))
    }
}

/// Where reading begins: after a sequence number, and not with anything older than a moment.
struct Start {
    after: u64,
    /// Seconds since the epoch.
    since: u64,
}

impl Start {
    fn of(request: &ClassifiedRequest, current: u64) -> Result<Self> {
        let since = match request.typed().text(&header::IF_MODIFIED_SINCE)? {
            None => 0,
            Some(text) => parse_moment(text)?,
        };
        let after = match request.typed().text(&header::IF_NONE_MATCH)? {
            None => 0,
            // "From now": what is there already is skipped.
            Some("*") => current,
            Some(text) => text
                .trim_matches('"')
                .parse()
                .map_err(|_| ServiceError::bad_header(header::IF_NONE_MATCH.as_str(), text))?,
        };
        Ok(Self { after, since })
    }
}

fn parse_moment(text: &str) -> Result<u64> {
    let refuse = || ServiceError::bad_header(header::IF_MODIFIED_SINCE.as_str(), text);
    let date: HttpDate = text.parse().map_err(|_| refuse())?;
    let since = date.time().duration_since(std::time::UNIX_EPOCH).map_err(|_| refuse())?;
    Ok(since.as_secs())
}

/// The item with the number of the entry that wrote it, as a last property.
fn flat(item: &Item) -> Vec<u8> {
    let lsn = format!("\"_lsn\":{}}}", item.lsn);
    let Some(open) = item.text.strip_suffix(b"}") else { return item.text.to_vec() };
    // A property of that name that the client wrote is replaced.
    if parse_at(&item.text, &["_lsn"]).is_some() {
        let mut document = item.document();
        document["_lsn"] = json!(item.lsn);
        return document.to_string().into_bytes();
    }
    [open, b",", lsn.as_bytes()].concat()
}

fn envelope(item: &Item) -> Vec<u8> {
    let metadata = json!({ "lsn": item.lsn, "crts": item.written_at });
    let tail = format!(",\"metadata\":{metadata}}}");
    [b"{\"current\":", &item.text[..], tail.as_bytes()].concat()
}
