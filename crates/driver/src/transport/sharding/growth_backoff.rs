//! A pause in growth after a connection could not be made, while other connections serve.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Long enough not to hammer an endpoint that refuses connections, short beside the time that a load
/// spike lasts.
const PAUSE: Duration = Duration::from_secs(1);

/// Until when no shard is added, in nanoseconds since the pool was created.
#[derive(Debug, Default)]
pub(super) struct GrowthBackoff(AtomicU64);

impl GrowthBackoff {
    /// Whether growth pauses; `now` is asked only if it may.
    pub(super) fn is_active(&self, now: impl FnOnce() -> Duration) -> bool {
        // Relaxed: one number that stands alone; read late, it costs one connection attempt.
        let until = Duration::from_nanos(self.0.load(Ordering::Relaxed));
        // Zero until the first failure: then the hot path reads no clock.
        !until.is_zero() && now() < until
    }

    /// Begins a pause.
    pub(super) fn start(&self, now: Duration) {
        let until = u64::try_from((now + PAUSE).as_nanos()).unwrap_or(u64::MAX);
        self.0.store(until, Ordering::Relaxed);
    }
}
