//! Patches, by the service and by the SDK itself.

use azure_data_cosmos::models::{CosmosNumber, PatchInstructions, PatchOperation};
use azure_data_cosmos::options::{PatchItemOptions, PatchStrategy, Precondition};
use serde_json::{Value, json};

use crate::harness::{Failure, Outcome, Peer, refused};
use crate::{ensure, scenarios};

scenarios! { "patches":
    a_patch_by_the_service_does_every_operation,
    a_patch_by_the_client_does_every_operation,
    a_patch_by_default_is_applied,
    a_patch_honours_etags,
    a_patch_of_a_missing_item_is_not_found,
    a_patch_with_a_condition,
}

fn everything() -> PatchInstructions {
    PatchInstructions::new()
        .with_operation(PatchOperation::set("/set", json!({ "x": 1 })))
        .with_operation(PatchOperation::add("/list/-", json!(3)))
        .with_operation(PatchOperation::replace("/text", json!("new")))
        .with_operation(PatchOperation::remove("/gone"))
        .with_operation(PatchOperation::increment("/count", CosmosNumber::from(2_i64)))
        .with_operation(PatchOperation::move_value("/old", "/moved"))
}

async fn patched(peer: &Peer, strategy: Option<PatchStrategy>) -> Result<Value, Failure> {
    let container = peer.container().await?;
    let item = json!({ "id": "1", "pk": "a", "list": [1, 2], "text": "old", "gone": 1, "count": 1, "old": true });
    container.create_item("a", "1", item, None).await?;
    let options = strategy.map(|strategy| PatchItemOptions::default().with_strategy(strategy));
    container.patch_item("a", "1", everything(), options).await?;
    Ok(container.read_item("a", "1", None).await?.into_model()?)
}

fn check(read: Value) -> Result<Outcome, Failure> {
    let expected = json!({
        "set": { "x": 1 }, "list": [1, 2, 3], "text": "new", "count": 3, "moved": true, "gone": null, "old": null,
    });
    for (name, value) in expected.as_object().ok_or("an object")? {
        let found = read.get(name).cloned().unwrap_or_default();
        ensure!(found == *value, "{name}: {read}");
    }
    Ok(Outcome::Passed)
}

async fn a_patch_by_the_service_does_every_operation(peer: Peer) -> Result<Outcome, Failure> {
    check(patched(&peer, Some(PatchStrategy::ServerSide)).await?)
}

async fn a_patch_by_the_client_does_every_operation(peer: Peer) -> Result<Outcome, Failure> {
    check(patched(&peer, Some(PatchStrategy::ClientSide)).await?)
}

async fn a_patch_by_default_is_applied(peer: Peer) -> Result<Outcome, Failure> {
    check(patched(&peer, None).await?)
}

async fn a_patch_honours_etags(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    container.create_item("a", "1", json!({ "id": "1", "pk": "a" }), None).await?;
    let patch = PatchInstructions::new().with_operation(PatchOperation::set("/v", json!(1)));
    for strategy in [PatchStrategy::ServerSide, PatchStrategy::ClientSide] {
        let stale = PatchItemOptions::default()
            .with_strategy(strategy)
            .with_precondition(Precondition::if_match("\"stale\""));
        refused(container.patch_item("a", "1", patch.clone(), Some(stale)).await, 412)?;
    }
    Ok(Outcome::Passed)
}

async fn a_patch_of_a_missing_item_is_not_found(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let patch = PatchInstructions::new().with_operation(PatchOperation::set("/v", json!(1)));
    refused(container.patch_item("a", "none", patch, None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn a_patch_with_a_condition(_: Peer) -> Result<Outcome, Failure> {
    // `PatchInstructions` has no condition; a scenario cannot ask for what does not compile.
    Ok(Outcome::SdkLacks(
        "conditions of patches: PatchInstructions has no filter predicate".to_owned(),
    ))
}
