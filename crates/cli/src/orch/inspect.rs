//! Reads about instances: lists, one instance, its history, counts.

use duroxide::Event;
use duroxide::providers::{Provider, ProviderAdmin};
use serde_json::{Map, Value, json};
use sidereal_duroxide::{InstanceSearch, InstanceSummary};

use super::ListArguments;
use super::open::{Opened, time};
use crate::command::FormatArguments;
use crate::failure::Failure;
use crate::table;

/// Executions that are shown of an instance: each takes three requests.
const SHOWN_EXECUTIONS: usize = 10;

/// The width of the details in a table.
const DETAIL_WIDTH: usize = 80;

pub(super) async fn list(
    opened: &Opened,
    wanted: &ListArguments,
    format: &FormatArguments,
) -> Result<(), Failure> {
    let search = InstanceSearch {
        status: wanted.status.clone(),
        orchestration: wanted.orchestration.clone(),
        id_prefix: wanted.id_prefix.clone(),
        limit: wanted.limit,
    };
    let found = opened.provider.find_instances(&search).await;
    let found = found.map_err(|error| opened.explain_provider(&error))?;
    let rows: Vec<_> = found.iter().map(row).collect();
    let heads =
        ["INSTANCE", "ORCHESTRATION", "VERSION", "STATUS", "EXECUTION", "CREATED", "PARENT"];
    format.print(heads, &rows)
}

fn row(found: &InstanceSummary) -> (Value, [String; 7]) {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let (created, updated) = (time(found.created_at.unsigned_abs()), found.updated_at);
    let value = json!({
        "instance": found.instance_id,
        "orchestration": found.orchestration_name,
        "version": found.orchestration_version,
        "status": found.status,
        "customStatus": found.custom_status,
        "execution": found.current_execution_id,
        "created": created,
        "updated": time(updated.unsigned_abs()),
        "parent": found.parent_instance_id,
    });
    let cells = [
        table::printable(&found.instance_id),
        table::printable(&text(&found.orchestration_name)),
        table::printable(&text(&found.orchestration_version)),
        found.status.clone(),
        found.current_execution_id.to_string(),
        created,
        table::printable(&text(&found.parent_instance_id)),
    ];
    (value, cells)
}

pub(super) async fn show(
    opened: &Opened,
    instance: &str,
    format: &FormatArguments,
) -> Result<(), Failure> {
    let info = opened.instance(instance).await?;
    let provider = &opened.provider;
    let tell = |error| opened.explain_provider(&error);
    let custom = provider.get_custom_status(instance, 0).await.map_err(tell)?;
    let stats = provider.get_instance_stats(instance).await.map_err(tell)?;
    let keys = provider.get_kv_all_values(instance).await.map_err(tell)?;
    let mut executions = Vec::new();
    let all = provider.list_executions(instance).await.map_err(tell)?;
    for execution in all.iter().rev().take(SHOWN_EXECUTIONS).copied() {
        let info = provider.get_execution_info(instance, execution).await.map_err(tell)?;
        executions.push(json!({
            "execution": info.execution_id,
            "status": info.status,
            "started": time(info.started_at),
            "completed": info.completed_at.map(time),
            "events": info.event_count,
        }));
    }
    let stats = stats.map(|stats| {
        json!({
            "events": stats.history_event_count,
            "historyBytes": stats.history_size_bytes,
            "keys": stats.kv_user_key_count,
            "keyBytes": stats.kv_total_value_bytes,
        })
    });
    let keys: Map<String, Value> =
        keys.into_iter().map(|(key, value)| (key, json!(value))).collect();
    format.print_facts(&[
        ("instance", json!(info.instance_id)),
        ("orchestration", json!(info.orchestration_name)),
        ("version", json!(info.orchestration_version)),
        ("status", json!(info.status)),
        ("customStatus", json!(custom.and_then(|(text, _)| text))),
        ("output", json!(info.output)),
        ("created", json!(time(info.created_at))),
        ("updated", json!(time(info.updated_at))),
        ("parent", json!(info.parent_instance_id)),
        ("execution", json!(info.current_execution_id)),
        ("executions", json!(all.len())),
        ("lastExecutions", json!(executions)),
        ("keys", Value::from(keys)),
        ("stats", json!(stats)),
    ])
}

