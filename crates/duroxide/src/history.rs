//! Reading events and the parts of large payloads.

use duroxide::Event;
use duroxide::providers::ProviderError;
use serde_json::{Value, json};

use crate::ack::{event_document, replaced};
use crate::cache::Replay;
use crate::core::Core;
use crate::documents::{HistoryDocument, InstanceDocument, PartDocument, Payload};
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::reads::custom_status;
use crate::store::Scope;
use crate::write::{self, Write};

const EVENTS: &str = "SELECT * FROM c WHERE c.type = 'history' AND c.executionId = @execution";
const PARTS: &str = "SELECT * FROM c WHERE c.type = 'part' AND c.owner = @owner";

impl Core {
    /// A payload's text, with its parts.
    pub(crate) async fn text_of(
        &self,
        partition: &str,
        owner: &str,
        payload: &Payload,
    ) -> Result<String, Failure> {
        let count = match payload {
            Payload::Inline(text) => return Ok(text.clone()),
            Payload::Parts { parts } => *parts,
        };
        let mut parts: Vec<PartDocument> = self
            .store
            .documents(Scope::Partition(partition), PARTS, &[("@owner", json!(owner))])
            .await?;
        parts.sort_by_key(|part| part.number);
        parts.truncate(count);
        // A part that is missing makes a text that is no JSON, which whoever decodes it tells.
        Ok(parts.into_iter().map(|part| part.data).collect())
    }

    /// The committed events among documents, in order, and how long they are as text; a sentence if one cannot be
    /// read.
    pub(crate) async fn decode_history(
        &self,
        instance: &InstanceDocument,
        rows: Vec<Value>,
    ) -> Result<Result<(Vec<Event>, usize), String>, Failure> {
        let mut documents = Vec::with_capacity(rows.len());
        for row in rows {
            let id = row["id"].as_str().unwrap_or_default().to_owned();
            match serde_json::from_value::<HistoryDocument>(row) {
                Ok(document) if instance.has_committed(document.staged_turn) => {
                    documents.push(document);
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(format!("the event {id} cannot be read: {error}"))),
            }
        }
        documents.sort_by_key(|document| document.event_id);
        let (mut events, mut bytes) = (Vec::with_capacity(documents.len()), 0);
        for document in documents {
            let text =
                self.text_of(&document.instance_id, &document.id, &document.event_data).await?;
            bytes += text.len();
            match serde_json::from_str(&text) {
                Ok(event) => events.push(event),
                Err(error) => {
                    return Ok(Err(format!("the event {} cannot be read: {error}", document.id)));
                }
            }
        }
        Ok(Ok((events, bytes)))
    }

    /// The history of the current execution. A worker that has just fetched an activity of the instance gets it as of the
    /// fetch, without a request: the runtime reads it then for the name of the orchestration.
    pub(crate) async fn read(&self, instance: &str) -> Result<Vec<Event>, ProviderError> {
        if let Some(seen) = self.fetches.take_seen(instance)
            && let Some(history) = self.replays.history_since(instance, &seen)
        {
            return Ok(history.as_ref().clone());
        }
        let operation = "read";
        let there = self.read_instance(instance).await;
        let there = there.map_err(|failure| failure.tell(operation, instance))?;
        let latest = there.as_ref().filter(|it| !it.is_deleting);
        let latest = latest.and_then(|there| self.replays.latest(there));
        let status = latest.as_ref().and_then(|latest| latest.instance.as_ref()).or(there.as_ref());
        self.reads.note(instance, custom_status(status), self.store.written());
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
        let there = self.read_instance(instance).await;
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
        let events = self.decode_history(&document, rows).await.map_err(tell)?;
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
            let (document, parts) = event_document(instance, execution, event)
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
            let Some(mut there) = self.read_instance(instance).await? else { return Ok(()) };
            there.revision += 1;
            match self.store.write(instance, &[replaced(&there)], until).await {
                Ok(_) => return Ok(()),
                // Somebody changed it meanwhile.
                Err(failure)
                    if failure.cause == Cause::PreconditionFailed && self.store.now() < until => {}
                Err(failure) => return Err(failure),
            }
        }
    }
}
