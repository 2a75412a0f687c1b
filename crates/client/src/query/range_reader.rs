//! One partition range being read: a task that requests its pages, ahead of the reader as far as it may.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sidereal_driver::CosmosDriver;
use sidereal_protocol::{CosmosStatus, EffectivePartitionKeyRange};
use tokio::sync::mpsc::UnboundedSender;

use super::budget::{Budget, RangeShare};
use super::fetch::FetchedPage;
use super::limits::QueryLimits;
use super::request::{PageRequests, Start};
use super::targets::Target;
use super::windows::Windows;
use crate::long_call::Call;
use crate::{Error, ErrorKind, Result};

/// The state that the range readers of one query share.
#[derive(Debug)]
pub(super) struct ReaderContext {
    pub(super) driver: Arc<CosmosDriver>,
    pub(super) requests: PageRequests,
    pub(super) call: Call,
    pub(super) limits: QueryLimits,
    pub(super) windows: Windows,
}

/// Why a query cannot go on in a container of the same name.
pub(crate) const RECREATED: &str =
    "the container was deleted and created again while it was being read: start from the beginning";

/// An event of a range reader, for the fan-out.
#[derive(Debug)]
pub(super) enum RangeEvent {
    /// The next page; the range reader has ended if it is the last one.
    Page(Box<FetchedPage>),
    /// The partition range was split or merged. The range reader has ended; its successors start where it stood.
    Gone { error: Error, start: Start },
    /// The range reader has failed.
    Failed(Error),
}

/// A range reader's events come with its number.
pub(super) type Events = UnboundedSender<(usize, RangeEvent)>;

/// Reads a range to its end.
pub(super) async fn run(
    number: usize,
    target: Target,
    mut start: Start,
    (budget, share): (Arc<Budget>, Arc<RangeShare>),
    shared: Arc<ReaderContext>,
    events: Events,
) {
    let mut watch = Watch::new(shared.limits);
    loop {
        budget.admit(&share).await;
        let event = match next_page(&shared, &budget, &target, &start).await {
            // Watched before it is narrowed: rows outside of the window still count as progress.
            Ok((mut page, window)) => {
                let checked = watch.check(&page);
                let narrow = |()| shared.windows.narrow(&mut page.rows, window.as_ref());
                match checked.and_then(narrow) {
                    Ok(()) => RangeEvent::Page(Box::new(page)),
                    Err(error) => RangeEvent::Failed(error),
                }
            }
            Err(Failure::Gone(error)) => RangeEvent::Gone { error, start: start.clone() },
            Err(Failure::Other(error)) => RangeEvent::Failed(error),
        };
        let next = match &event {
            RangeEvent::Page(page) => {
                budget.filled(page.rows.bytes());
                page.continuation.clone()
            }
            RangeEvent::Gone { .. } | RangeEvent::Failed(_) => None,
        };
        // Nobody reads any more, or nothing is left to read.
        let (Ok(()), Some(next)) = (events.send((number, event)), next) else { return };
        start = start.after(next);
    }
}

enum Failure {
    Gone(Error),
    Other(Error),
}

async fn next_page(
    shared: &ReaderContext,
    budget: &Budget,
    target: &Target,
    start: &Start,
) -> Result<(FetchedPage, Option<EffectivePartitionKeyRange>), Failure> {
    // Never closed, so it can only give a permit.
    let permit = budget.requests.acquire().await;
    let ReaderContext { driver, requests, call, windows, .. } = shared;
    let asked = windows.ask((driver, call), target, |target| requests.page(target, start)).await;
    drop(permit);
    let asked = asked.map_err(|error| match error.status() {
        Some(CosmosStatus::COLLECTION_RID_MISMATCH | CosmosStatus::NAME_CACHE_IS_STALE) => {
            Failure::Other(Error::caused_by(ErrorKind::NotFound, RECREATED, error))
        }
        Some(status) if matches!(target, Target::Range { .. }) && is_gone(status) => {
            Failure::Gone(error)
        }
        _ => Failure::Other(error),
    })?;
    FetchedPage::of(&asked.response).map(|page| (page, asked.window)).map_err(Failure::Other)
}