pub(super) async fn history(
    opened: &Opened,
    instance: &str,
    execution: Option<u64>,
    format: &FormatArguments,
) -> Result<(), Failure> {
    let info = opened.instance(instance).await?;
    let execution = match execution {
        Some(execution) => {
            let found = opened.client.get_execution_info(instance, execution).await;
            found.map_err(|error| opened.explain(error, instance))?.execution_id
        }
        None => info.current_execution_id,
    };
    let events = opened.client.read_execution_history(instance, execution).await;
    let events = events.map_err(|error| opened.explain(error, instance))?;
    let rows: Vec<_> = events.iter().map(event).collect();
    format.print(["EVENT", "TIME", "KIND", "OF", "DETAILS"], &rows)
}

/// Properties that every event has; the others are its own.
const COMMON: [&str; 7] = [
    "event_id",
    "source_event_id",
    "instance_id",
    "execution_id",
    "timestamp_ms",
    "duroxide_version",
    "type",
];

fn event(event: &Event) -> (Value, [String; 5]) {
    let value = json!(event);
    let kind = value["type"].as_str().unwrap_or("unknown").to_owned();
    let own = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, value)| !COMMON.contains(&name.as_str()) && !value.is_null());
    let details: Vec<String> =
        own.map(|(name, value)| format!("{name}: {}", table::cell(value))).collect();
    let of = event.source_event_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    let details = table::shortened(&details.join(", "), DETAIL_WIDTH);
    let cells = [event.event_id.to_string(), time(event.timestamp_ms), kind, of, details];
    (value, cells)
}

pub(super) async fn metrics(opened: &Opened, format: &FormatArguments) -> Result<(), Failure> {
    let provider = &opened.provider;
    let tell = |error| opened.explain_provider(&error);
    let system = provider.get_system_metrics().await.map_err(tell)?;
    let queues = provider.get_queue_depths().await.map_err(tell)?;
    let outbox = provider.outbox_metrics().await.map_err(tell)?;
    let undeliverable: Vec<Value> = outbox
        .examples
        .iter()
        .map(|message| {
            json!({"from": message.source, "to": message.target, "error": message.last_error})
        })
        .collect();
    format.print_facts(&[
        ("instances", json!(system.total_instances)),
        ("running", json!(system.running_instances)),
        ("completed", json!(system.completed_instances)),
        ("failed", json!(system.failed_instances)),
        ("executions", json!(system.total_executions)),
        ("events", json!(system.total_events)),
        ("orchestratorQueue", json!(queues.orchestrator_queue)),
        ("workerQueue", json!(queues.worker_queue)),
        ("undelivered", json!(outbox.pending)),
        ("undeliverable", json!(outbox.undeliverable)),
        ("undeliverableMessages", json!(undeliverable)),
    ])
}

#[cfg(test)]
mod tests {
    use duroxide::EventKind;

    use super::*;

    #[test]
    fn an_event_is_told_by_its_kind_and_what_is_its_own() {
        let kind = EventKind::ActivityCompleted { result: "a\u{1b}[31m".repeat(40) };
        let (value, cells) = event(&Event::with_event_id(3, "i", 1, Some(2), kind));
        assert_eq!(value["event_id"], 3);
        assert_eq!(
            (cells[0].as_str(), cells[2].as_str(), cells[3].as_str()),
            ("3", "ActivityCompleted", "2")
        );
        assert!(cells[4].starts_with("result: a"), "{}", cells[4]);
        assert!(!cells[4].contains('\u{1b}') && cells[4].ends_with('…'), "{}", cells[4]);
    }
}
