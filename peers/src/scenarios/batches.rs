//! Transactional batches.

use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::options::{
    BatchOptions, BatchReplaceOptions, ContentResponseOnWrite, OperationOptions, Precondition,
};
use serde_json::{Value, json};

use crate::harness::{Failure, Outcome, Peer, refused};
use crate::{ensure, scenarios};

scenarios! { "batches":
    a_batch_of_every_operation_succeeds_as_a_whole,
    a_failed_batch_leaves_nothing_behind,
    a_batch_honours_etags,
    a_batch_of_more_than_a_hundred_operations_is_refused,
    a_batch_with_patches,
}

fn item(id: &str, v: u64) -> Value {
    json!({ "id": id, "pk": "a", "v": v })
}

fn with_bodies() -> Option<BatchOptions> {
    let mut operation = OperationOptions::default();
    operation.content_response_on_write = Some(ContentResponseOnWrite::Enabled);
    Some(BatchOptions::default().with_operation_options(operation))
}

async fn a_batch_of_every_operation_succeeds_as_a_whole(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    for id in ["read", "replace", "delete"] {
        container.create_item("a", id, item(id, 1), None).await?;
    }
    let batch = TransactionalBatch::new("a")
        .create_item(item("create", 1))?
        .upsert_item(item("upsert", 1), None)?
        .read_item("read", None)
        .replace_item("replace", item("replace", 2), None)?
        .delete_item("delete", None);
    let response = container.execute_transactional_batch(batch, with_bodies()).await?;
    ensure!(u16::from(response.status().status_code()) == 200, "{:?}", response.status());
    let response = response.into_model()?;
    let statuses: Vec<u16> = response.results().iter().map(|result| result.status_code()).collect();
    ensure!(statuses == [201, 201, 200, 200, 204], "{statuses:?}");
    let read: Value = response.results()[2].into_model()?.ok_or("no item")?;
    ensure!(read["v"] == 1, "{read}");
    Ok(Outcome::Passed)
}

async fn a_failed_batch_leaves_nothing_behind(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    container.create_item("a", "there", item("there", 1), None).await?;
    let batch = TransactionalBatch::new("a")
        .create_item(item("new", 1))?
        .create_item(item("there", 2))?
        .create_item(item("later", 1))?;
    let response = container.execute_transactional_batch(batch, None).await?;
    ensure!(u16::from(response.status().status_code()) == 207, "{:?}", response.status());
    let response = response.into_model()?;
    let statuses: Vec<u16> = response.results().iter().map(|result| result.status_code()).collect();
    ensure!(statuses == [424, 409, 424], "{statuses:?}");
    refused(container.read_item("a", "new", None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn a_batch_honours_etags(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let created = container.create_item("a", "1", item("1", 1), None).await?;
    let etag = created.headers().etag().ok_or("no etag")?.clone();
    for expected in [200, 412] {
        let fresh =
            BatchReplaceOptions::default().with_precondition(Precondition::if_match(etag.clone()));
        let batch = TransactionalBatch::new("a").replace_item("1", item("1", 2), Some(fresh))?;
        let response = container.execute_transactional_batch(batch, None).await?.into_model()?;
        let status = response.results()[0].status_code();
        ensure!(status == expected, "{status} is not {expected}");
    }
    Ok(Outcome::Passed)
}

async fn a_batch_of_more_than_a_hundred_operations_is_refused(
    peer: Peer,
) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let of = |count: u64| -> Result<TransactionalBatch, Failure> {
        let mut batch = TransactionalBatch::new("a");
        for number in 0..count {
            batch = batch.create_item(item(&number.to_string(), number))?;
        }
        Ok(batch)
    };
    refused(container.execute_transactional_batch(of(101)?, None).await, 400)?;
    let response = container.execute_transactional_batch(of(100)?, None).await?.into_model()?;
    ensure!(response.results().len() == 100, "{}", response.results().len());
    Ok(Outcome::Passed)
}

async fn a_batch_with_patches(_: Peer) -> Result<Outcome, Failure> {
    // `TransactionalBatch` has no such method; a scenario cannot ask for what does not compile.
    Ok(Outcome::SdkLacks("patches in batches: TransactionalBatch has no patch_item".to_owned()))
}
