//! Texts that JSON makes longer, around every limit on the way from an input to an output.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, WorkItem};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;

use crate::turns::{Done, ack, completed, enqueue, fetch, fetch_activity, raised, start};
use crate::world::World;

/// The repeated units of the texts.
const UNITS: [&str; 6] = ["x", "\"", "\\", "\u{1}", "ü", JSON];

const JSON: &str = r#"{"id":1,"say":"\"hi\""},"#;

/// Duroxide's limits on custom statuses and on values.
const STATUS_BYTES: usize = 256 << 10;
const VALUE_BYTES: usize = 64 << 10;

/// Every text and size if `SIDEREAL_EXHAUSTIVE` is set, which takes minutes, else one size for each kind of text.
fn cases() -> Vec<(&'static str, usize)> {
    if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_none() {
        return vec![("\"", 490_000), ("\u{1}", 140_000), (JSON, 760_000), ("ü", 990_000)];
    }
    let sizes = (1..=20).map(|step| step * 100_000);
    sizes.flat_map(|bytes| UNITS.map(|unit| (unit, bytes))).collect()
}

fn text(unit: &str, bytes: usize) -> String {
    unit.repeat(bytes / unit.len())
}

#[tokio::test(start_paused = true)]
async fn texts_of_any_characters_pass_through_every_document() {
    for (unit, bytes) in cases() {
        println!("{unit:?}, {bytes} bytes");
        passes(unit, bytes).await;
    }
}

/// Runs an orchestration whose input, event, activity, result, output, status and keys are such texts.
async fn passes(unit: &str, bytes: usize) {
    let (world, large) = (World::new(), text(unit, bytes));
    let provider = world.settled().await;
    let (status, value) = (text(unit, STATUS_BYTES), text(unit, VALUE_BYTES));
    first_turn(&provider, &large, &status, &value).await;
    enqueue(&provider, raised("i", &large)).await;

    let (item, token, _) = fetch_activity(&provider).await.unwrap();
    let WorkItem::ActivityExecute { input, .. } = item else { panic!("{item:?}") };
    assert!(input == large);
    provider.ack_work_item(&token, Some(completed("i", 2, large.clone()))).await.unwrap();

    // Another process reads all of it.
    let other = world.settled().await;
    let (item, token, _) = fetch(&other).await.unwrap();
    let mut messages = item.messages;
    messages.sort_by_key(|message| matches!(message, WorkItem::ActivityCompleted { .. }));
    assert!(messages == [raised("i", &large), completed("i", 2, large.clone())]);
    let kinds = [
        EventKind::ExternalEvent { name: "go".to_owned(), data: large.clone() },
        EventKind::ActivityCompleted { result: large.clone() },
        set(&text(unit, VALUE_BYTES / 2)),
    ];
    let events = kinds.into_iter().zip(6..);
    let events = events.map(|(kind, id)| Event::with_event_id(id, "i", 1, None, kind));
    let mut done = Done { events: events.collect(), ..Done::default() };
    done.metadata.status = Some("Completed".to_owned());
    done.metadata.output = Some(large.clone());
    ack(&other, &token, done).await.unwrap();

    let info = provider.get_instance_info("i").await.unwrap();
    assert!(info.output.as_deref() == Some(large.as_str()));
    let execution = provider.get_execution_info("i", 1).await.unwrap();
    assert!(execution.output.as_deref() == Some(large.as_str()));
    assert!(provider.get_custom_status("i", 0).await.unwrap() == Some((Some(status), 1)));
    let value = text(unit, VALUE_BYTES / 2);
    assert!(provider.get_kv_value("i", "key").await.unwrap() == Some(value));
    assert_eq!(provider.read("i").await.unwrap().len(), 7);
    tokio::time::sleep(Duration::from_secs(1)).await;
    provider.shutdown().await;
    other.shutdown().await;
}

fn set(value: &str) -> EventKind {
    let (key, value) = ("key".to_owned(), value.to_owned());
    EventKind::KeyValueSet { key, value, last_updated_at_ms: 1 }
}

/// Starts the instance: its first turn schedules an activity.
async fn first_turn(provider: &CosmosDBProvider, large: &str, status: &str, value: &str) {
    let mut item = start("i");
    if let WorkItem::StartOrchestration { input, .. } = &mut item {
        large.clone_into(input);
    }
    enqueue(provider, item.clone()).await;
    let (fetched, token, _) = fetch(provider).await.unwrap();
    assert!(fetched.messages == [item]);
    let mut done = Done::first("i");
    if let EventKind::OrchestrationStarted { input, .. } = &mut done.events[0].kind {
        large.clone_into(input);
    }
    let (name, input) = ("work".to_owned(), large.to_owned());
    let kinds = [
        EventKind::ActivityScheduled { name, input, session_id: None, tag: None },
        EventKind::CustomStatusUpdated { status: Some(status.to_owned()) },
        set(value),
    ];
    let events = kinds.into_iter().zip(2..);
    done.events.extend(events.map(|(kind, id)| Event::with_event_id(id, "i", 1, None, kind)));
    done = done.with_activities("i", 2..3);
    if let WorkItem::ActivityExecute { input, .. } = &mut done.activities[0] {
        large.clone_into(input);
    }
    ack(provider, &token, done).await.unwrap();
}
