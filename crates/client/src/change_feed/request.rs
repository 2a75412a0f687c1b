//! One page of one range: the request, and what came of it.

use std::sync::Arc;

use http::HeaderValue;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_driver::{ContainerMetadata, CosmosDriver, CosmosOperation, CosmosResponse};
use sidereal_protocol::headers::names;
use sidereal_protocol::{CosmosStatus, OperationType, RequestPath, ResourceLink, ResourceType};

use super::ChangeFeedStart;
use super::start::{Position, since_header};
use crate::long_call::Call;
use crate::query::fetch::RawRows;
use crate::query::range_reader::{RECREATED, is_gone};
use crate::query::targets::Target;
use crate::query::windows::{ItemIn, Windows};
use crate::{Error, ErrorKind, Result};

/// The latest version of every item that changed.
const LATEST_VERSION: HeaderValue = HeaderValue::from_static("Incremental Feed");
const FROM_NOW: HeaderValue = HeaderValue::from_static("*");

/// Reads pages of a container's change feed.
#[derive(Debug)]
pub(super) struct PageReader {
    driver: Arc<CosmosDriver>,
    /// With everything but a target and a position.
    operation: CosmosOperation,
    is_from_now: bool,
    call: Call,
    windows: Windows,
}

/// Empty pages in a row that may come without 304. Where the service reads past changes that the reader does not want,
/// each moves the position.
const MAX_EMPTY_PAGES: usize = 1_000;
/// Empty pages in a row that may come with the same position: a server that never answers 304 ends a feed so.
const MAX_EMPTY_PAGES_IN_PLACE: usize = 16;

/// The next changes, or the end of the feed.
#[derive(Debug)]
pub(super) struct FetchedPage {
    /// None if nothing has changed.
    pub(super) rows: RawRows,
    pub(super) position: Position,
    pub(super) response: CosmosResponse,
    /// Of the empty pages before it.
    pub(super) earlier: Vec<DiagnosticsContext>,
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum NoPage {
    /// The partition range was split or merged: ask those that took its place.
    Gone(Error),
    Failed(Error),
}

impl PageReader {
    /// Reads the container with a RID, and no other of its name.
    pub(super) fn new(
        driver: Arc<CosmosDriver>,
        (link, container): (&ResourceLink, &ContainerMetadata),
        start: (ChangeFeedStart, Option<u64>),
        page_size: Option<u32>,
        call: Call,
    ) -> Result<Self> {
        let path = RequestPath::feed(link.clone(), ResourceType::Document)?;
        let mut operation = CosmosOperation::new(OperationType::ReadFeed, path)
            .with_header(names::A_IM, LATEST_VERSION);
        if let Ok(rid) = HeaderValue::from_str(container.rid()) {
            operation = operation.with_header(names::INTENDED_COLLECTION_RID, rid);
        }
        if let Some(size) = page_size {
            operation = operation.with_header(names::MAX_ITEM_COUNT, HeaderValue::from(size));
        }
        // Also beside a continuation: after a merge the service filters by it what the continuation does not.
        if let Some(since) = start.1 {
            operation = operation.with_header(IF_MODIFIED_SINCE, since_header(since)?);
        }
        let is_from_now = start.0 == ChangeFeedStart::Now;
        let windows = Windows::new(container.partition_key_definition(), ItemIn::Row);
        Ok(Self { driver, operation, is_from_now, call, windows })
    }

    /// The changes after a position: the next page that has some, or none at the end of the feed.
    ///
    /// Only 304 says that the feed has ended. A page without changes may come before others that have some, such as
    /// after a merge or with a start time.
    pub(super) async fn fetch(
        &self,
        target: &Target,
        position: &Position,
    ) -> Result<FetchedPage, NoPage> {
        let mut page = self.fetch_page(target, position).await?;
        let (mut empty, mut in_place) = (0, 0);
        while page.rows.len() == 0 && !page.response.status().is_not_modified() {
            let mut next = self.fetch_page(target, &page.position).await?;
            empty += 1;
            in_place = if next.position == page.position { in_place + 1 } else { 0 };
            page.earlier.push(page.response.diagnostics().clone());
            next.earlier = page.earlier;
            page = next;
            if empty >= MAX_EMPTY_PAGES || in_place >= MAX_EMPTY_PAGES_IN_PLACE {
                break;
            }
        }
        Ok(page)
    }

    async fn fetch_page(
        &self,
        target: &Target,
        position: &Position,
    ) -> Result<FetchedPage, NoPage> {
        let operation_for = |target: &Target| self.operation_at(target, position);
        let (driver, windows) = (&self.driver, &self.windows);
        let asked = windows.ask((driver, &self.call), target, operation_for).await;
        let asked = asked.map_err(|error| match error.status() {
            Some(CosmosStatus::COLLECTION_RID_MISMATCH | CosmosStatus::NAME_CACHE_IS_STALE) => {
                NoPage::Failed(Error::caused_by(ErrorKind::NotFound, RECREATED, error))
            }
            Some(status) if matches!(target, Target::Range { .. }) && is_gone(status) => {
                NoPage::Gone(error)
            }
            _ => NoPage::Failed(error),
        })?;
        let mut page = read(asked.response, position).map_err(NoPage::Failed)?;
        windows.narrow(&mut page.rows, asked.window.as_ref()).map_err(NoPage::Failed)?;
        Ok(page)
    }

    fn operation_at(&self, target: &Target, position: &Position) -> Result<CosmosOperation> {
        let operation = target.address(self.operation.clone());
        Ok(match position {
            Position::Start if self.is_from_now => operation.with_header(IF_NONE_MATCH, FROM_NOW),
            Position::Start => operation,
            Position::After(etag) => {
                let etag = HeaderValue::from_str(etag)
                    .map_err(|_| Error::invalid("the position in the feed cannot be sent"))?;
                operation.with_header(IF_NONE_MATCH, etag)
            }
        })
    }
}

/// Reads a page, and refuses one that would come again for ever.
fn read(response: CosmosResponse, before: &Position) -> Result<FetchedPage> {
    let refused = |why| Error::new(ErrorKind::InvalidResponse, why);
    let etag = response.headers().etag().ok_or_else(|| {
        refused("the service answered a read of the change feed without saying where it goes on")
    })?;
    let position = Position::After(etag.as_str().to_owned());
    let rows = match response.status().is_not_modified() {
        true => RawRows::default(),
        false => RawRows::of_feed(response.body().clone())?,
    };
    if rows.len() > 0 && position == *before {
        return Err(refused(
            "the service gave changes and the position before them: they would never end",
        ));
    }
    Ok(FetchedPage { rows, position, response, earlier: Vec::new() })
}
