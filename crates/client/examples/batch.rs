//! Several changes of one customer's items, all or none.
//!
//!     cargo run -p sidereal --example batch
//!
//! It runs against an emulator within the process; name an account in `AZURE_COSMOS_ENDPOINT` and
//! `AZURE_COSMOS_KEY` to run against that.

mod support;

use serde_json::{Value, json};
use sidereal::prelude::*;
use support::Account;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let account = Account::open("batch").await?;
    let accounts = account.container("accounts", "/customer").await?;
    for id in ["giro", "savings"] {
        let item = json!({"id": id, "customer": "contoso", "balance": 100});
        accounts.upsert_item("contoso", item, None).await?;
    }

    // The condition is part of the patch, so that no overdraft can slip in between.
    let transfer = |id: &str, amount: i64| {
        let enough = format!("FROM c WHERE c.balance >= {amount}");
        let record = json!({"id": id, "customer": "contoso", "amount": amount});
        TransactionalBatch::new("contoso")
            .create_item(record)
            .patch_item(
                "giro",
                Patch::new().increment("/balance", -amount).with_condition(enough),
                None,
            )
            .patch_item("savings", Patch::new().increment("/balance", amount), None)
            .read_item("savings", None)
    };

    let response = accounts.execute_batch(transfer("transfer-1", 30), None).await?;
    let savings: Value = response.results()[3].model()?;
    println!("moved 30 for {} RU: savings {}", response.request_charge(), savings["balance"]);

    if let Err(error) = accounts.execute_batch(transfer("transfer-2", 1000), None).await {
        let failure = error.batch_failure().ok_or("the batch failed as a whole")?;
        println!("not moved: {failure}");
    }
    if let Err(error) = accounts.read_item("contoso", "transfer-2", None).await {
        println!("and no record of it: {:?}", error.kind());
    }

    account.close().await?;
    Ok(())
}
