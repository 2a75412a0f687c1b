//! A call of the provider, as operators see it: a span with what it was about and what it cost.

use std::sync::Arc;

use duroxide::providers::ProviderError;
use tokio::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::meter::{Meter, measured};
use crate::telemetry::Telemetry;

/// Runs a call within a span of its own. The instance and the turn are noted where they are known.
pub(crate) async fn traced<T>(
    telemetry: &Telemetry,
    operation: &'static str,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    let span = tracing::debug_span!(
        "provider_call",
        operation,
        instance = Empty,
        turn = Empty,
        requests = Empty,
        request_units = Empty,
        error = Empty,
    );
    let (meter, began) = (Arc::new(Meter::default()), Instant::now());
    let result = measured(Arc::clone(&meter), call).instrument(span.clone()).await;
    span.record("requests", meter.requests());
    span.record("request_units", meter.charge());
    let error = result.as_ref().err();
    if let Some(error) = error {
        span.record("error", tracing::field::display(error));
    }
    telemetry.ended(operation, began.elapsed(), &meter, error);
    result
}

/// Runs work beside the calls, which is measured as they are.
pub(crate) async fn metered<T>(
    telemetry: &Telemetry,
    operation: &'static str,
    work: impl Future<Output = T>,
) -> T {
    let (meter, began) = (Arc::new(Meter::default()), Instant::now());
    let result = measured(Arc::clone(&meter), work).await;
    // What has asked for nothing was not done.
    if meter.requests() > 0 {
        telemetry.ended(operation, began.elapsed(), &meter, None);
    }
    result
}

/// Notes which instance the call is about.
pub(crate) fn about_instance(instance: &str) {
    Span::current().record("instance", crate::excerpt(instance));
}

/// Notes which turn of the instance the call is about.
pub(crate) fn about_turn(instance: &str, turn: u64) {
    about_instance(instance);
    Span::current().record("turn", turn);
}
