//! What every call of the provider works with.

use std::sync::Arc;
use std::time::Duration;

use sidereal::Response;
use sidereal::prelude::*;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::held::{HeldItems, HeldTurns};
use crate::outbox::Undelivered;
use crate::region::RequestTerms;
use crate::store::Store;

/// The state of a provider. Calls are in the modules named after them.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) turns: HeldTurns,
    pub(crate) items: HeldItems,
    /// Told when a message or an activity was enqueued by this process: a hint, and nothing rests on it.
    pub(crate) enqueued: Notify,
    /// Messages to other instances that could not be delivered yet.
    pub(crate) undelivered: Undelivered,
    pub(crate) poll: PollSettings,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

/// How a fetch waits for work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSettings {
    /// Looks once, whatever time it is given.
    pub(crate) is_short: bool,
    /// How long it waits between two looks.
    pub(crate) interval: Duration,
}

impl Core {
    /// Runs something beside the calls, until it is done or the provider is shut down.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Keeps requests in their region when others are added to the account. If the region leaves the account, the
    /// provider ends: elsewhere the same locks could be granted again.
    pub(crate) async fn watch_regions(
        self: Arc<Self>,
        client: CosmosClient,
        region: RegionName,
        interval: Duration,
    ) {
        loop {
            tokio::time::sleep(interval).await;
            let account = match client.read_account().await.and_then(Response::into_properties) {
                Ok(account) => account,
                Err(error) => {
                    tracing::debug!(%error, "the regions of the account are read later");
                    continue;
                }
            };
            if !account.writable_locations.iter().any(|it| it.name == region) {
                tracing::error!(%region, "the region of the container has left the account: the provider ends");
                self.store.set_terms(RequestTerms::nothing());
                self.shutdown.cancel();
                return;
            }
            self.store.set_terms(RequestTerms::only_in(&region, &account));
        }
    }

    /// How a fetch waits from one look to the next, until its time is over.
    pub(crate) fn polling(&self, timeout: Duration) -> Polling<'_> {
        Polling { core: self, end: tokio::time::Instant::now() + timeout }
    }
}

/// The time of one fetch.
#[derive(Debug)]
pub(crate) struct Polling<'a> {
    core: &'a Core,
    end: tokio::time::Instant,
}

impl Polling<'_> {
    /// Waits for the next look; false if there is none. The notice is asked for before the last look: what is
    /// enqueued during it must not be missed.
    pub(crate) async fn wait(&self, enqueued: Notified<'_>) -> bool {
        let now = tokio::time::Instant::now();
        if self.core.poll.is_short || now >= self.end {
            return false;
        }
        let next = (now + self.core.poll.interval).min(self.end);
        tokio::select! {
            () = enqueued => {}
            () = tokio::time::sleep_until(next) => {}
        }
        true
    }
}
