//! Partition keys of several levels.

use azure_data_cosmos::{FeedScope, TransactionalBatch};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::harness::{Container, Failure, Outcome, Peer, refused};
use crate::{ensure, scenarios};

scenarios! { "hierarchy":
    items_under_hierarchical_keys_are_written_and_read,
    a_query_by_a_prefix_sees_what_is_under_it,
    a_batch_under_a_hierarchical_key_succeeds,
    a_part_of_a_key_addresses_no_item,
}

const USERS: [(&str, &str); 3] = [("tenant-1", "anna"), ("tenant-1", "ben"), ("tenant-2", "anna")];

async fn filled(peer: &Peer) -> Result<Container, Failure> {
    let container = peer.container_by(("/tenant", "/user", "/session").into()).await?;
    for (tenant, user) in USERS {
        for session in 0..3 {
            let id = format!("{tenant}.{user}.{session}");
            let item = json!({ "id": id, "tenant": tenant, "user": user, "session": session });
            container.create_item((tenant, user, session), &id, item, None).await?;
        }
    }
    Ok(container)
}

async fn items_under_hierarchical_keys_are_written_and_read(
    peer: Peer,
) -> Result<Outcome, Failure> {
    let container = filled(&peer).await?;
    let (key, id) = (("tenant-1", "ben", 2), "tenant-1.ben.2");
    let mut item: Value = container.read_item(key, id, None).await?.into_model()?;
    ensure!(item["user"] == "ben", "{item}");
    item["note"] = json!("replaced");
    container.replace_item(key, id, &item, None).await?;
    let read: Value = container.read_item(key, id, None).await?.into_model()?;
    ensure!(read["note"] == "replaced", "{read}");
    container.delete_item(key, id, None).await?;
    refused(container.read_item(key, id, None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn a_query_by_a_prefix_sees_what_is_under_it(peer: Peer) -> Result<Outcome, Failure> {
    let container = filled(&peer).await?;
    let scopes = [
        (FeedScope::partition("tenant-1"), 6),
        (FeedScope::partition(("tenant-1", "anna")), 3),
        (FeedScope::partition(("tenant-1", "anna", 1)), 1),
        (FeedScope::partition("nobody"), 0),
    ];
    for (scope, expected) in scopes {
        let query = "SELECT VALUE c.id FROM c ORDER BY c.id";
        let found: Vec<String> =
            container.query_items(query, scope, None).await?.try_collect().await?;
        ensure!(found.len() == expected && found.is_sorted(), "{found:?}");
    }
    Ok(Outcome::Passed)
}

async fn a_batch_under_a_hierarchical_key_succeeds(peer: Peer) -> Result<Outcome, Failure> {
    let container = filled(&peer).await?;
    let item = json!({ "id": "new", "tenant": "t", "user": "u", "session": 1 });
    let batch = TransactionalBatch::new(("t", "u", 1)).create_item(item)?;
    let response = container.execute_transactional_batch(batch, None).await?.into_model()?;
    ensure!(response.results()[0].status_code() == 201, "{}", response.results()[0].status_code());
    container.read_item(("t", "u", 1), "new", None).await?;
    Ok(Outcome::Passed)
}

async fn a_part_of_a_key_addresses_no_item(peer: Peer) -> Result<Outcome, Failure> {
    let container = filled(&peer).await?;
    refused(container.read_item(("tenant-1", "ben"), "tenant-1.ben.2", None).await, 400)?;
    Ok(Outcome::Passed)
}
