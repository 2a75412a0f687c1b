//! Spans of operations, by OpenTelemetry's semantic conventions for Cosmos DB.
//!
//! A span is made when its operation ends, from its diagnostics, with the times that it had: nothing on the way of a
//! request knows of it, and without a tracer provider an operation pays for a pointer check. Its parent is the
//! context that is current then, which is the one of the caller.

use std::time::SystemTime;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{Event, Span, SpanKind, Status, Tracer, TracerProvider};
use opentelemetry::{Array, KeyValue, StringValue, Value};

use super::Metrics;
use super::attributes::{of_operation, of_outcome, operation_name};
use crate::diagnostics::{DiagnosticsContext, RequestDiagnostics};
use crate::{CosmosOperation, CosmosResponse, Error};

/// Makes the spans of a runtime's operations.
#[derive(Debug)]
pub(crate) struct Spans(BoxedTracer);

impl Spans {
    pub(crate) fn new<P>(provider: &P) -> Self
    where
        P: TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as Tracer>::Span: Send + Sync + 'static,
    {
        Self(BoxedTracer::new(Box::new(provider.tracer_with_scope(Metrics::scope()))))
    }

    /// Makes the span of an operation that has ended now.
    pub(crate) fn ended(
        &self,
        operation: &CosmosOperation,
        outcome: &Result<CosmosResponse, Error>,
        now: SystemTime,
    ) {
        let (diagnostics, error) = match outcome {
            Ok(response) => (Some(response.diagnostics()), None),
            Err(error) => (error.diagnostics(), Some(error)),
        };
        let Some(diagnostics) = diagnostics else { return };
        let mut attributes = of_operation(operation);
        let collection = attributes.iter().find(|it| it.key.as_str() == "db.collection.name");
        let name = match collection {
            Some(collection) => format!("{} {}", operation_name(operation), collection.value),
            None => operation_name(operation).into_owned(),
        };
        attributes.extend(of_outcome(diagnostics.status(), error.map(Error::kind)));
        attributes.extend(of_request(operation, diagnostics));
        let started = now.checked_sub(diagnostics.elapsed()).unwrap_or(now);
        let builder = self
            .0
            .span_builder(name)
            .with_kind(SpanKind::Client)
            .with_start_time(started)
            .with_attributes(attributes)
            .with_events(events(diagnostics, started));
        let mut span = self.0.build(builder);
        if let Some(error) = error {
            span.set_status(Status::error(error.to_string()));
        }
        span.end_with_timestamp(now);
    }
}

/// The attributes of an operation's cost and regions.
fn of_request(
    operation: &CosmosOperation,
    diagnostics: &DiagnosticsContext,
) -> impl Iterator<Item = KeyValue> {
    let attempts = diagnostics.attempts();
    let charge = attempts
        .iter()
        .any(|it| it.charge.is_some())
        .then(|| KeyValue::new("azure.cosmosdb.operation.request_charge", diagnostics.charge()));
    let regions = Some(regions_of(attempts)).filter(|regions| !regions.is_empty()).map(|regions| {
        let regions = Value::Array(Array::String(regions));
        KeyValue::new("azure.cosmosdb.operation.contacted_regions", regions)
    });
    let size = Some(operation.body().len()).filter(|size| *size > 0).map(|size| {
        KeyValue::new("azure.cosmosdb.request.body.size", i64::try_from(size).unwrap_or(i64::MAX))
    });
    let server = attempts.last().map(|it| {
        let port = i64::from(it.endpoint.port());
        let address = it.endpoint.host().to_owned();
        [KeyValue::new("server.address", address), KeyValue::new("server.port", port)]
    });
    let common = [
        KeyValue::new("azure.cosmosdb.connection.mode", "gateway"),
        KeyValue::new("azure.resource_provider.namespace", "Microsoft.DocumentDB"),
    ];
    let all = common.into_iter().chain(charge).chain(regions).chain(size);
    all.chain(server.into_iter().flatten())
}

/// The regions that were asked, each once, in the order in which they were.
fn regions_of(attempts: &[RequestDiagnostics]) -> Vec<StringValue> {
    let mut regions: Vec<StringValue> = Vec::new();
    for region in attempts.iter().filter_map(|it| it.region.as_ref()) {
        if !regions.iter().any(|it| it.as_str() == region.as_str()) {
            regions.push(region.as_str().to_owned().into());
        }
    }
    regions
}

/// An event for each attempt, where there were several.
fn events(diagnostics: &DiagnosticsContext, started: SystemTime) -> Vec<Event> {
    let attempts = diagnostics.attempts();
    if attempts.len() < 2 {
        return Vec::new();
    }
    let event = |attempt: &RequestDiagnostics| {
        let after = attempt.started.saturating_duration_since(diagnostics.started());
        let mut attributes =
            vec![KeyValue::new("server.address", attempt.endpoint.host().to_owned())];
        let region = attempt.region.as_ref();
        attributes.extend(region.map(|it| KeyValue::new("cloud.region", it.as_str().to_owned())));
        attributes.extend(of_outcome(attempt.status, None));
        Event::new("attempt", started + after, attributes, 0)
    };
    attempts.iter().map(event).collect()
}
