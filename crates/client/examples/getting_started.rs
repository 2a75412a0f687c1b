//! Connect, create, read, change, delete.
//!
//!     cargo run -p sidereal --example getting_started
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use serde::{Deserialize, Serialize};
use sidereal::options::ItemWriteOptions;
use sidereal::prelude::*;
use support::Account;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    total: u32,
    status: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("getting-started").await?;
    let orders = account.container("orders", "/customer").await?;

    // Every call names the partition key: here, the customer.
    let order =
        Order { id: "4711".into(), customer: "contoso".into(), total: 120, status: "open".into() };
    let written = orders.upsert_item("contoso", &order, None).await?;
    println!("written for {} RU in {:?}", written.request_charge(), written.region());

    let response = orders.read_item("contoso", "4711", None).await?;
    let etag = response.etag();
    let mut order: Order = response.into_model()?;
    println!("read {order:?}");

    // Only if nobody changed it since: optimistic concurrency.
    order.total += 10;
    let write = ItemWriteOptions { if_match_etag: etag.clone(), ..Default::default() };
    let options = ItemOptions { write, ..Default::default() };
    orders.replace_item("contoso", "4711", &order, Some(options.clone())).await?;
    match orders.replace_item("contoso", "4711", &order, Some(options)).await {
        Err(error) if error.kind() == ErrorKind::PreconditionFailed => {
            println!("the second replace came too late, as it should");
        }
        other => return Err(format!("expected a failed precondition, met {other:?}").into()),
    }

    // A part of an item, without reading it first.
    let patch = Patch::new().set("/status", "shipped").increment("/total", -20);
    orders.patch_item("contoso", "4711", patch, None).await?;
    let order: Order = orders.read_item("contoso", "4711", None).await?.into_model()?;
    println!("patched: {} for {}", order.status, order.total);

    orders.delete_item("contoso", "4711", None).await?;
    if let Err(error) = orders.read_item("contoso", "4711", None).await {
        println!("deleted: {:?}", error.kind());
    }

    account.close().await?;
    Ok(())
}
