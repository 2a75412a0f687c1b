//! Metrics and spans of a client, through the application's OpenTelemetry.
//!
//!     cargo run -p sidereal --features otel --example telemetry
//!
//! It prints what an exporter would send. An application has an exporter of its own and gives the client its providers,
//! such as `opentelemetry::global::tracer_provider()`.

use opentelemetry::Context;
use opentelemetry::trace::{FutureExt, TraceContextExt, Tracer, TracerProvider};
use serde_json::{Value, json};
use sidereal::prelude::*;
use sidereal_emulator::Emulator;
use sidereal_testing::spans::RecordedSpans;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let emulator =
        Emulator::builder().regions(["West US", "East US"]).partitions(3).start().await?;
    // Keeps spans in memory, in the place of an SDK with an exporter.
    let spans = RecordedSpans::default();
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())?
        .tracer_provider(&spans)
        .build()?;
    client.create_database("shop", None).await?;
    let properties =
        ContainerProperties::new("orders", PartitionKeyDefinition::new(["/customer"])?);
    client.database("shop").create_container(properties, None).await?;
    let orders = client.database("shop").container("orders");

    // What the client does within a span of the application is below it.
    let checkout = spans.tracer("shop").start("checkout");
    let work = async {
        let order = json!({"id": "1", "customer": "ada", "total": 120});
        orders.upsert_item("ada", &order, None).await?;
        orders.query("SELECT * FROM c ORDER BY c.total").items::<Value>().collect().await?;
        // A failure is the status of its span.
        let missing = orders.read_item("ada", "2", None).await;
        assert!(missing.is_err());
        Ok::<_, sidereal::Error>(())
    };
    work.with_context(Context::new().with_span(checkout)).await?;

    for span in spans.take().iter().filter(|span| span.name.ends_with("orders")) {
        println!("{} ({:?}, {:?})", span.name, span.took, span.status);
        for (key, value) in &span.attributes {
            println!("    {key} = {value}");
        }
    }
    emulator.shutdown().await;
    Ok(())
}
