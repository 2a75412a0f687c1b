//! A region disappears; the reads go on, and say why they were slower.
//!
//!     cargo run -p sidereal --example failover_diagnostics
//!
//! It runs against an emulator of three regions within the process. Name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to see the diagnostics of that; its regions are left alone.

mod support;

use serde_json::json;
use sidereal::options::{AvailabilityOptions, RequestOptions};
use sidereal::prelude::*;
use support::Account;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("failover").await?;
    let orders = account.container("orders", "/customer").await?;
    let order = json!({"id": "4711", "customer": "contoso"});
    orders.upsert_item("contoso", order, None).await?;

    let response = orders.read_item("contoso", "4711", None).await?;
    let region = response.region().cloned().ok_or("the region is not known")?;
    println!("read in {region}:\n{}\n", response.diagnostics());

    if let Some(emulator) = &account.emulator {
        // No connection to the region can be made from here on.
        emulator.take_offline(&region)?;
    }
    let response = orders.read_item("contoso", "4711", None).await?;
    println!(
        "read in {:?} while {region} is gone:\n{}\n",
        response.region(),
        response.diagnostics()
    );

    // The same by request: one call that leaves a region out, and does not wait long for the others.
    let timeout = std::time::Duration::from_secs(5);
    let options = ItemOptions {
        request: RequestOptions { excluded_regions: Some(vec![region]), ..Default::default() },
        availability: AvailabilityOptions {
            end_to_end_timeout: Some(timeout),
            ..Default::default()
        },
        ..Default::default()
    };
    let response = orders.read_item("contoso", "4711", Some(options)).await?;
    println!(
        "read in {:?} by request, as JSON:\n{}",
        response.region(),
        response.diagnostics().to_json()
    );

    if let Some(emulator) = &account.emulator {
        let (region, _) = emulator.regions().swap_remove(0);
        emulator.bring_online(&region).await?;
    }
    account.close().await?;
    Ok(())
}
