//! Queries: rows, pages, aggregates, continuation tokens, what they cost.
//!
//!     cargo run -p sidereal --example queries
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use serde::{Deserialize, Serialize};
use sidereal::query::QueryLimits;
use support::Account;

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    id: String,
    customer: String,
    total: u32,
}

/// What a customer spent, as a query names it.
#[derive(Debug, Deserialize)]
struct Spent {
    customer: String,
    orders: u32,
    mean: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("queries").await?;
    let orders = account.container("orders", "/customer").await?;
    for number in 0..60_u32 {
        let customer = format!("customer {}", number % 7);
        let order = Order { id: number.to_string(), customer, total: number * 37 % 200 };
        orders.upsert_item(order.customer.as_str(), &order, None).await?;
    }

    // Of one customer: one partition range is asked, and nothing is merged.
    let text = "SELECT VALUE SUM(c.total) FROM c";
    let spent = orders.query(text).with_partition_key("customer 3").first::<u32>().await?;
    println!("customer 3 spent {spent:?}");

    // Across partitions: every range is asked at once, and the rows come sorted.
    let expensive = orders
        .query("SELECT TOP 3 * FROM c WHERE c.total > @least ORDER BY c.total DESC")
        .with_parameter("@least", 150);
    println!("{}", expensive.explain().await?);
    let mut rows = expensive.items::<Order>();
    while let Some(order) = rows.next().await {
        println!("  {:?}", order?);
    }

    // Groups are held in memory until all have come: bound how many there may be.
    let text = "SELECT c.customer, COUNT(1) AS orders, SUM(c.total) / COUNT(1) AS mean FROM c \
                GROUP BY c.customer";
    let limits = QueryLimits { max_merged_rows: 1_000, ..QueryLimits::default() };
    for spent in orders.query(text).with_limits(limits).items::<Spent>().collect().await? {
        println!("  {}: {} orders of {:.1}", spent.customer, spent.orders, spent.mean);
    }

    // Page by page, each from the token of the one before, as a web application would do it.
    let query = orders.query("SELECT VALUE c.id FROM c ORDER BY c.total").with_page_size(20);
    let (mut bookmark, mut charge): (Option<String>, f64) = (None, 0.0);
    loop {
        let query = match &bookmark {
            Some(text) => query.clone().with_continuation(text.parse()?),
            None => query.clone(),
        };
        let Some(page) = query.pages::<String>().next().await else { break };
        let page = page?;
        charge += page.request_charge();
        println!("  a page of {} ids", page.items().len());
        bookmark = page.continuation()?.map(|token| token.to_string());
        if bookmark.is_none() {
            break;
        }
    }
    println!("all pages together: {charge:.2} RU");

    account.close().await?;
    Ok(())
}
