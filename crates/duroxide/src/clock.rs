//! The time that locks and messages are judged by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use sidereal::driver::system::Clock;

/// Wall time, ids and the order of what one process enqueues.
#[derive(Clone, Debug)]
pub(crate) struct ProviderClock {
    clock: Clock,
    sequence: Arc<AtomicU64>,
}

impl ProviderClock {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, sequence: Arc::default() }
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        let since = self.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        crate::store::millis(since)
    }

    /// The first of as many numbers as this process enqueues.
    pub(crate) fn next_sequences(&self, count: usize) -> u64 {
        // Relaxed: only the number itself is shared.
        self.sequence.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// Text that nobody else draws.
    pub(crate) fn new_id(&self) -> String {
        self.clock.new_id().simple().to_string()
    }
}
