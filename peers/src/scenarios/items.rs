//! Point operations.

use azure_data_cosmos::options::{ItemReadOptions, ItemWriteOptions, Precondition};
use serde_json::{Value, json};
use sidereal_emulator::Operation;

use crate::harness::{
    Failure, Outcome, Peer, numbered, refused, sub_status, with_body, without_system,
};
use crate::{ensure, scenarios};

scenarios! { "items":
    a_created_item_is_read_back,
    values_of_every_type_and_size_survive,
    a_minimal_response_has_no_item,
    an_upsert_creates_and_then_replaces,
    a_replaced_item_is_the_new_one_whole,
    a_replace_with_another_id_renames_the_item,
    a_deleted_item_is_gone,
    a_stale_etag_is_rejected,
    a_read_of_an_unchanged_item_says_so,
    keys_of_every_type_find_their_items,
    ids_with_unusual_characters_are_found_again,
    a_key_that_is_not_the_documents_is_refused,
    an_item_that_is_too_large_is_refused,
    responses_have_charge_session_and_duration,
    bodies_travel_in_the_form_that_was_chosen,
}

async fn a_created_item_is_read_back(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let item = numbered(1);
    let created = container.create_item("key-1", "1", &item, with_body()).await?;
    ensure!(u16::from(created.status().status_code()) == 201, "{:?}", created.status());
    let created: Value = created.into_model()?;
    ensure!(without_system(created.clone()) == item, "{created}");
    let read: Value = container.read_item("key-1", "1", None).await?.into_model()?;
    ensure!(read == created, "{read}");
    refused(container.create_item("key-1", "1", &item, None).await, 409)?;
    refused(container.read_item("key-2", "1", None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn values_of_every_type_and_size_survive(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let long = "x".repeat(70_000);
    let item = json!({
        "id": "1", "pk": "a",
        "numbers": [0, 31, 32, 255, 256, -1, -32768, 70_000, -70_000, 4_294_967_296_u64, 1.5, -1e300, 0.1],
        "strings": ["", "id", "täglich 日本 🚀", "x".repeat(63), "x".repeat(64), "x".repeat(256), long],
        "guid": "0f8fad5b-d9cb-469f-a165-70867728950e",
        "date": "2024-05-17T12:34:56.7890123Z",
        "base64": "Zm9vYmFy", "hex": "c0ffee00c0ffee00",
        "flags": [true, false, null], "empty": [[], {}],
        "deep": { "a": { "b": { "c": [{ "d": 1 }] } } },
        "vector": [0.5, 0.25, 0.125], "many": (0..300).collect::<Vec<_>>(),
    });
    container.create_item("a", "1", &item, None).await?;
    let read: Value = container.read_item("a", "1", None).await?.into_model()?;
    ensure!(without_system(read.clone()) == item, "{read}");
    Ok(Outcome::Passed)
}

async fn a_minimal_response_has_no_item(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let created = container.create_item("key-1", "1", numbered(1), None).await?;
    ensure!(created.headers().etag().is_some(), "no etag");
    let body = created.into_body();
    ensure!(body.is_empty(), "{body:?}");
    Ok(Outcome::Passed)
}

async fn an_upsert_creates_and_then_replaces(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let item = |v: u64| json!({ "id": "1", "pk": "a", "v": v });
    let created = container.upsert_item("a", "1", item(1), None).await?;
    let replaced = container.upsert_item("a", "1", item(2), with_body()).await?;
    let statuses =
        [created.status(), replaced.status()].map(|status| u16::from(status.status_code()));
    ensure!(statuses == [201, 200], "{statuses:?}");
    let replaced: Value = replaced.into_model()?;
    ensure!(replaced["v"] == 2, "{replaced}");
    Ok(Outcome::Passed)
}

async fn a_replaced_item_is_the_new_one_whole(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    container.create_item("a", "1", json!({ "id": "1", "pk": "a", "old": true }), None).await?;
    let new = json!({ "id": "1", "pk": "a", "new": true });
    container.replace_item("a", "1", &new, None).await?;
    let read: Value = container.read_item("a", "1", None).await?.into_model()?;
    ensure!(without_system(read.clone()) == new, "{read}");
    refused(
        container.replace_item("a", "none", json!({ "id": "none", "pk": "a" }), None).await,
        404,
    )?;
    Ok(Outcome::Passed)
}

async fn a_replace_with_another_id_renames_the_item(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let item = |id: &str| json!({ "id": id, "pk": "a" });
    container.create_item("a", "1", item("1"), None).await?;
    container.create_item("a", "taken", item("taken"), None).await?;
    refused(container.replace_item("a", "1", item("taken"), None).await, 409)?;
    container.replace_item("a", "1", item("2"), None).await?;
    refused(container.read_item("a", "1", None).await, 404)?;
    container.read_item("a", "2", None).await?;
    Ok(Outcome::Passed)
}

async fn a_deleted_item_is_gone(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    container.create_item("key-1", "1", numbered(1), None).await?;
    let deleted = container.delete_item("key-1", "1", None).await?;
    ensure!(u16::from(deleted.status().status_code()) == 204, "{:?}", deleted.status());
    refused(container.read_item("key-1", "1", None).await, 404)?;
    refused(container.delete_item("key-1", "1", None).await, 404)?;
    Ok(Outcome::Passed)
}

async fn a_stale_etag_is_rejected(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let created = container.create_item("key-1", "1", numbered(1), None).await?;
    let etag = created.headers().etag().ok_or("no etag")?.clone();
    let fresh = || {
        Some(ItemWriteOptions::default().with_precondition(Precondition::if_match(etag.clone())))
    };
    container.replace_item("key-1", "1", numbered(1), fresh()).await?;
    refused(container.replace_item("key-1", "1", numbered(1), fresh()).await, 412)?;
    refused(container.upsert_item("key-1", "1", numbered(1), fresh()).await, 412)?;
    refused(container.delete_item("key-1", "1", fresh()).await, 412)?;
    Ok(Outcome::Passed)
}

async fn a_read_of_an_unchanged_item_says_so(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let created = container.create_item("key-1", "1", numbered(1), None).await?;
    let etag = created.headers().etag().ok_or("no etag")?.clone();
    let known = ItemReadOptions::default().with_precondition(Precondition::if_none_match(etag));
    let status = match container.read_item("key-1", "1", Some(known)).await {
        Ok(response) => u16::from(response.status().status_code()),
        Err(error) => u16::from(error.status().status_code()),
    };
    ensure!(status == 304, "{status}");
    Ok(Outcome::Passed)
}

async fn keys_of_every_type_find_their_items(peer: Peer) -> Result<Outcome, Failure> {
    use azure_data_cosmos::PartitionKey;

    let container = peer.container().await?;
    let keys: [(PartitionKey, Value); 7] = [
        ("text".into(), json!("text")),
        ("".into(), json!("")),
        (7.into(), json!(7)),
        (PartitionKey::try_from(-1.5_f64)?, json!(-1.5)),
        (true.into(), json!(true)),
        (false.into(), json!(false)),
        (None::<String>.into(), json!(null)),
    ];
    for (index, (key, value)) in keys.iter().enumerate() {
        let id = index.to_string();
        container.create_item(key.clone(), &id, json!({ "id": id, "pk": value }), None).await?;
        let read: Value = container.read_item(key.clone(), &id, None).await?.into_model()?;
        ensure!(read["pk"] == *value, "{read}");
    }
    Ok(Outcome::Passed)
}

async fn ids_with_unusual_characters_are_found_again(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    for id in [
        "with space",
        "ünïcödé",
        "percent%20sign",
        "plus+and=and@",
        "quote'\"",
        "what?",
        "hash#tag",
    ] {
        container.create_item("a", id, json!({ "id": id, "pk": "a" }), None).await?;
        let read: Value = container.read_item("a", id, None).await?.into_model()?;
        ensure!(read["id"] == id, "{read}");
        container.delete_item("a", id, None).await?;
    }
    Ok(Outcome::Passed)
}

async fn a_key_that_is_not_the_documents_is_refused(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let error = refused(container.create_item("other", "1", numbered(1), None).await, 400)?;
    ensure!(sub_status(&error) == Some(1001), "{error}");
    Ok(Outcome::Passed)
}

async fn an_item_that_is_too_large_is_refused(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let item = |length: usize| json!({ "id": "1", "pk": "a", "text": "x".repeat(length) });
    refused(container.create_item("a", "1", item(2 << 20), None).await, 413)?;
    container.create_item("a", "1", item(1 << 20), None).await?;
    let read: Value = container.read_item("a", "1", None).await?.into_model()?;
    ensure!(read["text"].as_str().is_some_and(|text| text.len() == 1 << 20), "another text");
    Ok(Outcome::Passed)
}

async fn responses_have_charge_session_and_duration(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    container.create_item("key-1", "1", numbered(1), None).await?;
    let read = container.read_item("key-1", "1", None).await?;
    let headers = read.headers();
    ensure!(headers.request_charge().is_some_and(|charge| charge.value() >= 1.0), "{headers:?}");
    ensure!(
        headers.session_token().is_some() && headers.server_duration().is_some(),
        "{headers:?}"
    );
    ensure!(headers.lsn() == Some(1) && headers.item_lsn() == Some(1), "{headers:?}");
    Ok(Outcome::Passed)
}

async fn bodies_travel_in_the_form_that_was_chosen(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let item = numbered(1);
    container.create_item("key-1", "1", &item, None).await?;
    let read: Value = container.read_item("key-1", "1", None).await?.into_model()?;
    let (sent, _) = peer.body_bytes(&container, Operation::Create);
    let (_, answered) = peer.body_bytes(&container, Operation::Read);
    // The binary form of these is shorter than their text, and the text is as long as it is.
    let (text, whole) = (item.to_string().len() as u64, read.to_string().len() as u64);
    let shorter = (sent < text, answered < whole);
    ensure!(
        shorter == (peer.is_binary(), peer.is_binary()),
        "{sent} of {text}, {answered} of {whole}"
    );
    Ok(Outcome::Passed)
}
