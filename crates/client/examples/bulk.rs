//! Ten thousand items written in bulk, and a thousand of them read by id.
//!
//!     cargo run -p sidereal --example bulk
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use serde::{Deserialize, Serialize};
use sidereal::prelude::*;
use support::Account;

#[derive(Debug, Serialize, Deserialize)]
struct Reading {
    id: String,
    sensor: String,
    celsius: f64,
}

fn sensor(number: u32) -> String {
    format!("sensor {}", number % 200)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("bulk").await?;
    let readings = account.container("readings", "/sensor").await?;

    // The operations are made as they are needed: an input of any size is never in memory as a whole.
    let operations = (0..10_000_u32).map(|number| {
        let celsius = 15.0 + f64::from(number % 100) / 10.0;
        let reading = Reading { id: number.to_string(), sensor: sensor(number), celsius };
        BulkOperation::upsert_item(sensor(number), &reading)
    });
    // One that the service does not take fails alone.
    let wrong = BulkOperation::upsert_item("sensor 1", serde_json::json!({"celsius": 20}));
    let bulk = readings.bulk().with_progress(|progress| {
        if progress.requests % 25 == 0 {
            println!("  {} of {} written", progress.succeeded, progress.taken);
        }
    });
    let report = bulk.execute(operations.chain([wrong])).await?;
    println!(
        "{} operations in {} requests, {:.0} RU",
        report.results().len(),
        report.requests(),
        report.request_charge()
    );
    for failure in report.failures() {
        println!("  {}", failure.outcome().err().map(|it| it.to_string()).unwrap_or_default());
    }

    // A hundred items of one partition range take one request.
    let wanted = (0..1_000_u32).map(|number| (sensor(number * 11), (number * 11).to_string()));
    let response = readings.read_many(wanted).execute::<Reading>().await?;
    let found = response.items().iter().flatten();
    let warmest = found.clone().max_by(|left, right| left.celsius.total_cmp(&right.celsius));
    println!(
        "{} of {} found in {} requests, {:.0} RU; the warmest: {warmest:?}",
        found.count(),
        response.items().len(),
        response.requests(),
        response.request_charge()
    );

    account.close().await?;
    Ok(())
}
