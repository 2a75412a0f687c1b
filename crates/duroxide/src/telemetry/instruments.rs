//! The instruments of a provider.

use std::time::Duration;

use duroxide::providers::ProviderError;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter as Meters};

use super::{Gauge, Occurrence, Queue, Retried};
use crate::meter::Meter;

/// Seconds: a call is some requests, a claim may wait for a poll, or for a runtime to start.
const SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0, 300.0];

const OPERATION: &str = "sidereal.duroxide.operation";
const QUEUE: &str = "sidereal.duroxide.queue";

#[derive(Debug)]
pub(super) struct Instruments {
    duration: Histogram<f64>,
    requests: Counter<u64>,
    charge: Counter<f64>,
    pub(super) turns: Counter<u64>,
    claim_latency: Histogram<f64>,
    retries: Counter<u64>,
    occurrences: Counter<u64>,
}

impl Instruments {
    pub(super) fn new(meters: &Meters) -> Self {
        let seconds = |name: &'static str, description: &'static str| {
            let histogram = meters.f64_histogram(name).with_unit("s");
            let histogram = histogram.with_description(description);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let counter = |name: &'static str, unit: &'static str, description: &'static str| {
            meters.u64_counter(name).with_unit(unit).with_description(description).build()
        };
        Self {
            duration: seconds(
                "sidereal.duroxide.operation.duration",
                "How long calls of the provider took, long polls included.",
            ),
            requests: counter(
                "sidereal.duroxide.requests",
                "{request}",
                "Requests to the account.",
            ),
            charge: meters
                .f64_counter("sidereal.duroxide.request_charge")
                .with_unit("{request_unit}")
                .with_description("What the requests cost.")
                .build(),
            turns: counter("sidereal.duroxide.turns", "{turn}", "Turns that were committed."),
            claim_latency: seconds(
                "sidereal.duroxide.claim.latency",
                "How long messages and activities were ready before they were claimed.",
            ),
            retries: counter("sidereal.duroxide.retries", "{retry}", "What was done again."),
            occurrences: counter(
                "sidereal.duroxide.occurrences",
                "{occurrence}",
                "Staged turns, locks that were lost or taken over, cached histories, stray messages.",
            ),
        }
    }

    pub(super) fn ended(
        &self,
        operation: &'static str,
        took: Duration,
        meter: &Meter,
        error: Option<&ProviderError>,
    ) {
        let attributes = [KeyValue::new(OPERATION, operation)];
        self.requests.add(meter.requests(), &attributes);
        self.charge.add(meter.charge(), &attributes);
        let [named] = attributes;
        let error = error.map(|error| {
            let kind = if error.is_retryable() { "retryable" } else { "permanent" };
            KeyValue::new("error.type", kind)
        });
        let attributes: Vec<KeyValue> = std::iter::once(named).chain(error).collect();
        self.duration.record(took.as_secs_f64(), &attributes);
    }

    pub(super) fn claimed(&self, queue: Queue, waited_ms: i64) {
        // Clocks of two machines: what was enqueued by one may be claimed before by another.
        let waited = Duration::from_millis(waited_ms.max(0).unsigned_abs());
        self.claim_latency.record(waited.as_secs_f64(), &[KeyValue::new(QUEUE, name(queue))]);
    }

    pub(super) fn occurred(&self, what: Occurrence) {
        let what = match what {
            Occurrence::TurnStaged => "turn_staged",
            Occurrence::TurnSwept => "turn_swept",
            Occurrence::LockLost => "lock_lost",
            Occurrence::LockTakenOver => "lock_taken_over",
            Occurrence::HistoryCached => "history_cached",
            Occurrence::HistoryRead => "history_read",
            Occurrence::MessageUnready => "message_unready",
            Occurrence::MessageUndeliverable => "message_undeliverable",
        };
        self.occurrences.add(1, &[KeyValue::new("sidereal.duroxide.occurrence", what)]);
    }

    pub(super) fn retried(&self, what: Retried) {
        let what = match what {
            Retried::Write => "write",
            Retried::Turn => "turn",
            Retried::Activity => "activity",
        };
        self.retries.add(1, &[KeyValue::new("sidereal.duroxide.retried", what)]);
    }
}

fn name(queue: Queue) -> &'static str {
    match queue {
        Queue::Orchestrator => "orchestrator",
        Queue::Worker => "worker",
    }
}

pub(super) fn observe(
    meters: &Meters,
    gauge: Gauge,
    value: impl Fn() -> Option<i64> + Send + Sync + 'static,
) {
    // Not kept: the callback is the meter's.
    let _ = meters
        .i64_observable_gauge(gauge.name)
        .with_description(gauge.description)
        .with_unit(gauge.unit)
        .with_callback(move |observer| {
            if let Some(value) = value() {
                observer.observe(value, &[]);
            }
        })
        .build();
}

pub(super) fn observe_queues(
    meters: &Meters,
    ready: impl Fn() -> Option<(usize, usize)> + Send + Sync + 'static,
) {
    // Not kept: the callback is the meter's.
    let _ = meters
        .u64_observable_gauge("sidereal.duroxide.queue.depth")
        .with_description("Instances and activities that this process knows to be ready.")
        .with_unit("{item}")
        .with_callback(move |gauge| {
            let Some((turns, items)) = ready() else { return };
            for (queue, ready) in [(Queue::Orchestrator, turns), (Queue::Worker, items)] {
                gauge.observe(ready as u64, &[KeyValue::new(QUEUE, name(queue))]);
            }
        })
        .build();
}
