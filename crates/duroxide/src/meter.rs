//! The cost of a call: its requests and their charge, counted where they are sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

tokio::task_local! {
    static METER: Arc<Meter>;
}

/// The cost of one call.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    requests: AtomicU64,
    /// In thousandths of a request unit.
    charge: AtomicU64,
}

impl Meter {
    // Relaxed everywhere: counters that are read when the call is over.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// In request units.
    pub(crate) fn charge(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a charge is far below 2^53 thousandths")]
        let thousandths = self.charge.load(Ordering::Relaxed) as f64;
        thousandths / 1_000.0
    }
}

/// Runs a call with a meter of its own.
pub(crate) async fn measured<T>(meter: Arc<Meter>, call: impl Future<Output = T>) -> T {
    METER.scope(meter, call).await
}

/// Counts requests of the call that is running, if it is measured.
pub(crate) fn count(requests: usize, charge: f64) {
    let add = |meter: &Arc<Meter>| {
        meter.requests.fetch_add(requests as u64, Ordering::Relaxed);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a charge is positive and small"
        )]
        let thousandths = (charge.max(0.0) * 1_000.0) as u64;
        meter.charge.fetch_add(thousandths, Ordering::Relaxed);
    };
    // Outside a call, as in background tasks, the cost is not asked for.
    let _ = METER.try_with(add);
}

/// Counts the requests of an operation that failed.
pub(crate) fn count_error(error: &sidereal::Error) {
    if let Some(diagnostics) = error.diagnostics() {
        count(diagnostics.attempts().len(), 0.0);
    }
}
