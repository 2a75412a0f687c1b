//! Metrics and spans of a client, as the application's OpenTelemetry sees them.

use opentelemetry::Context;
use opentelemetry::trace::{FutureExt, Span, TraceContextExt, Tracer, TracerProvider};
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_emulator::Emulator;
use sidereal_testing::spans::{RecordedSpan, RecordedSpans};

use crate::bulk::upserts;

/// An emulator, and a client of it whose spans are kept.
async fn traced() -> (Emulator, ContainerClient, RecordedSpans) {
    let (emulator, spans) =
        (Emulator::builder().partitions(3).start().await.unwrap(), RecordedSpans::default());
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .tracer_provider(&spans)
        .build()
        .unwrap();
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    let items = client.database("db").container("items");
    (emulator, items, spans)
}

fn named<'a>(spans: &'a [RecordedSpan], name: &str) -> Vec<&'a RecordedSpan> {
    spans.iter().filter(|it| it.name == name).collect()
}

/// Also those of requests that are made by tasks: of bulks, queries, feeds.
#[tokio::test]
async fn every_request_of_a_call_is_a_span_below_the_caller_s() {
    let (emulator, items, spans) = traced().await;
    let outer = spans.tracer("application").start("import");
    let id = outer.span_context().span_id();
    let work = async {
        items.bulk().execute(upserts(300)).await.unwrap();
        let wanted = (0..50).map(|n| (format!("p{n}"), n.to_string()));
        items.read_many(wanted).execute::<Value>().await.unwrap();
        items.query("SELECT * FROM c ORDER BY c.n").items::<Value>().collect().await.unwrap();
        let mut changes = items.change_feed().items::<Value>();
        while let Some(change) = changes.next().await {
            change.unwrap();
        }
        items.read_item("p7", "7", None).await.unwrap();
    };
    work.with_context(Context::new().with_span(outer)).await;
    let spans = spans.take();
    for (name, least) in [
        ("execute_bulk items", 3),
        ("query_items items", 6),
        ("query_change_feed items", 6),
        ("read_item items", 1),
    ] {
        let found = named(&spans, name);
        assert!(found.len() >= least, "{name}: {}", found.len());
        for span in found {
            assert_eq!(span.parent, Some(id), "{span:?}");
            assert_eq!(span.attribute("db.system.name"), Some("azure.cosmosdb"));
            assert_eq!(span.attribute("db.collection.name"), Some("items"));
            assert!(span.attribute("azure.cosmosdb.operation.request_charge").is_some());
            let regions = span.attribute("azure.cosmosdb.operation.contacted_regions");
            assert!(regions.is_some_and(|it| it.len() > 4), "{span:?}");
        }
    }
    emulator.shutdown().await;
}

#[tokio::test]
async fn a_provider_beside_a_runtime_is_refused() {
    let runtime = sidereal::driver::CosmosDriverRuntime::builder().build().unwrap();
    let key = CosmosCredential::key("c2VjcmV0").unwrap();
    let meter = opentelemetry_sdk::metrics::SdkMeterProvider::builder().build();
    let builder = CosmosClient::builder("https://contoso.documents.azure.com/", key);
    let error = builder.runtime(runtime).meter_provider(&meter).build().unwrap_err();
    assert!(error.to_string().contains("are the runtime's"), "{error}");
}
