//! Metrics of a provider, through the application's OpenTelemetry (feature `otel`).
//!
//! No attribute holds the id of an instance: their number is bounded by the operations that there are.

#[cfg(feature = "otel")]
mod instruments;

#[cfg(feature = "otel")]
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;

use crate::meter::Meter;

/// The queues of the provider.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Queue {
    Orchestrator,
    Worker,
}

/// Kinds of retries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retried {
    /// A batch that did not happen.
    Write,
    /// A turn that was fetched before.
    Turn,
    /// An activity that was fetched before.
    Activity,
}

/// Something that operators count, since it costs requests or tells of trouble.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occurrence {
    /// A turn did not fit into one batch.
    TurnStaged,
    /// Documents of a staged turn that was not committed were removed.
    TurnSwept,
    /// A lock was gone when its holder used it: expired, taken over, or removed with its instance.
    LockLost,
    /// A lock was taken over from a process whose lease had ended.
    LockTakenOver,
    /// A history was known, and not read.
    HistoryCached,
    /// A history was read.
    HistoryRead,
    /// A message waits for an instance that was never started.
    MessageUnready,
    /// A message can never be delivered.
    MessageUndeliverable,
}

/// A value that is reported whenever metrics are collected.
#[cfg(feature = "otel")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) description: &'static str,
}

/// The instruments of a provider. They record nothing unless the application has given a meter provider.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "otel")]
    instruments: Option<Arc<instruments::Instruments>>,
}

#[cfg(feature = "otel")]
impl Telemetry {
    /// Makes the instruments.
    pub(crate) fn new(meter: &opentelemetry::metrics::Meter) -> Self {
        Self { instruments: Some(Arc::new(instruments::Instruments::new(meter))) }
    }

    /// Reports how many instances and activities are ready, as long as that is known.
    pub(crate) fn observe_queues(
        meter: &opentelemetry::metrics::Meter,
        ready: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
    ) {
        instruments::observe_queues(meter, ready);
    }

    /// Reports a value whenever metrics are collected, as long as there is one.
    pub(crate) fn observe(
        meter: &opentelemetry::metrics::Meter,
        gauge: Gauge,
        value: impl Fn() -> Option<i64> + Send + Sync + 'static,
    ) {
        instruments::observe(meter, gauge, value);
    }

    /// Measures a call, or work beside the calls, that has ended.
    pub(crate) fn ended(
        &self,
        operation: &'static str,
        took: Duration,
        meter: &Meter,
        error: Option<&ProviderError>,
    ) {
        if let Some(instruments) = &self.instruments {
            instruments.ended(operation, took, meter, error);
        }
    }

    /// Counts a turn that was committed.
    pub(crate) fn turn_committed(&self) {
        if let Some(instruments) = &self.instruments {
            instruments.turns.add(1, &[]);
        }
    }

    /// Measures how long something was ready before it was claimed.
    pub(crate) fn claimed(&self, queue: Queue, waited_ms: i64) {
        if let Some(instruments) = &self.instruments {
            instruments.claimed(queue, waited_ms);
        }
    }

    /// Counts an occurrence.
    pub(crate) fn occurred(&self, what: Occurrence) {
        if let Some(instruments) = &self.instruments {
            instruments.occurred(what);
        }
    }

    /// Counts what is done again.
    pub(crate) fn retried(&self, what: Retried) {
        if let Some(instruments) = &self.instruments {
            instruments.retried(what);
        }
    }
}

#[cfg(not(feature = "otel"))]
#[allow(clippy::unused_self, reason = "the same calls as with the feature")]
impl Telemetry {
    pub(crate) fn ended(
        &self,
        _operation: &'static str,
        _took: Duration,
        _meter: &Meter,
        _error: Option<&ProviderError>,
    ) {
    }

    pub(crate) fn turn_committed(&self) {}

    pub(crate) fn claimed(&self, _queue: Queue, _waited_ms: i64) {}

    pub(crate) fn occurred(&self, _what: Occurrence) {}

    pub(crate) fn retried(&self, _what: Retried) {}
}
