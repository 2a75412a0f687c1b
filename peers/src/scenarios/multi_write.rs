//! An account in which every region accepts writes.

use azure_data_cosmos::models::ContainerProperties;
use serde_json::{Value, json};

use crate::harness::{Failure, Outcome, Peer, create_container};
use crate::{ensure, scenarios};

scenarios! { "multi-write":
    each_client_writes_in_the_region_it_prefers,
    a_client_reads_its_own_writes,
}

async fn each_client_writes_in_the_region_it_prefers(peer: Peer) -> Result<Outcome, Failure> {
    let east = peer.multi_write_client("East US").await?;
    let west = peer.multi_write_client("West US 2").await?;
    let database = peer.database(&east).await?;
    let in_east =
        create_container(&database, ContainerProperties::new("c", "/pk".into()), None).await?;
    let name = database.name().ok_or("no name")?.to_owned();
    let in_west = west.database_client(name).container_client("c", None).await?;
    let before = peer.creates_by_region();
    in_east.create_item("a", "east", json!({ "id": "east", "pk": "a" }), None).await?;
    in_west.create_item("a", "west", json!({ "id": "west", "pk": "a" }), None).await?;
    let after = peer.creates_by_region();
    ensure!(after[0] == before[0] + 1 && after[1] == before[1] + 1, "{before:?} and {after:?}");
    for container in [&in_east, &in_west] {
        for id in ["east", "west"] {
            container.read_item("a", id, None).await?;
        }
    }
    Ok(Outcome::Passed)
}

async fn a_client_reads_its_own_writes(peer: Peer) -> Result<Outcome, Failure> {
    let client = peer.multi_write_client("West US 2").await?;
    let database = peer.database(&client).await?;
    let container =
        create_container(&database, ContainerProperties::new("c", "/pk".into()), None).await?;
    for v in 0..20_u64 {
        container.upsert_item("a", "1", json!({ "id": "1", "pk": "a", "v": v }), None).await?;
        let read: Value = container.read_item("a", "1", None).await?.into_model()?;
        ensure!(read["v"] == v, "{read}");
    }
    Ok(Outcome::Passed)
}
