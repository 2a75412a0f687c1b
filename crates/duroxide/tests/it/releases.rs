//! Processes of two releases on one container: a newer one has added fields, and this one keeps them.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter};
use duroxide::{Event, EventKind};
use serde_json::{Value, json};
use sidereal::prelude::*;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::scripting::{header, refusal};
use sidereal_testing::in_process::{InProcessAccount, Interruption, NetworkFaults};

use crate::turns::{Done, LOCK, ack, activity, begin, completed, enqueue, fetch, raised, start};
use crate::world::World;

const NAME: &str = "/laterField";

fn later() -> Value {
    json!({"a": [1, null], "b": "ü"})
}

/// Adds a field to a document, as a newer release would.
async fn add_field(world: &World, partition: &str, id: &str) {
    let patch = Patch::new().set(NAME, later());
    world.container().patch_item(partition, id, patch, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn stored(world: &World, partition: &str, id: &str) -> Value {
    world.container().read_item(partition, id, None).await.unwrap().into_model().unwrap()
}

/// The document, which must have the field still.
async fn kept(world: &World, partition: &str, id: &str) -> Value {
    let document = stored(world, partition, id).await;
    assert_eq!(document["laterField"], later(), "{document}");
    document
}

#[tokio::test(start_paused = true)]
async fn an_instance_keeps_unknown_fields_in_turns_renewals_and_deletions() {
    let world = World::new();
    let first = world.settled().await;
    begin(&first, "i", Done::first("i")).await;
    add_field(&world, "i", "i:instance").await;
    // One has a copy of the instance, and the other reads it.
    for provider in [first, world.settled().await] {
        enqueue(&provider, raised("i", "1")).await;
        let (_, token, _) = fetch(&provider).await.unwrap();
        let locked = kept(&world, "i", "i:instance").await;
        provider.renew_orchestration_item_lock(&token, 2 * LOCK).await.unwrap();
        let renewed = kept(&world, "i", "i:instance").await;
        assert!(renewed["lockedUntil"].as_i64() > locked["lockedUntil"].as_i64());
        ack(&provider, &token, Done::default()).await.unwrap();
        kept(&world, "i", "i:instance").await;
    }
    // A deletion that stops after its mark.
    for at in 0.. {
        let delete = async |provider: &CosmosDBProvider| {
            provider.delete_instance("i", true).await.unwrap();
        };
        world.interrupt(at, Interruption::StopBefore, delete).await;
        let marked = kept(&world, "i", "i:instance").await;
        if marked["isDeleting"] == true {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_keeps_unknown_fields_when_it_is_set() {
    let set = |id: u64, value: &str| {
        let (key, value) = ("k".to_owned(), value.to_owned());
        let kind = EventKind::KeyValueSet { key, value, last_updated_at_ms: 1 };
        Event::with_event_id(id, "i", 1, None, kind)
    };
    let world = World::new();
    let provider = world.settled().await;
    let mut done = Done::first("i");
    done.events.push(set(2, "first"));
    begin(&provider, "i", done).await;
    add_field(&world, "i", "i:kv:k").await;
    let provider = world.settled().await;
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    ack(&provider, &token, Done { events: vec![set(3, "second")], ..Done::default() })
        .await
        .unwrap();
    assert_eq!(provider.get_kv_value("i", "k").await.unwrap().as_deref(), Some("second"));
    kept(&world, "i", "i:kv:k").await;
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_unknown_fields_when_it_is_claimed_and_used() {
    let world = World::new();
    let provider = world.settled().await;
    let mut done = Done::first("i");
    done.activities.extend([2, 3].map(|id| activity("i", id, Some("s"))));
    begin(&provider, "i", done).await;
    let fetch = async |provider: &CosmosDBProvider| {
        let config = SessionFetchConfig { owner_id: "one".to_owned(), lock_timeout: LOCK };
        let tags = TagFilter::Any;
        let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, Some(&config), &tags).await;
        fetched.unwrap().unwrap().1
    };
    let token = fetch(&provider).await;
    add_field(&world, "session:s", "s:session").await;
    provider.ack_work_item(&token, Some(completed("i", 2, String::new()))).await.unwrap();
    kept(&world, "session:s", "s:session").await;
    fetch(&world.settled().await).await;
    kept(&world, "session:s", "s:session").await;
}

#[tokio::test(start_paused = true)]
async fn an_undeliverable_message_keeps_unknown_fields_when_it_is_retried() {
    let world = World::scripted(|request| {
        header(request, "x-ms-cosmos-is-batch-request")?;
        let key = header(request, "x-ms-documentdb-partitionkey")?;
        key.contains("target").then(|| refusal(413, 0))
    });
    let provider = world.settled().await;
    begin(&provider, "i", Done { messages: vec![start("target")], ..Done::first("i") }).await;
    let container = world.container();
    let query = container.query("SELECT VALUE c.id FROM c WHERE c.type = 'outbox_intent'");
    let id: String = query.first().await.unwrap().unwrap();
    add_field(&world, "i", &id).await;
    assert_eq!(provider.retry_undeliverable().await.unwrap().retried, 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let tried = kept(&world, "i", &id).await;
    assert!(tried["attemptCount"].as_u64().unwrap() > 0, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_schema_keeps_unknown_fields_when_its_region_is_moved() {
    let options = AccountOptions {
        regions: vec!["West US".into(), "East US".into()],
        multi_write: true,
        ..AccountOptions::default()
    };
    let world = World::of(InProcessAccount::new(options, 1, NetworkFaults::NONE));
    drop(world.provider_in("West US").await);
    let patch = Patch::new().set("/schemaVersion", 3).set(NAME, later());
    world.container().patch_item("__sidereal__", "schema", patch, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    let moved = config.with_region_moved_risking_duplicates("East US");
    drop(CosmosDBProvider::new(moved).await.unwrap());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let schema = kept(&world, "__sidereal__", "schema").await;
    assert_eq!((&schema["schemaVersion"], &schema["minReader"]), (&json!(3), &json!(1)));
    assert_eq!(schema["region"], "East US");
}

/// Any other schema version was refused, so two releases could not run side by side.
#[tokio::test(start_paused = true)]
async fn a_container_is_refused_by_its_limits_and_not_by_its_version() {
    let world = World::new();
    drop(world.provider().await);
    let open = async |limits: [(&str, u32); 3]| {
        let set = |patch: Patch, (name, version): (&str, u32)| patch.set(name, version);
        let patch = limits.into_iter().fold(Patch::new(), set);
        world.container().patch_item("__sidereal__", "schema", patch, None).await.unwrap();
        let config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
        CosmosDBProvider::new(config).await.map(drop).map_err(|error| error.to_string())
    };
    let [version, reader, writer] = ["/schemaVersion", "/minReader", "/minWriter"];
    assert_eq!(open([(version, 7), (reader, 1), (writer, 1)]).await, Ok(()));
    let refused = open([(version, 7), (reader, 1), (writer, 2)]).await.unwrap_err();
    assert!(refused.contains("written") && refused.contains("newer release"), "{refused}");
    let refused = open([(version, 7), (reader, 2), (writer, 2)]).await.unwrap_err();
    assert!(refused.contains("is read by releases that know layout 2"), "{refused}");
}
