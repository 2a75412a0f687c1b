//! A call of the provider, as operators see it: a span with what it was about and what it cost.

use std::sync::Arc;

use duroxide::providers::ProviderError;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use crate::meter::{Meter, measured};

/// Runs a call within a span of its own. The instance and the turn are noted where they are known.
pub(crate) async fn traced<T>(
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
    let meter = Arc::new(Meter::default());
    let result = measured(Arc::clone(&meter), call).instrument(span.clone()).await;
    span.record("requests", meter.requests());
    span.record("request_units", meter.charge());
    if let Err(error) = &result {
        span.record("error", tracing::field::display(error));
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
