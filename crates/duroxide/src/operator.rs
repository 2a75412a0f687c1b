//! Calls for operators that duroxide's traits do not have.

use duroxide::providers::ProviderError;

use crate::{CosmosDBProvider, InstanceSearch, InstanceSummary, OutboxMetrics};

impl CosmosDBProvider {
    /// Counts the messages between instances that are on their way, and names those that cannot be delivered.
    ///
    /// # Errors
    ///
    /// The container cannot be read.
    pub async fn outbox_metrics(&self) -> Result<OutboxMetrics, ProviderError> {
        self.core.outbox_metrics().await
    }

    /// Finds instances by what they are, the youngest first, with one query.
    ///
    /// # Errors
    ///
    /// The container cannot be read.
    pub async fn find_instances(
        &self,
        search: &InstanceSearch,
    ) -> Result<Vec<InstanceSummary>, ProviderError> {
        self.traced("find_instances", self.core.find_instances(search)).await
    }

    /// The slots of instances that this process looks after at present, of 256. All, before it has asked for work.
    pub async fn slots(&self) -> Vec<u8> {
        self.core.leases.process_slots().await
    }
}
