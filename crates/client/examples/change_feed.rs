//! The change feed: read to its end, resumed from a token, and followed by two workers.
//!
//!     cargo run -p sidereal --example change_feed
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal::change_feed::processor::{ChangeFeedProcessor, Changes};
use sidereal::prelude::*;
use support::Account;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    status: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("change-feed").await?;
    let orders = account.container("orders", "/customer").await?;
    write(&orders, 0..40, "open").await?;

    // Page by page, each with where the feed goes on after it.
    let mut bookmark = String::new();
    let mut pages = orders.change_feed().with_page_size(15).pages::<Order>();
    while let Some(page) = pages.next().await {
        let page = page?;
        println!("a page of {} changes, {:.2} RU", page.items().len(), page.request_charge());
        bookmark = page.continuation().to_string();
    }

    // Later, perhaps elsewhere: what has changed since.
    write(&orders, 10..13, "shipped").await?;
    let mut changes = orders.change_feed().with_continuation(bookmark.parse()?).items::<Order>();
    while let Some(order) = changes.next().await {
        let order = order?;
        println!("order {} of {} is {}", order.id, order.customer, order.status);
    }

    // Two workers share the container, range by range, and take over from each other.
    let leases = account.container("leases", "/processor").await?;
    let first = start(&orders, &leases, "first").await?;
    let second = start(&orders, &leases, "second").await?;
    write(&orders, 0..5, "billed").await?;
    loop {
        let lag = first.estimate_lag().await?;
        let (behind, owned) = lag.iter().fold((0, 0), |(behind, owned), range| {
            (behind + range.changes, owned + usize::from(range.owner.is_some()))
        });
        println!("{behind} changes to handle; {owned} of {} ranges have a worker", lag.len());
        let shares = [&first, &second].map(|worker| worker.progress().len());
        if behind == 0 && shares.iter().all(|share| *share > 0) {
            println!("ranges of each worker: {shares:?}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    first.stop().await;
    second.stop().await;

    account.close().await?;
    Ok(())
}

async fn start(
    orders: &ContainerClient,
    leases: &ContainerClient,
    name: &'static str,
) -> sidereal::Result<ChangeFeedProcessor> {
    orders
        .change_feed_processor("billing", leases)
        .with_instance(name)
        .with_lease_duration(Duration::from_secs(3))
        .with_acquire_interval(Duration::from_millis(100))
        .with_poll_interval(Duration::from_millis(50))
        .start(move |changes: Changes<Order>| async move {
            // Given again if this fails, so handling a change twice must do no harm.
            println!("  {name} handles {} changes", changes.items().len());
            Ok::<_, std::io::Error>(())
        })
        .await
}

async fn write(
    orders: &ContainerClient,
    numbers: std::ops::Range<u32>,
    status: &str,
) -> sidereal::Result<()> {
    let upserts = numbers.map(|number| {
        let (id, customer) = (number.to_string(), format!("customer {}", number % 7));
        let order = Order { id, customer: customer.clone(), status: status.to_owned() };
        BulkOperation::upsert_item(customer, &order)
    });
    let report = orders.bulk().execute(upserts).await?;
    assert!(report.is_success());
    Ok(())
}
