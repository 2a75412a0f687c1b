//! How far a processor is, for people to read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sidereal_protocol::EffectivePartitionKeyRange;

use crate::FeedRange;

/// How far a worker is with one range: see
/// [`ChangeFeedProcessor::progress`](super::ChangeFeedProcessor::progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeProgress {
    /// The part of the container.
    pub feed_range: FeedRange,
    /// Changes that were handled since this worker has the range.
    pub handled: u64,
    /// How often in a row the handler, or the feed, has failed. `0`: all is well.
    pub failures: u32,
    /// Why, the last time.
    pub last_error: Option<String>,
    /// Whether there was nothing more when the range was last read.
    pub is_caught_up: bool,
}

/// How many changes of a range are not handled: see
/// [`ChangeFeedProcessor::estimate_lag`](super::ChangeFeedProcessor::estimate_lag).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeLag {
    /// The part of the container.
    pub feed_range: FeedRange,
    /// The worker that has it, if one has.
    pub owner: Option<String>,
    /// About how many changes are not handled: log sequence numbers, of which a transactional batch has one.
    pub changes: u64,
}

/// The progress of a worker's ranges, written by their tasks and read by the handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<BTreeMap<String, RangeProgress>>>);

impl Board {
    pub(super) fn begin(&self, lease: &str, range: &EffectivePartitionKeyRange) {
        let progress = RangeProgress {
            feed_range: FeedRange(range.clone()),
            handled: 0,
            failures: 0,
            last_error: None,
            is_caught_up: false,
        };
        self.lock().insert(lease.to_owned(), progress);
    }

    pub(super) fn update(&self, lease: &str, change: impl FnOnce(&mut RangeProgress)) {
        if let Some(progress) = self.lock().get_mut(lease) {
            change(progress);
        }
    }

    pub(super) fn end(&self, lease: &str) {
        self.lock().remove(lease);
    }

    pub(super) fn all(&self) -> Vec<RangeProgress> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RangeProgress>> {
        // Values that are replaced whole have no state in between that a panic could leave behind.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
