//! How a worker gets an activity: handed over, by a hint, or by asking the container.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, SessionFetchConfig, TagFilter, WorkItem};
use serde_json::{Value, json};

use super::ActivityQueue;
use crate::activity_filter::{ActivityFilter, WorkerTerms};
use crate::dispatch::Claimed;
use crate::documents::WorkerDocument;
use crate::failure::Failure;
use crate::leases::{ALL_SLOTS, Slots, caller_id};
use crate::sessions::SessionClaim;
use crate::store::Scope;

const FETCH: &str = "fetch_work_item";

/// How many candidates are read at once.
const CANDIDATE_PAGE: u32 = 50;

/// A fetched activity: the item, the lock token, the number of attempts.
type FetchedItem = (WorkItem, String, u32);

impl ActivityQueue {
    /// Fetches an activity.
    pub(crate) async fn fetch_item(
        self: &Arc<Self>,
        lock_timeout: Duration,
        poll_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<FetchedItem>, ProviderError> {
        if matches!(tags, TagFilter::None) {
            return Ok(None);
        }
        let owner = session.map(|session| session.owner_id.clone());
        let terms = WorkerTerms { tags: tags.clone(), owner, lock_timeout };
        let is_short = poll_timeout.is_zero() || self.is_short_poll;
        let found = match is_short {
            true => self.look_for_item_in_slots(lock_timeout, session, tags).await,
            false => self.wait_for_item(terms.clone(), poll_timeout, session).await,
        };
        let found = found.map_err(|failure| failure.tell(FETCH, "candidates"))?;
        Ok(found.map(|claimed| {
            let Claimed { work_item, token, attempts, instance, seen, .. } = claimed;
            if !is_short {
                self.fetches.note(&token, &instance, seen, terms);
            }
            (work_item, token, attempts)
        }))
    }

    /// Looks once: with short polls in the slots of the worker first, then everywhere.
    async fn look_for_item_in_slots(
        self: &Arc<Self>,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
    ) -> Result<Option<Claimed>, Failure> {
        if self.is_short_poll {
            let slots = self.leases.acquire_slots(caller_id()).await;
            let slots: Slots = slots.into_iter().collect();
            if !slots.is_all()
                && let Some(item) = self.look_for_item(lock_timeout, session, tags, slots).await?
            {
                return Ok(Some(item));
            }
        }
        self.look_for_item(lock_timeout, session, tags, ALL_SLOTS).await
    }

    async fn look_for_item(
        self: &Arc<Self>,
        lock_timeout: Duration,
        session: Option<&SessionFetchConfig>,
        tags: &TagFilter,
        slots: Slots,
    ) -> Result<Option<Claimed>, Failure> {
        let filter = ActivityFilter::of(tags, session.is_some());
        let (is_free, [lock_time, gone]) =
            self.processes.lock_view(self.store.lock_time()).is_free();
        let text = candidates(&filter, slots, is_free);
        let parameters = [
            ("@now", json!(self.store.now())),
            lock_time,
            gone,
            ("@tags", json!(filter.tags())),
            ("@slots", json!(slots.to_vec())),
        ];
        let page_size = Some(CANDIDATE_PAGE);
        let mut pages = self.store.pages::<Value>(Scope::Everything, &text, &parameters, page_size);
        let mut taken_sessions = HashSet::new();
        while let Some(page) = pages.next().await {
            let rows = page?.into_items();
            let readable = rows.into_iter().filter_map(|row| self.store.readable(row));
            let mut items: Vec<WorkerDocument> = readable.collect();
            items.sort_by(|one, other| one.order().cmp(&other.order()));
            for item in items {
                let is_taken =
                    item.session_id.as_ref().is_some_and(|id| taken_sessions.contains(id));
                if is_taken || !self.is_committed(&item).await? {
                    continue;
                }
                if let (Some(id), Some(config)) = (&item.session_id, session)
                    && self.sessions.claim_session(id, config).await? != SessionClaim::Claimed
                {
                    taken_sessions.insert(id.clone());
                    continue;
                }
                let activities = Arc::clone(self);
                let claim = async move { activities.claim_item(item, lock_timeout).await };
                if let Some(claimed) =
                    self.tasks.run_detached(self.give_back_later(), Box::pin(claim)).await?
                {
                    return Ok(Some(claimed));
                }
            }
        }
        Ok(None)
    }
}

/// The query for activities that wait.
fn candidates(filter: &ActivityFilter, slots: Slots, is_free: &str) -> String {
    let mut text = format!(
        "SELECT * FROM c WHERE c.type = 'worker_queue' AND c.visibleAt <= @now AND {is_free}"
    );
    if !slots.is_all() {
        text.push_str(" AND ARRAY_CONTAINS(@slots, c.dispatchSlot)");
    }
    text.push_str(&filter.condition());
    text.push_str(" ORDER BY c.enqueuedAt");
    text
}
