//! The metric instruments of a runtime, and the measurements of an operation that has ended.

use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use opentelemetry::{InstrumentationScope, KeyValue};

use super::ActiveInstance;
use super::attributes::{of_operation, of_outcome};
use super::shards::Transports;
use crate::diagnostics::{DiagnosticsContext, ExecutionContext, RequestDiagnostics};
use crate::exchange::Endpoint;
use crate::planes::Planes;
use crate::{CosmosOperation, CosmosResponse, Error};

/// Seconds, as the conventions advise for operations of a database.
const DURATION_BOUNDARIES: [f64; 9] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

/// Request units, as the conventions advise.
const CHARGE_BOUNDARIES: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// Most operations need one attempt, and diagnostics keep 32.
const ATTEMPTS_BOUNDARIES: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0];

/// The instruments of a runtime.
#[derive(Debug)]
pub(crate) struct Metrics {
    duration: Histogram<f64>,
    charge: Histogram<f64>,
    attempts: Histogram<u64>,
    failovers: Counter<u64>,
    hedges: Counter<u64>,
    probes: Counter<u64>,
    instances: UpDownCounter<i64>,
    transports: Transports,
}

impl Metrics {
    /// The instrumentation scope of the meter.
    pub(crate) fn scope() -> InstrumentationScope {
        InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .build()
    }

    /// Makes the instruments, once for a runtime.
    pub(crate) fn new(meter: &Meter) -> Self {
        let transports = Transports::default();
        let counted = transports.clone();
        // Not kept: the provider calls back for as long as it lives.
        let _ = meter
            .u64_observable_gauge("sidereal.client.shards")
            .with_description("Connections to an endpoint.")
            .with_unit("{connection}")
            .with_callback(move |instrument| counted.observe(instrument))
            .build();
        let counter = |name: &'static str, unit: &'static str, description: &'static str| {
            meter.u64_counter(name).with_unit(unit).with_description(description).build()
        };
        Self {
            duration: meter
                .f64_histogram("db.client.operation.duration")
                .with_description("How long operations took, waits between attempts included.")
                .with_unit("s")
                .with_boundaries(DURATION_BOUNDARIES.to_vec())
                .build(),
            charge: meter
                .f64_histogram("azure.cosmosdb.client.operation.request_charge")
                .with_description("What all attempts of operations cost.")
                .with_unit("{request_unit}")
                .with_boundaries(CHARGE_BOUNDARIES.to_vec())
                .build(),
            attempts: meter
                .u64_histogram("sidereal.client.operation.attempts")
                .with_description("How many requests operations needed.")
                .with_unit("{attempt}")
                .with_boundaries(ATTEMPTS_BOUNDARIES.to_vec())
                .build(),
            failovers: counter(
                "sidereal.client.failovers",
                "{attempt}",
                "Attempts in another region than the one that failed.",
            ),
            hedges: counter("sidereal.client.hedges", "{attempt}", "Attempts beside slow ones."),
            probes: counter(
                "sidereal.client.probes",
                "{attempt}",
                "Attempts in a region that their partition had left.",
            ),
            instances: meter
                .i64_up_down_counter("azure.cosmosdb.client.active_instance.count")
                .with_description("Drivers that are in use.")
                .with_unit("{instance}")
                .build(),
            transports,
        }
    }

    /// Counts a driver of an account for as long as the value lives.
    pub(crate) fn count_instance(&self, account: &Endpoint) -> ActiveInstance {
        ActiveInstance::new(&self.instances, account)
    }

    /// Counts the connections of these planes for as long as they live.
    pub(crate) fn count_shards(&self, planes: &Planes) {
        self.transports.add(planes);
    }

    /// Measures an operation that has ended.
    pub(crate) fn ended(
        &self,
        operation: &CosmosOperation,
        outcome: &Result<CosmosResponse, Error>,
    ) {
        let (diagnostics, error) = match outcome {
            Ok(response) => (Some(response.diagnostics()), None),
            Err(error) => (error.diagnostics(), Some(error.kind())),
        };
        let Some(diagnostics) = diagnostics else { return };
        let mut attributes = of_operation(operation);
        self.count_attempts(diagnostics, &attributes);
        attributes.extend(of_outcome(diagnostics.status(), error));
        let attempts = diagnostics.attempts().len() + diagnostics.attempts_left_out();
        self.duration.record(diagnostics.elapsed().as_secs_f64(), &attributes);
        // An operation to which no response told its charge was not free: it is not known what it cost.
        if diagnostics.attempts().iter().any(|it| it.charge.is_some()) {
            self.charge.record(diagnostics.charge(), &attributes);
        }
        self.attempts.record(attempts as u64, &attributes);
    }

    /// Counts the attempts that were made for another reason than to begin or to repeat.
    fn count_attempts(&self, diagnostics: &DiagnosticsContext, of_operation: &[KeyValue]) {
        for attempt in diagnostics.attempts() {
            let counter = match attempt.execution_context {
                ExecutionContext::Initial | ExecutionContext::Retry => continue,
                ExecutionContext::RegionFailover => &self.failovers,
                ExecutionContext::Hedging => &self.hedges,
                ExecutionContext::CircuitBreakerProbe => &self.probes,
            };
            let mut attributes = of_operation.to_vec();
            if let Some(region) = &attempt.region {
                attributes.push(KeyValue::new("cloud.region", region.as_str().to_owned()));
            }
            if attempt.execution_context == ExecutionContext::Hedging {
                let has_won = has_won(attempt, diagnostics);
                attributes.push(KeyValue::new("sidereal.hedge.won", has_won));
            }
            counter.add(1, &attributes);
        }
    }
}

/// Whether an operation ended with the answer of a hedge: it came to the operation's status, and no other attempt
/// did. Of two equal answers the one from the preferred region counts.
fn has_won(hedge: &RequestDiagnostics, diagnostics: &DiagnosticsContext) -> bool {
    let answered = |it: &RequestDiagnostics| {
        it.elapsed().is_some() && it.status.is_some() && it.status == diagnostics.status()
    };
    let mut others = diagnostics.attempts().iter().filter(|it| !std::ptr::eq(*it, hedge));
    answered(hedge) && !others.any(answered)
}
