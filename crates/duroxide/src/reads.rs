//! What clients read of an instance beside its history: custom status, keys, statistics.

use std::collections::HashMap;

use duroxide::providers::ProviderError;
use duroxide::{Event, EventKind, SystemStats};

use crate::core::Core;
use crate::documents::{InstanceDocument, KeyValueDocument};
use crate::failure::Failure;
use crate::ids;
use crate::last_read::CustomStatus;
use crate::store::Scope;

const KEYS: &str = "SELECT * FROM c WHERE c.type = 'kv'";

impl Core {
    /// An instance that clients see.
    pub(crate) async fn visible_instance(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<Option<InstanceDocument>, ProviderError> {
        let there = self.read_instance(instance).await;
        let there = there.map_err(|failure| failure.tell(operation, instance))?;
        Ok(there.filter(InstanceDocument::is_visible))
    }

    /// The custom status, if it is newer than a version.
    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let status = match self.reads.take(instance, self.store.written()) {
            Some(status) => status,
            None => {
                custom_status(self.visible_instance("get_custom_status", instance).await?.as_ref())
            }
        };
        Ok(status.filter(|(_, version)| *version > last_seen))
    }

    /// The value of a key.
    pub(crate) async fn key_value(
        &self,
        instance: &str,
        key: &str,
    ) -> Result<Option<String>, ProviderError> {
        let tell = |failure: Failure| failure.tell("get_kv_value", instance);
        let id = ids::key_value(instance, key);
        let document: Option<KeyValueDocument> =
            self.store.read(instance, &id).await.map_err(tell)?;
        let Some(mut document) = document else { return Ok(None) };
        if document.staged.is_some() {
            let there = self.read_instance(instance).await.map_err(tell)?;
            document = document.committed_by(there.map_or(0, |there| there.turn));
        }
        Ok(document.current().and_then(|change| change.value.clone()))
    }

    /// All keys with their values.
    pub(crate) async fn key_values(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        let tell = |failure: Failure| failure.tell(operation, instance);
        let documents: Vec<KeyValueDocument> =
            self.store.documents(Scope::Partition(instance), KEYS, &[]).await.map_err(tell)?;
        let turn = match documents.iter().any(|document| document.staged.is_some()) {
            true => self.read_instance(instance).await.map_err(tell)?.map_or(0, |it| it.turn),
            false => 0,
        };
        let values = documents.into_iter().map(|document| document.committed_by(turn)).filter_map(
            |document| {
                let value = document.current()?.value.clone()?;
                Some((document.key, value))
            },
        );
        Ok(values.collect())
    }

    /// How large an instance is.
    pub(crate) async fn stats(&self, instance: &str) -> Result<Option<SystemStats>, ProviderError> {
        const OPERATION: &str = "get_instance_stats";
        let Some(there) = self.visible_instance(OPERATION, instance).await? else {
            return Ok(None);
        };
        let execution = Some(there.current_execution_id);
        let history = self.read_execution(OPERATION, instance, execution).await?;
        let values = self.key_values(OPERATION, instance).await?;
        let size = |event: &Event| serde_json::to_string(event).map_or(0, |text| text.len() as u64);
        Ok(Some(SystemStats {
            history_event_count: history.len() as u64,
            history_size_bytes: history.iter().map(size).sum(),
            queue_pending_count: carried_forward(&history),
            kv_user_key_count: values.len() as u64,
            kv_total_value_bytes: values.values().map(|value| value.len() as u64).sum(),
        }))
    }
}

/// The custom status of an instance, if clients see it.
pub(crate) fn custom_status(instance: Option<&InstanceDocument>) -> CustomStatus {
    let visible = instance.filter(|instance| instance.is_visible());
    visible.map(|there| (there.custom_status.clone(), there.custom_status_version))
}

/// How many messages the execution was started with.
fn carried_forward(history: &[Event]) -> u64 {
    let first = history.iter().find(|event| event.event_id() == 1);
    match first.map(|event| &event.kind) {
        Some(EventKind::OrchestrationStarted { carry_forward_events: Some(events), .. }) => {
            events.len() as u64
        }
        _ => 0,
    }
}
