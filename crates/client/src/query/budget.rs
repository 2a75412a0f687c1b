//! How far pages are requested ahead of the reader.
//!
//! A range reader takes a slot before it requests a page and gives it back when the page is read. One that the query's
//! reader may be waiting for always gets its first slot, so that no division of the budget can stop a merge that needs
//! a row of every range.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore};

use super::limits::{PREFETCH_PER_RANGE, QueryLimits};

/// The pages and bytes that the range readers of one query may hold together.
#[derive(Debug)]
pub(super) struct Budget {
    max_pages: usize,
    max_bytes: usize,
    held: Mutex<Usage>,
    /// A slot was given back, or a range reader has become one that is waited for.
    changed: Notify,
    /// Requests under way.
    pub(super) requests: Semaphore,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    /// Pages ahead of the reader; the first of a range reader that is waited for is not counted.
    pages: usize,
    bytes: usize,
}

/// One range reader's part of it. Only written under the lock of what is held.
#[derive(Debug, Default)]
pub(super) struct RangeShare {
    /// Pages requested or come, and not yet read.
    pages: AtomicUsize,
    /// Whether the reader may be waiting for it.
    is_needed: AtomicBool,
}

impl RangeShare {
    // Relaxed, here and below: the lock orders what happens to the counters.
    fn pages(&self) -> usize {
        self.pages.load(Ordering::Relaxed)
    }

    fn is_needed(&self) -> bool {
        self.is_needed.load(Ordering::Relaxed)
    }

    /// The pages that count.
    fn counted(&self) -> usize {
        if self.is_needed() { self.pages().saturating_sub(1) } else { self.pages() }
    }
}

impl Usage {
    /// Changes a range reader's share, and what is held with it.
    fn change(&mut self, lane: &RangeShare, change: impl FnOnce(&RangeShare)) {
        let before = lane.counted();
        change(lane);
        self.pages = (self.pages + lane.counted()).saturating_sub(before);
    }
}

impl Budget {
    pub(super) fn new(limits: &QueryLimits, parallelism: usize) -> Self {
        Self {
            max_pages: limits.max_buffered_pages,
            max_bytes: limits.max_buffered_bytes,
            held: Mutex::default(),
            changed: Notify::new(),
            requests: Semaphore::new(parallelism.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Waits for a slot for the next page of a range reader.
    pub(super) async fn admit(&self, lane: &RangeShare) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check: a slot that is given back in between is not missed.
            changed.as_mut().enable();
            if self.try_admit(lane) {
                return;
            }
            changed.await;
        }
    }

    fn try_admit(&self, lane: &RangeShare) -> bool {
        let mut held = self.lock();
        let is_waited_for = lane.pages() == 0 && lane.is_needed();
        let is_free = held.pages < self.max_pages && held.bytes < self.max_bytes;
        let is_admitted = is_waited_for || (is_free && lane.pages() < PREFETCH_PER_RANGE);
        if is_admitted {
            held.change(lane, |lane| lane.pages.store(lane.pages() + 1, Ordering::Relaxed));
        }
        is_admitted
    }

    /// A page has come into a slot.
    pub(super) fn filled(&self, bytes: usize) {
        self.lock().bytes += bytes;
    }

    /// A page was read.
    pub(super) fn release(&self, lane: &RangeShare, bytes: usize) {
        let mut held = self.lock();
        held.bytes -= bytes;
        held.change(lane, |lane| lane.pages.store(lane.pages() - 1, Ordering::Relaxed));
        drop(held);
        self.changed.notify_waiters();
    }

    /// The reader may be waiting for a range reader from now on.
    pub(super) fn needs(&self, lane: &RangeShare) {
        let mut held = self.lock();
        if lane.is_needed() {
            return;
        }
        held.change(lane, |lane| lane.is_needed.store(true, Ordering::Relaxed));
        drop(held);
        self.changed.notify_waiters();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Usage> {
        // Counters have no state in between that a panic could leave behind.
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(pages: usize, bytes: usize) -> Budget {
        let limits = QueryLimits {
            max_buffered_pages: pages,
            max_buffered_bytes: bytes,
            ..QueryLimits::default()
        };
        Budget::new(&limits, 4)
    }

    #[test]
    fn a_lane_that_is_waited_for_gets_one_page_whatever_the_others_hold() {
        let budget = budget(1, 100);
        let (first, second) = (RangeShare::default(), RangeShare::default());
        assert!(budget.try_admit(&first) && !budget.try_admit(&second));
        budget.needs(&second);
        assert!(budget.try_admit(&second) && !budget.try_admit(&second));
        // The first of what is waited for does not count: there is room for one more.
        budget.needs(&first);
        assert!(budget.try_admit(&second) && !budget.try_admit(&first));
        for lane in [&first, &second, &second] {
            budget.release(lane, 0);
        }
        assert_eq!(budget.lock().pages, 0);
    }

    #[test]
    fn bytes_stop_what_pages_would_admit() {
        let budget = budget(10, 100);
        let (first, second) = (RangeShare::default(), RangeShare::default());
        assert!(budget.try_admit(&first));
        budget.filled(100);
        assert!(!budget.try_admit(&second));
        budget.release(&first, 100);
        assert!(budget.try_admit(&second));
    }

    #[test]
    fn one_lane_does_not_take_all_of_it() {
        let (budget, lane) = (budget(10, 100), RangeShare::default());
        let admitted = (0..10).filter(|_| budget.try_admit(&lane)).count();
        assert_eq!(admitted, PREFETCH_PER_RANGE);
    }

    #[tokio::test]
    async fn a_slot_that_is_given_back_wakes_who_waits_for_it() {
        let (budget, first) = (std::sync::Arc::new(budget(1, 100)), RangeShare::default());
        budget.admit(&first).await;
        let waiting = tokio::spawn({
            let budget = std::sync::Arc::clone(&budget);
            async move { budget.admit(&RangeShare::default()).await }
        });
        tokio::task::yield_now().await;
        budget.release(&first, 0);
        waiting.await.unwrap();
    }
}
