//! Pages of changes.

use serde::de::DeserializeOwned;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::EffectivePartitionKeyRange;

use super::ChangeFeedToken;
use crate::query::fetch::RawRows;
use crate::{FeedRange, Result};

/// A page before its changes are decoded.
#[derive(Debug)]
pub(super) struct RawPage {
    pub(super) rows: RawRows,
    pub(super) range: EffectivePartitionKeyRange,
    pub(super) continuation: ChangeFeedToken,
    pub(super) is_caught_up: bool,
    pub(super) cost: Cost,
}

/// The cost of the requests behind a page.
#[derive(Debug, Default)]
pub(super) struct Cost {
    pub(super) charge: f64,
    pub(super) requests: usize,
    /// Of the last of them.
    pub(super) diagnostics: Option<DiagnosticsContext>,
}

/// Changes of one partition range, oldest first: see [`ChangeFeed::pages`](super::ChangeFeed::pages).
///
/// What a transactional batch wrote is in one page.
#[derive(Debug)]
pub struct ChangeFeedPage<T> {
    items: Vec<T>,
    page: RawPage,
}

impl<T: DeserializeOwned> ChangeFeedPage<T> {
    pub(super) fn decoded(page: RawPage) -> Result<Self> {
        let items = (0..page.rows.len()).filter_map(|at| page.rows.decode(at));
        Ok(Self { items: items.collect::<Result<_>>()?, page })
    }
}

impl<T> ChangeFeedPage<T> {
    /// The items as they are after their changes. None if the reader has caught up.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The items, taken.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Where the feed goes on after this page, of this range and all others.
    #[must_use]
    pub fn continuation(&self) -> &ChangeFeedToken {
        &self.page.continuation
    }

    /// Whether there was nothing more when the feed was last asked, of any range. Such a page has no items.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.page.is_caught_up
    }

    /// The part of the container that the items are of.
    #[must_use]
    pub fn feed_range(&self) -> FeedRange {
        FeedRange(self.page.range.clone())
    }

    /// The charge of the requests since the page before, in request units: also of those that found nothing.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.page.cost.charge
    }

    /// How many requests were made since the page before.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.page.cost.requests
    }

    /// The diagnostics of the last of these requests, attempt by attempt.
    #[must_use]
    pub fn diagnostics(&self) -> Option<&DiagnosticsContext> {
        self.page.cost.diagnostics.as_ref()
    }
}
