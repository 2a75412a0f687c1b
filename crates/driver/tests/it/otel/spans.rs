//! The spans of a driver's operations.

use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::Context;
use opentelemetry::trace::{
    FutureExt, Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider,
};
use sidereal_driver::{CosmosDriverRuntime, CosmosOperation};
use sidereal_testing::spans::{RecordedSpan, RecordedSpans};

use super::{Measured, answer, orders_link};

/// A driver whose spans are kept.
async fn traced() -> (Measured, RecordedSpans) {
    let (mut measured, spans) = (Measured::new().await, RecordedSpans::default());
    let runtime = CosmosDriverRuntime::builder()
        .environment(Default::default())
        .http_client_factory(measured.account.factory())
        .clock(measured.account.driver_clock())
        .tracer_provider(&spans)
        .build()
        .unwrap();
    measured.driver = measured.account.driver_on(Arc::clone(&runtime), super::preferring_uk());
    (measured, spans)
}

/// The only span of a read.
fn of_read(spans: &RecordedSpans) -> RecordedSpan {
    let mut reads = spans.take().into_iter().filter(|it| it.name == "read_item orders");
    match (reads.next(), reads.next()) {
        (Some(span), None) => span,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_has_a_span_by_the_conventions() {
    let (measured, spans) = traced().await;
    measured.read("1").await.unwrap();
    drop(spans.take());
    let response = measured.read("1").await.unwrap();
    let span = of_read(&spans);
    assert_eq!((span.kind.clone(), span.status.clone()), (Some(SpanKind::Client), Status::Unset));
    assert_eq!((span.took, span.parent), (response.diagnostics().elapsed(), None));
    for (key, value) in [
        ("db.system.name", "azure.cosmosdb"),
        ("db.operation.name", "read_item"),
        ("db.namespace", "store"),
        ("db.collection.name", "orders"),
        ("db.response.status_code", "200"),
        ("azure.cosmosdb.operation.request_charge", "1"),
        ("azure.cosmosdb.operation.contacted_regions", r#"["UK South"]"#),
        ("azure.cosmosdb.connection.mode", "gateway"),
        ("azure.resource_provider.namespace", "Microsoft.DocumentDB"),
        ("server.address", "uksouth.account.test"),
        ("server.port", "443"),
    ] {
        assert_eq!(span.attribute(key), Some(value), "{key}: {span:?}");
    }
    assert_eq!(span.attribute("error.type"), None);
    assert!(span.events.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failover_names_every_region_and_has_an_event_for_each_attempt() {
    let (measured, spans) = traced().await;
    measured.inject("UK South", answer(503, 0), None);
    measured.read("1").await.unwrap();
    let span = of_read(&spans);
    let regions = span.attribute("azure.cosmosdb.operation.contacted_regions");
    assert_eq!(regions, Some(r#"["UK South","West US"]"#));
    assert_eq!(span.events.len(), 2);
    let status = |at: usize| span.events[at].iter().find(|it| it.0 == "db.response.status_code");
    assert_eq!(status(0).map(|it| it.1.as_str()), Some("503"));
    assert_eq!(status(1).map(|it| it.1.as_str()), Some("200"));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_the_span_s_status() {
    let (measured, spans) = traced().await;
    measured.read("absent").await.unwrap_err();
    let span = of_read(&spans);
    assert_eq!(span.attribute("error.type"), Some("not_found"));
    assert_eq!(span.attribute("db.response.status_code"), Some("404"));
    assert!(matches!(&span.status, Status::Error { description } if description.contains("404")));
}

#[tokio::test(start_paused = true)]
async fn the_parent_of_a_span_is_the_caller_s() {
    let (measured, spans) = traced().await;
    let outer = spans.tracer("application").start("checkout");
    let id = outer.span_context().span_id();
    let context = Context::new().with_span(outer);
    measured.read("1").with_context(context).await.unwrap();
    assert_eq!(of_read(&spans).parent, Some(id));
}

#[tokio::test(start_paused = true)]
async fn a_bulk_is_told_from_a_batch_and_has_the_size_of_its_body() {
    let (measured, spans) = traced().await;
    let body = br#"[{"operationType":"Read","id":"1","partitionKey":"[\"contoso\"]"}]"#;
    let link = orders_link();
    let definition = measured.driver.container(&link).await.unwrap();
    let key = definition.partition_key_definition().effective_key(&"contoso".into()).unwrap();
    let range = definition.ranges().at(&key).id().clone();
    let bulk = CosmosOperation::execute_bulk(&link, range, Bytes::from_static(body)).unwrap();
    measured.driver.execute_operation(&bulk, &Default::default()).await.unwrap();
    let span = spans.take().into_iter().find(|it| it.name == "execute_bulk orders").unwrap();
    let size = body.len().to_string();
    assert_eq!(span.attribute("azure.cosmosdb.request.body.size"), Some(size.as_str()));
}

/// Metrics count drivers for as long as they live.
#[tokio::test(start_paused = true)]
async fn drivers_that_are_in_use_are_counted() {
    const INSTANCES: &str = "azure.cosmosdb.client.active_instance.count";
    let measured = Measured::new().await;
    let second = measured.account.driver_on(Arc::clone(&measured.runtime), super::preferring_uk());
    let count = || measured.all(INSTANCES).iter().map(|it| it.sum).sum::<f64>();
    assert_eq!(count(), 2.0);
    drop(second);
    assert_eq!(count(), 1.0);
}
