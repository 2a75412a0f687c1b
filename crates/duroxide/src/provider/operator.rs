//! Calls for operators that duroxide's traits do not have.

use duroxide::providers::ProviderError;

use super::CosmosDBProvider;
use crate::{InstanceSearch, InstanceSummary, OutboxMetrics, RetriedMessages};

impl CosmosDBProvider {
    /// Counts the messages between instances that wait for delivery or are undeliverable, and names the latter.
    ///
    /// # Errors
    ///
    /// [`ProviderError`] if the container cannot be read; `is_retryable` tells whether to repeat the call.
    pub async fn outbox_metrics(&self) -> Result<OutboxMetrics, ProviderError> {
        self.parts.admin.outbox_metrics().await
    }

    /// Makes undeliverable messages pending again, so that they are delivered with the next pending ones.
    ///
    /// Call it once the cause is removed: a message that the service refuses again becomes undeliverable again. A call
    /// changes at most 10,000 messages. Messages older than seven days stay undeliverable: see [`RetriedMessages::too_old`].
    ///
    /// # Errors
    ///
    /// [`ProviderError`] if the container cannot be read, or a message cannot be changed. Others may have been changed; the call can
    /// be repeated.
    pub async fn retry_undeliverable(&self) -> Result<RetriedMessages, ProviderError> {
        self.traced("retry_undeliverable", self.parts.admin.retry_undeliverable()).await
    }

    /// Finds instances by status, orchestration and id prefix, the youngest first, with one query.
    ///
    /// # Errors
    ///
    /// [`ProviderError`] if the container cannot be read; `is_retryable` tells whether to repeat the call.
    pub async fn find_instances(
        &self,
        search: &InstanceSearch,
    ) -> Result<Vec<InstanceSummary>, ProviderError> {
        self.traced("find_instances", self.parts.admin.find_instances(search)).await
    }

    /// The slots, of 256, that this process holds; all of them before it has asked for work.
    pub async fn slots(&self) -> Vec<u8> {
        self.leases.process_slots().await
    }
}
