//! The caller's context of OpenTelemetry in the tasks that work for it, so that their spans belong to its own.

#[cfg(feature = "otel")]
use opentelemetry::trace::FutureExt as _;

/// A future with the context that is current now, wherever it is polled.
#[cfg(feature = "otel")]
pub(crate) fn in_current_context<F: Future>(future: F) -> impl Future<Output = F::Output> {
    future.with_current_context()
}

/// A future as it is: nobody asks for its context.
#[cfg(not(feature = "otel"))]
pub(crate) fn in_current_context<F: Future>(future: F) -> F {
    future
}
