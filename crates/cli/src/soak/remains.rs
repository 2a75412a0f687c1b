//! Reads the container after a run: instances with their histories, and leftovers.
//!
//! Histories and outputs come from the provider, as a client sees them; the rest is read from the documents
//! (`docs/provider-data-model.md`).

use std::sync::Arc;

use duroxide::Event;
use duroxide::providers::{Provider, ProviderAdmin, ProviderError};
use serde::Deserialize;
use serde_json::Value;
use sidereal::{ContainerClient, CosmosClient};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};

use super::names::DATABASE;
use crate::failure::{ExitStatus, Failure};

/// The documents that wait for a dispatcher, a worker or a delivery.
const WAITING: [&str; 3] = ["orch_queue", "worker_queue", "outbox_intent"];

/// The documents that stay.
const LASTING: [&str; 8] =
    ["instance", "execution", "history", "part", "kv", "tombstone", "schema", "leases"];

/// An instance, as its own document tells it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InstanceRow {
    pub(super) instance_id: String,
    pub(super) status: String,
    pub(super) current_execution_id: u64,
    pub(super) turn: u64,
    pub(super) completed_at: Option<u64>,
    pub(super) lock_token: Option<String>,
    pub(super) staging_turn: Option<u64>,
    pub(super) cleanup: Vec<Value>,
}

impl InstanceRow {
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "Completed" | "Failed")
    }
}

/// An instance with its histories.
#[derive(Clone, Debug)]
pub(super) struct FoundInstance {
    pub(super) row: InstanceRow,
    pub(super) output: Option<String>,
    /// The events of each execution, from the first on.
    pub(super) executions: Vec<Vec<Event>>,
}

/// A document that may be a leftover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DocumentRow {
    pub(super) id: String,
    pub(super) instance_id: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Of a part of a payload: the document that it belongs to.
    pub(super) owner: Option<String>,
}

/// The container of a run, as its client reads it.
pub(super) struct Remains {
    container: ContainerClient,
    provider: Arc<CosmosDBProvider>,
}

impl Remains {
    pub(super) fn new(client: &CosmosClient, provider: &Arc<CosmosDBProvider>) -> Self {
        // The provider's default.
        let id = CosmosDBProviderConfig::with_client(client.clone()).container;
        let container = client.database(DATABASE).container(&id);
        Self { container, provider: Arc::clone(provider) }
    }

    /// How many instances have ended.
    pub(super) async fn ended(&self) -> Result<usize, Failure> {
        let text = "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'instance' AND c.status IN ('Completed', 'Failed')";
        self.count(text).await
    }

    /// How many documents wait for a dispatcher, a worker or a delivery.
    pub(super) async fn waiting(&self) -> Result<usize, Failure> {
        // By equality, so that the index of types serves it.
        let kinds = WAITING.map(|kind| format!("'{kind}'")).join(", ");
        self.count(&format!("SELECT VALUE COUNT(1) FROM c WHERE c.type IN ({kinds})")).await
    }

    async fn count(&self, text: &str) -> Result<usize, Failure> {
        Ok(self.container.query(text).first::<usize>().await?.unwrap_or_default())
    }

    /// All instances.
    pub(super) async fn instances(&self) -> Result<Vec<InstanceRow>, Failure> {
        let text = "SELECT c.instanceId, c.status, c.currentExecutionId, c.turn, c.completedAt, c.lockToken, \
            c.stagingTurn, c.cleanup FROM c WHERE c.type = 'instance'";
        Ok(self.container.query(text).items().collect().await?)
    }

    /// The histories and the output of an instance.
    pub(super) async fn instance(&self, row: InstanceRow) -> Result<FoundInstance, ProviderError> {
        let mut executions = Vec::new();
        for execution in 1..=row.current_execution_id {
            executions.push(self.provider.read_with_execution(&row.instance_id, execution).await?);
        }
        // One that no turn has named yet is not there for clients.
        let output = match row.has_ended() {
            true => self.provider.get_instance_info(&row.instance_id).await?.output,
            false => None,
        };
        Ok(FoundInstance { row, output, executions })
    }

    /// The documents that may be leftovers: those of the queues, and the parts of payloads.
    pub(super) async fn documents(&self) -> Result<Vec<DocumentRow>, Failure> {
        let text = "SELECT c.id, c.instanceId, c.type, c.owner FROM c \
            WHERE c.type = 'part' OR NOT ARRAY_CONTAINS(@lasting, c.type)";
        let query = self.container.query(text).with_parameter("@lasting", LASTING);
        Ok(query.items().collect().await?)
    }

    /// All documents of an instance, for people.
    pub(super) async fn all_of(&self, instance: &str) -> Result<Vec<Value>, Failure> {
        let query = self.container.query("SELECT * FROM c").with_partition_key(instance);
        Ok(query.items().collect().await?)
    }
}

/// An error of the provider as a failure of the command.
pub(super) fn unreadable(error: &ProviderError) -> Failure {
    Failure::of(ExitStatus::Failed, error)
}
