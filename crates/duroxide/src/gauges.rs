//! The gauges of a provider: its clock, its undelivered messages, its slots.

use std::sync::Arc;

use opentelemetry::metrics::Meter;

use crate::outbox::Outbox;
use crate::store::Store;
use crate::telemetry::{Gauge, Telemetry};

const CORRECTION: Gauge = Gauge {
    name: "sidereal.duroxide.clock.correction",
    unit: "ms",
    description: "The difference of the machine's clock from the service's that is corrected.",
};

const UNDELIVERED: Gauge = Gauge {
    name: "sidereal.duroxide.outbox.undelivered",
    unit: "{message}",
    description: "Messages to other instances whose delivery has failed in this process so far.",
};

const OLDEST: Gauge = Gauge {
    name: "sidereal.duroxide.outbox.oldest",
    unit: "ms",
    description: "The age of the oldest of those messages.",
};

/// Reports the gauges for as long as the provider lives.
pub(crate) fn observe(meter: &Meter, store: &Store, outbox: &Arc<Outbox>) {
    let clock = store.clock().clone();
    Telemetry::observe(meter, CORRECTION, move || Some(clock.correction()));
    // Weak: a provider of meters keeps its callbacks for as long as it lives.
    let weak = Arc::downgrade(outbox);
    Telemetry::observe(meter, UNDELIVERED, move || i64::try_from(weak.upgrade()?.waiting().0).ok());
    let (weak, clock) = (Arc::downgrade(outbox), store.clock().clone());
    Telemetry::observe(meter, OLDEST, move || {
        Some(clock.now().saturating_sub(weak.upgrade()?.waiting().1?))
    });
}
