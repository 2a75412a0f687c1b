//! Counts operations in progress with an RAII guard.

use std::sync::atomic::{AtomicU32, Ordering};

/// Counts one more while it lives.
pub(super) struct CountGuard<'a>(&'a AtomicU32);

impl<'a> CountGuard<'a> {
    /// Counts one more.
    pub(super) fn new(count: &'a AtomicU32) -> Self {
        // Relaxed: the count is read as a hint and publishes nothing.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `new`.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
