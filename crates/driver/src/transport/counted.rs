//! A count of what goes on now.

use std::sync::atomic::{AtomicU32, Ordering};

/// One of those that are counted, for as long as it lives.
pub(super) struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    /// Counts one more.
    pub(super) fn begin(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
