//! Reads of clients and workers: histories, custom status, keys, statistics.

mod history;
mod last_read;
mod statistics;

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::ProviderError;

use crate::cache::ReplayCache;
use crate::context::Context;
use crate::documents::{InstanceDocument, KeyValueDocument};
use crate::failure::Failure;
use crate::ids;
use crate::last_fetch::LastFetches;
use crate::store::{Scope, Store};

const KEYS: &str = "SELECT * FROM c WHERE c.type = 'kv'";

pub(crate) use statistics::HistorySize;

use last_read::{CustomStatus, LastReads};

/// Reads what clients and workers ask for.
#[derive(Debug)]
pub(crate) struct Reader {
    store: Store,
    replays: Arc<ReplayCache>,
    /// The activities that workers of this process fetched last.
    fetches: Arc<LastFetches>,
    last_reads: LastReads,
}

impl Reader {
    pub(crate) fn new(context: &Context, fetches: Arc<LastFetches>) -> Self {
        let Context { store, replays, .. } = context.clone();
        Self { store, replays, fetches, last_reads: LastReads::default() }
    }

    /// Reads an instance that clients see.
    pub(crate) async fn visible_instance(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<Option<InstanceDocument>, ProviderError> {
        let there = self.store.read_instance(instance).await;
        let there = there.map_err(|failure| failure.tell(operation, instance))?;
        Ok(there.filter(InstanceDocument::is_visible))
    }

    /// Reads the custom status, if it is newer than a version.
    pub(crate) async fn custom_status(
        &self,
        instance: &str,
        last_seen: u64,
    ) -> Result<Option<(Option<String>, u64)>, ProviderError> {
        let status = match self.last_reads.take(instance, self.store.written()) {
            Some(status) => status,
            None => {
                custom_status(self.visible_instance("get_custom_status", instance).await?.as_ref())
            }
        };
        Ok(status.filter(|(_, version)| *version > last_seen))
    }

    /// Reads the value of a key.
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
            let there = self.store.read_instance(instance).await.map_err(tell)?;
            document = document.committed_by(there.map_or(0, |there| there.turn));
        }
        Ok(document.current().and_then(|change| change.value.clone()))
    }

    /// Reads all keys with their values.
    pub(crate) async fn key_values(
        &self,
        operation: &str,
        instance: &str,
    ) -> Result<HashMap<String, String>, ProviderError> {
        let tell = |failure: Failure| failure.tell(operation, instance);
        let documents: Vec<KeyValueDocument> =
            self.store.documents(Scope::Partition(instance), KEYS, &[]).await.map_err(tell)?;
        let turn = match documents.iter().any(|document| document.staged.is_some()) {
            true => self.store.read_instance(instance).await.map_err(tell)?.map_or(0, |it| it.turn),
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
}

/// The custom status of an instance, if clients see it.
fn custom_status(instance: Option<&InstanceDocument>) -> CustomStatus {
    let visible = instance.filter(|instance| instance.is_visible());
    visible.map(|there| (there.custom_status.clone(), there.custom_status_version))
}
