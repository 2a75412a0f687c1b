//! Histories, as clients and workers read them.

use duroxide::Event;
use duroxide::providers::ProviderError;
use serde_json::json;

use super::{Reader, custom_status};
use crate::cache::Replay;
use crate::documents::{HistoryDocument, InstanceDocument};
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::store::Scope;
use crate::write::{self, Write};

const EVENTS: &str = "SELECT * FROM c WHERE c.type = 'history' AND c.executionId = @execution";

impl Reader {
    /// The history of the current execution. A worker that has just fetched an activity of the instance gets it as of the
    /// fetch, without a request: the runtime reads it then for the name of the orchestration.
    pub(crate) async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        if let Some(seen) = self.fetches.take_seen(instance)
            && let Some(history) = self.replays.history_since(instance, &seen)
        {
            return Ok(history.as_ref().clone());
        }
        let operation = "read";
        let there = self.store.read_instance(instance).await;
        let there = there.map_err(|failure| failure.tell(operation, instance))?;
        let latest = there.as_ref().filter(|it| !it.is_deleting);
        let latest = latest.and_then(|there| self.replays.latest(there));
        let status = latest.as_ref().and_then(|latest| latest.instance.as_ref()).or(there.as_ref());
        self.last_reads.note(instance, custom_status(status), self.store.written());
        match latest {
            Some(latest) => Ok(latest.history.as_ref().clone()),
            None => self.history_of(operation, there, None).await,
        }
    }

    /// The history of an execution; empty if there is none.
    pub(crate) async fn read_execution(
        &self,
        operation: &str,
        instance: &str,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let there = self.store.read_instance(instance).await;
        let there = there.map_err(|failure| failure.tell(operation, instance))?;
        self.history_of(operation, there, execution).await
    }

    /// The history of an execution of an instance as it was read.
    async fn history_of(
        &self,
        operation: &str,
        instance: Option<InstanceDocument>,
        execution: Option<u64>,
    ) -> Result<Vec<Event>, ProviderError> {
        let has_history =
            |it: &InstanceDocument| !it.is_deleting && (it.turn, it.revision) != (0, 0);
        let Some(document) = instance.filter(has_history) else { return Ok(Vec::new()) };
        let instance = document.instance_id.as_str();
        let tell = |failure: Failure| failure.tell(operation, instance);
        let is_current = execution.is_none_or(|it| it == document.current_execution_id);
        if is_current && let Some(replay) = self.replays.get(&document) {
            return Ok(replay.history.as_ref().clone());
        }
        let execution = execution.unwrap_or(document.current_execution_id);
        let rows = self
            .store
            .values(Scope::Partition(instance), EVENTS, &[("@execution", json!(execution))])
            .await
            .map_err(tell)?;
        let events = self.store.decode_history(&document, rows).await.map_err(tell)?;
        let (events, bytes) =
            events.map_err(|sentence| ProviderError::permanent(operation, sentence))?;
        if is_current && document.turn > 0 {
            self.replays.put(&document, Replay::new(events.clone(), bytes, None));
        }
        Ok(events)
    }

    /// Adds events to an execution. One whose id is taken refuses them all.
    pub(crate) async fn append(
        &self,
        instance: &str,
        execution: u64,
        events: &[Event],
    ) -> Result<(), ProviderError> {
        const OPERATION: &str = "append_with_execution";
        ids::check_instances(OPERATION, [instance])?;
        let mut writes = Vec::new();
        for event in events {
            let (document, parts) = HistoryDocument::of(instance, execution, event)
                .map_err(|sentence| ProviderError::permanent(OPERATION, sentence))?;
            writes.extend(parts.iter().map(|part| Write::upsert(&part.id, part)));
            writes.push(Write::create(&document.id, &document));
        }
        let until = self.store.now().saturating_add(crate::PATIENCE_MS);
        let tell = |failure: Failure| match failure.cause {
            Cause::Conflict => ProviderError::permanent(
                OPERATION,
                format!("{instance}: an event of the id is there"),
            ),
            _ => failure.tell(OPERATION, instance),
        };
        for chunk in write::chunks(writes, 0) {
            self.store.write(instance, &chunk, until).await.map_err(tell)?;
        }
        self.advance_revision(instance, until).await.map_err(tell)
    }

    /// Has everybody read an instance's history again.
    async fn advance_revision(&self, instance: &str, until: i64) -> Result<(), Failure> {
        loop {
            let Some(mut there) = self.store.read_instance(instance).await? else { return Ok(()) };
            there.revision += 1;
            match self.store.write(instance, &[Write::replace_instance(&there)], until).await {
                Ok(_) => return Ok(()),
                // Another process changed it meanwhile.
                Err(failure)
                    if failure.cause == Cause::PreconditionFailed && self.store.now() < until => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}
