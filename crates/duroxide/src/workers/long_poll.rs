//! Long polls of workers.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::SessionFetchConfig;

use super::ActivityQueue;
use crate::activity_filter::WorkerTerms;
use crate::dispatch::{Claimed, ItemHint, Parked};
use crate::failure::{Cause, Failure};
use crate::long_poll::{Polled, long_poll};

/// A worker that polls for an activity.
struct ActivityPoll<'a> {
    activities: &'a Arc<ActivityQueue>,
    terms: WorkerTerms,
    session: Option<&'a SessionFetchConfig>,
}

impl ActivityQueue {
    /// Waits for an activity: one that is handed over, or one that a hint is about.
    pub(super) async fn wait_for_item(
        self: &Arc<Self>,
        terms: WorkerTerms,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
    ) -> Result<Option<Claimed>, Failure> {
        let lock_timeout = terms.lock_timeout;
        let poll = ActivityPoll { activities: self, terms, session };
        long_poll(&poll, &self.store, lock_timeout, poll_timeout).await
    }
}

impl Polled for ActivityPoll<'_> {
    type Ready = ItemHint;
    type Address = ItemHint;
    type Terms = WorkerTerms;
    type Locked = Claimed;
    type Error = Failure;

    fn next(&self) -> Result<ItemHint, Parked<WorkerTerms, Claimed>> {
        self.activities.dispatch.next_item(self.terms.clone())
    }

    fn address(hint: &ItemHint) -> ItemHint {
        hint.address()
    }

    async fn lock(&self, hint: ItemHint) -> Result<Option<Claimed>, Failure> {
        let (activities, session) = (Arc::clone(self.activities), self.session.cloned());
        let lock_timeout = self.terms.lock_timeout;
        let claim =
            async move { activities.claim_hinted(hint, lock_timeout, session.as_ref()).await };
        let give_back = self.activities.give_back_later();
        self.activities.tasks.run_detached(give_back, Box::pin(claim)).await
    }

    fn is_transient(failure: &Failure) -> bool {
        failure.cause == Cause::Transient
    }

    fn try_again(&self, hint: ItemHint) {
        let now = self.activities.store.now();
        self.activities.dispatch.item_enqueued(hint, now, now);
    }

    fn locked_until(claimed: &Claimed) -> i64 {
        claimed.locked_until
    }

    fn give_back(&self, claimed: Box<Claimed>) {
        self.activities.give_back(claimed);
    }
}
