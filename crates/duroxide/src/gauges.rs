//! The gauges of a provider: its clock, its undelivered messages, its slots.

use std::sync::Arc;

use opentelemetry::metrics::Meter;

use crate::core::Core;
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
pub(crate) fn observe(meter: &Meter, core: &Arc<Core>) {
    // Weak: a provider of meters keeps its callbacks for as long as it lives.
    let weak = || Arc::downgrade(core);
    let of = weak();
    Telemetry::observe(meter, CORRECTION, move || Some(of.upgrade()?.store.clock().correction()));
    let of = weak();
    Telemetry::observe(meter, UNDELIVERED, move || {
        i64::try_from(of.upgrade()?.undelivered.waiting().0).ok()
    });
    let of = weak();
    Telemetry::observe(meter, OLDEST, move || {
        let core = of.upgrade()?;
        Some(core.store.now().saturating_sub(core.undelivered.waiting().1?))
    });
}
