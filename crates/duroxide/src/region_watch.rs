//! Following the account while the provider runs: its write regions and its consistency.
//!
//! The driver refuses the requests of an unpinned provider by the same snapshot that it routes by, as soon as the account
//! takes writes in several regions. So none of them reaches a second region before the container is pinned.

use std::time::Duration;

use sidereal::Response;
use sidereal::prelude::*;
use sidereal_protocol::AccountProperties;

use crate::infrastructure::agree_on_region;
use crate::region::{AccountChange, RequestTerms, follow};
use crate::store::Store;
use crate::tasks::Tasks;

/// The least time between two reads of the account.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// Follows the account.
#[derive(Debug)]
pub(crate) struct AccountWatch {
    pub(crate) store: Store,
    pub(crate) tasks: Tasks,
}

impl AccountWatch {
    /// Follows the account until the provider ends. It is read at every interval, and at once after a request that the
    /// driver has not sent.
    pub(crate) async fn watch_account(
        self,
        client: CosmosClient,
        mut pinned: Option<RegionName>,
        interval: Duration,
    ) {
        let mut last_writer = None;
        loop {
            let _ = tokio::time::timeout(interval, self.store.request_was_not_sent()).await;
            let account = match client.read_account().await.and_then(Response::into_properties) {
                Ok(account) => account,
                Err(error) => {
                    tracing::debug!(%error, "the account is read later");
                    tokio::time::sleep(LEAST_INTERVAL).await;
                    continue;
                }
            };
            match follow(&account, pinned.as_ref(), last_writer.as_ref()) {
                AccountChange::GoOn => {
                    if pinned.is_none() {
                        last_writer = account.write_region().cloned();
                    }
                }
                AccountChange::Pin(region) => pinned = self.agree(&account, region).await,
                AccountChange::End(reason) => return self.end(&reason),
            }
            self.store.set_terms(match &pinned {
                Some(region) => RequestTerms::only_in(region, &account),
                None => RequestTerms::anywhere(&account),
            });
            tokio::time::sleep(LEAST_INTERVAL).await;
        }
    }

    /// Pins the container to a region, or to the one that another provider was faster to name. None if that has to be tried
    /// again; until then nothing is sent.
    async fn agree(&self, account: &AccountProperties, region: RegionName) -> Option<RegionName> {
        match agree_on_region(self.store.container(), account, region).await {
            Ok(region) => {
                tracing::warn!(%region, "the account takes writes in several regions: the container is pinned to one");
                Some(region)
            }
            Err(error) => {
                tracing::warn!(%error, "the account takes writes in several regions, and the container is not pinned yet");
                None
            }
        }
    }

    /// Sends nothing any more, and ends the tasks.
    fn end(&self, reason: &str) {
        tracing::error!(reason, "the provider ends");
        self.store.set_terms(RequestTerms::nothing());
        self.tasks.cancel();
    }
}
