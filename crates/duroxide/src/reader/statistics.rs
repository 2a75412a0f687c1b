//! Statistics of instances and executions, by aggregate queries: a history is not read to be counted.

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};
use serde::Deserialize;
use serde_json::json;

use super::Reader;
use crate::documents::{HistoryDocument, InstanceDocument};
use crate::failure::Failure;
use crate::ids;
use crate::store::Scope;

/// The committed events of an execution. Events of an earlier layout have no `eventBytes`: of these, characters are counted.
const SIZE: &str = "SELECT COUNT(1) AS events, SUM(c.eventBytes ?? LENGTH(c.eventData)) AS bytes FROM c \
     WHERE c.type = 'history' AND c.executionId = @execution \
     AND (NOT IS_DEFINED(c.stagedTurn) OR c.stagedTurn <= @turn)";

/// The event that begins an execution.
const FIRST_EVENT: u64 = 1;

/// The size of a history: its events, and the bytes of their JSON in UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct HistorySize {
    pub(crate) events: u64,
    #[serde(default)]
    pub(crate) bytes: u64,
}

impl Reader {
    /// The size of an execution's history. Events of a turn that is not committed are not counted.
    pub(crate) async fn history_size(
        &self,
        instance: &InstanceDocument,
        execution: u64,
    ) -> Result<HistorySize, Failure> {
        if execution == instance.current_execution_id
            && let Some(replay) = self.replays.get(instance)
        {
            let (events, bytes) = (replay.history.len() as u64, replay.history_bytes() as u64);
            return Ok(HistorySize { events, bytes });
        }
        let parameters = [("@execution", json!(execution)), ("@turn", json!(instance.turn))];
        let partition = Scope::Partition(&instance.instance_id);
        let found: Vec<HistorySize> = self.store.values(partition, SIZE, &parameters).await?;
        Ok(found.first().copied().unwrap_or_default())
    }

    /// The sizes of an instance: its current history, the messages it was started with, and its keys.
    pub(crate) async fn stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        const OPERATION: &str = "get_instance_stats";
        let Some(there) = self.visible_instance(OPERATION, instance).await? else {
            return Ok(None);
        };
        let size = self.history_size(&there, there.current_execution_id).await;
        let size = size.map_err(|failure| failure.tell(OPERATION, instance))?;
        let first = self.first_event(OPERATION, &there).await?;
        let values = self.key_values(OPERATION, instance).await?;
        Ok(Some(SystemStats {
            history_event_count: size.events,
            history_size_bytes: size.bytes,
            queue_pending_count: first.as_ref().map_or(0, carried_forward),
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
        }))
    }

    /// The event that the current execution began with.
    async fn first_event(
        &self,
        operation: &str,
        instance: &InstanceDocument,
    ) -> Result<Option<Event>, ProviderError> {
        if let Some(replay) = self.replays.get(instance) {
            let first = replay.history.iter().find(|event| event.event_id() == FIRST_EVENT);
            return Ok(first.cloned());
        }
        let partition = instance.instance_id.as_str();
        let tell = |failure: Failure| failure.tell(operation, partition);
        let id = ids::history(partition, instance.current_execution_id, FIRST_EVENT);
        let document: Option<HistoryDocument> =
            self.store.read(partition, &id).await.map_err(tell)?;
        let committed = document.filter(|it| instance.has_committed(it.staged_turn));
        let Some(document) = committed else { return Ok(None) };
        let text = self.store.text_of(partition, &id, &document.event_data).await.map_err(tell)?;
        serde_json::from_str(&text).map(Some).map_err(|error| {
            let sentence = format!("the event {id} cannot be read: {error}");
            ProviderError::permanent(operation, sentence)
        })
    }
}

/// How many messages an execution was started with, by its first event.
fn carried_forward(first: &Event) -> u64 {
    match &first.kind {
        EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. } => {
            events.len() as u64
        }
        _ => 0,
    }
}