/// Whether a partition range is no longer there, or about not to be.
pub(crate) fn is_gone(status: CosmosStatus) -> bool {
    status == CosmosStatus::PARTITION_KEY_RANGE_GONE
        || status == CosmosStatus::COMPLETING_SPLIT_OR_MERGE
        || status == CosmosStatus::COMPLETING_PARTITION_MIGRATION
}

/// Notices a server that will never come to an end.
#[derive(Debug)]
pub(super) struct Watch {
    limits: QueryLimits,
    pages: usize,
    empty_in_a_row: usize,
    /// Of every continuation that came: a hash is enough, and eight bytes a page.
    seen: HashSet<u64>,
}

impl Watch {
    pub(super) fn new(limits: QueryLimits) -> Self {
        Self { limits, pages: 0, empty_in_a_row: 0, seen: HashSet::new() }
    }

    fn check(&mut self, page: &FetchedPage) -> Result<()> {
        self.observe(page.rows.len(), page.continuation.as_deref())
    }

    /// Refuses a page that is one too many.
    pub(super) fn observe(&mut self, rows: usize, continuation: Option<&str>) -> Result<()> {
        self.pages += 1;
        self.empty_in_a_row = if rows == 0 { self.empty_in_a_row + 1 } else { 0 };
        let Some(continuation) = continuation else { return Ok(()) };
        let mut hasher = DefaultHasher::new();
        continuation.hash(&mut hasher);
        if !self.seen.insert(hasher.finish()) {
            return Err(Error::new(
                ErrorKind::InvalidResponse,
                "the service gave the same continuation twice: its pages would never end",
            ));
        }
        let QueryLimits { max_empty_pages, max_pages_per_range, .. } = self.limits;
        if self.empty_in_a_row > max_empty_pages {
            return Err(limit("max_empty_pages", max_empty_pages, "empty pages in a row came"));
        }
        if self.pages >= max_pages_per_range {
            return Err(limit(
                "max_pages_per_range",
                max_pages_per_range,
                "pages of one range came",
            ));
        }
        Ok(())
    }
}

fn limit(option: &str, bound: usize, what: &str) -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "more than {bound} {what}, and there are more: `QueryLimits::{option}` allows no more"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> Watch {
        Watch::new(QueryLimits {
            max_empty_pages: 2,
            max_pages_per_range: 5,
            ..QueryLimits::default()
        })
    }

    #[test]
    fn a_continuation_that_comes_again_is_refused_also_after_others() {
        let mut watch = watch();
        watch.observe(1, Some("a")).unwrap();
        watch.observe(1, Some("b")).unwrap();
        let error = watch.observe(1, Some("a")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse);
        assert!(error.to_string().contains("same continuation"), "{error}");
    }

    #[test]
    fn empty_pages_are_counted_in_a_row_and_the_last_page_may_be_empty() {
        let mut watch = watch();
        for (rows, continuation) in [(0, "a"), (0, "b"), (1, "c"), (0, "d")] {
            watch.observe(rows, Some(continuation)).unwrap();
        }
        watch.observe(0, None).unwrap();
        let mut watch = self::watch();
        watch.observe(0, Some("a")).unwrap();
        watch.observe(0, Some("b")).unwrap();
        let error = watch.observe(0, Some("c")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
        assert!(error.to_string().contains("max_empty_pages"), "{error}");
    }

    #[test]
    fn pages_without_end_are_refused() {
        let mut watch = watch();
        let pages = (0..).map(|page| watch.observe(1, Some(&format!("page {page}"))));
        let error = pages.take(100).find_map(Result::err).unwrap();
        assert!(error.to_string().contains("max_pages_per_range"), "{error}");
    }
}
