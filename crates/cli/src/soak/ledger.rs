//! The ledger: every run of an activity writes that it began, and that it ended.
//!
//! It is a container beside the orchestrations'. Activities run at least once; the ledger counts their runs.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sidereal::models::{ContainerProperties, PartitionKeyDefinition};
use sidereal::{ContainerClient, CosmosClient, ErrorKind};

use super::names::DATABASE;
use crate::failure::{ExitStatus, Failure};

const CONTAINER: &str = "ledger";

/// Between two tries of a write, while the emulator is down.
const PAUSE: Duration = Duration::from_millis(50);

/// A run of an activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) instance: String,
    /// As duroxide counts them: from 1.
    pub(super) execution: u64,
    /// The name of the activity within its instance.
    pub(super) name: String,
    /// Counted from 1.
    pub(super) attempt: u32,
    /// The process that ran it.
    pub(super) worker: String,
    /// Tells the runs of one activity apart, so that a create whose response was lost is recognised.
    pub(super) nonce: String,
    /// Milliseconds since 1970.
    pub(super) started_at: u64,
    #[serde(default)]
    pub(super) ended_at: Option<u64>,
}

/// The container of the entries.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    container: ContainerClient,
}

/// An activity that begins a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beginning<'a> {
    pub(super) instance: &'a str,
    pub(super) execution: u64,
    pub(super) name: &'a str,
    pub(super) worker: &'a str,
}

impl Ledger {
    pub(super) fn of(client: &CosmosClient) -> Self {
        Self { container: client.database(DATABASE).container(CONTAINER) }
    }

    /// Creates the container, in a database that is there.
    pub(super) async fn create(client: &CosmosClient) -> Result<Self, Failure> {
        let key = PartitionKeyDefinition::new(["/instance"])
            .map_err(|error| Failure::of(ExitStatus::Defect, &error))?;
        let properties = ContainerProperties::new(CONTAINER, key);
        client.database(DATABASE).create_container(properties, None).await?;
        Ok(Self::of(client))
    }

    /// Notes that a run of an activity begins, under the first number that is free. Ends when it is noted.
    pub(super) async fn begin(&self, beginning: &Beginning<'_>) -> Entry {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let mut entry = entry(beginning, &nonce, 1);
        loop {
            let created = self.container.create_item(&entry.instance, &entry, None).await;
            match created {
                Ok(_) => return entry,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    match self.read(&entry).await {
                        // Created by an attempt whose response was lost.
                        Some(there) if there.nonce == nonce => return there,
                        Some(_) => entry = self::entry(beginning, &nonce, entry.attempt + 1),
                        None => tokio::time::sleep(PAUSE).await,
                    }
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Notes that a run has ended. Ends when it is noted.
    pub(super) async fn end(&self, mut entry: Entry) {
        entry.ended_at = Some(now());
        loop {
            let replaced = self.container.replace_item(&entry.instance, &entry.id, &entry, None);
            match replaced.await {
                Ok(_) => return,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn read(&self, entry: &Entry) -> Option<Entry> {
        let response = self.container.read_item(&entry.instance, &entry.id, None).await;
        response.ok()?.into_model().ok()
    }

    /// All entries, those of an activity side by side in the order of their attempts.
    pub(super) async fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let mut entries: Vec<Entry> =
            self.container.query("SELECT * FROM c").items().collect().await?;
        entries.sort_by(|one, other| one.order().cmp(&other.order()));
        Ok(entries)
    }
}

impl Entry {
    /// The activity that it is a run of.
    pub(super) fn activity(&self) -> (&str, u64, &str) {
        (&self.instance, self.execution, &self.name)
    }

    fn order(&self) -> (&str, u64, &str, u32) {
        (&self.instance, self.execution, &self.name, self.attempt)
    }
}

fn entry(beginning: &Beginning<'_>, nonce: &str, attempt: u32) -> Entry {
    let Beginning { instance, execution, name, worker } = *beginning;
    Entry {
        id: format!("{execution}:{name}:{attempt}"),
        instance: instance.to_owned(),
        execution,
        name: name.to_owned(),
        attempt,
        worker: worker.to_owned(),
        nonce: nonce.to_owned(),
        started_at: now(),
        ended_at: None,
    }
}

/// Milliseconds since 1970: all processes are on one machine.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
