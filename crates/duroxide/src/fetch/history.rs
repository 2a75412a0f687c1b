//! The history that a turn is replayed from.

use std::sync::Arc;

use serde_json::{Value, json};

use super::TurnFetcher;
use crate::cache::Replay;
use crate::documents::{InstanceDocument, KeyValueDocument, kinds};
use crate::failure::Failure;
use crate::store::Scope;
use crate::telemetry::Occurrence;

/// The events of an execution, and the keys of the instance.
const HISTORY: &str = "SELECT * FROM c WHERE (c.type = 'history' AND c.executionId = @execution) \
     OR (c.type = 'kv' AND @keys)";

/// The keys of an instance whose history is known, if they are known too.
fn known_keys(replay: &Replay, has_keys: bool) -> Option<Arc<Vec<KeyValueDocument>>> {
    match has_keys {
        false => Some(Arc::default()),
        true => replay.key_values.clone(),
    }
}

/// The history and the keys of an instance. The history is an error if an event cannot be decoded.
pub(super) struct Read {
    pub(super) replay: Result<Replay, String>,
    pub(super) key_values: Arc<Vec<KeyValueDocument>>,
}

impl TurnFetcher {
    /// Reads the history of the current execution and the keys, unless they are cached.
    pub(super) async fn read_history_and_keys(
        &self,
        instance: &InstanceDocument,
    ) -> Result<Read, Failure> {
        let has_keys = instance.key_values > 0;
        if instance.turn == 0 && instance.revision == 0 && !has_keys {
            let replay = Ok(Replay::new(Vec::new(), 0, Some(Arc::default())));
            return Ok(Read { replay, key_values: Arc::default() });
        }
        if let Some(replay) = self.replays.get(instance)
            && let Some(key_values) = known_keys(&replay, has_keys)
        {
            self.store.telemetry.occurred(Occurrence::HistoryCached);
            return Ok(Read { key_values, replay: Ok(replay) });
        }
        self.store.telemetry.occurred(Occurrence::HistoryRead);
        let parameters =
            [("@execution", json!(instance.current_execution_id)), ("@keys", json!(has_keys))];
        let partition = Scope::Partition(&instance.instance_id);
        let rows: Vec<Value> = self.store.brief().values(partition, HISTORY, &parameters).await?;
        let (events, keys): (Vec<Value>, Vec<Value>) =
            rows.into_iter().partition(|row| row["type"] == kinds::HISTORY);
        let history = self.store.decode_history(instance, events).await?;
        let committed = |document: KeyValueDocument| document.committed_by(instance.turn);
        let key_values: Vec<KeyValueDocument> =
            keys.into_iter().filter_map(|row| self.store.readable(row)).map(committed).collect();
        let key_values = Arc::new(key_values);
        let replay = history.map(|(history, bytes)| {
            let replay = Replay::new(history, bytes, Some(Arc::clone(&key_values)));
            self.replays.put(instance, replay.clone());
            replay
        });
        Ok(Read { replay, key_values })
    }
}
