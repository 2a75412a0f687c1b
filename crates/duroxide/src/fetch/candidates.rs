//! One look at the container for a turn: without a long poll, or with short polls.

use std::collections::HashSet;
use std::sync::Arc;

use duroxide::providers::{DispatcherCapabilityFilter, ProviderError};
use serde::Deserialize;
use serde_json::json;

use super::TurnFetcher;
use super::run::OPERATION;
use crate::failure::Failure;
use crate::leases::{ALL_SLOTS, Slots, caller_id};
use crate::store::Scope;
use crate::turn::{Asked, LockedTurn, is_supported};

/// Instances with messages that are due.
const CANDIDATES: &str = "SELECT c.instanceId FROM c WHERE c.type = 'orch_queue' AND c.visibleAt <= @now \
     AND (NOT IS_DEFINED(c.retryAt) OR c.retryAt <= @now) AND ";

/// How many candidates are read at once.
const CANDIDATE_PAGE: u32 = 100;

/// After so many candidates that cannot be fetched, the others are asked for their states at once, page by page: a
/// crowd of locked instances must not cost a request each.
const BLOCKED_IN_A_ROW: usize = 3;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    instance_id: String,
}

impl TurnFetcher {
    /// Looks once: with short polls in the slots of the dispatcher first, then everywhere. A runtime never gives
    /// slots back, so some may have no owner.
    pub(super) async fn look_for_turn_in_slots(
        self: &Arc<Self>,
        asked: Asked<'_>,
    ) -> Result<Option<LockedTurn>, ProviderError> {
        if self.is_short_poll {
            let slots = self.leases.acquire_slots(caller_id()).await;
            let slots: Slots = slots.into_iter().collect();
            if !slots.is_all()
                && let Some(turn) = self.look_for_turn(asked, slots).await?
            {
                return Ok(Some(turn));
            }
        }
        self.look_for_turn(asked, ALL_SLOTS).await
    }

    async fn look_for_turn(
        self: &Arc<Self>,
        asked: Asked<'_>,
        slots: Slots,
    ) -> Result<Option<LockedTurn>, ProviderError> {
        let (is_free, [lock_time, gone]) =
            self.processes.lock_view(self.store.lock_time()).is_free();
        let mut text = format!("{CANDIDATES}{is_free}");
        let mut parameters = vec![("@now", json!(self.store.now())), lock_time, gone];
        if !slots.is_all() {
            text.push_str(" AND ARRAY_CONTAINS(@slots, c.dispatchSlot)");
            parameters.push(("@slots", json!(slots.to_vec())));
        }
        text.push_str(" ORDER BY c.enqueuedAt");
        let page_size = Some(CANDIDATE_PAGE);
        let mut pages =
            self.store.pages::<Candidate>(Scope::Everything, &text, &parameters, page_size);
        let (mut seen, mut blocked, mut is_crowded) = (HashSet::new(), 0, false);
        while let Some(page) = pages.next().await {
            let page = page.map_err(|failure| failure.tell(OPERATION, "candidates"))?;
            let ids = page.into_items().into_iter().map(|candidate| candidate.instance_id);
            let mut candidates: Vec<String> = ids.filter(|id| seen.insert(id.clone())).collect();
            candidates.reverse();
            if is_crowded {
                self.leave_out_blocked(&mut candidates, asked.filter)
                    .await
                    .map_err(|failure| failure.tell(OPERATION, "candidates"))?;
            }
            while let Some(instance) = candidates.pop() {
                let (turns, kept) = (Arc::clone(self), asked.kept());
                let fetch = async move {
                    let fetched = turns.fetch_from(&instance, kept.asked()).await;
                    fetched.map_err(|failure| failure.tell(OPERATION, &instance))
                };
                match self.tasks.run_detached(self.give_back(), Box::pin(fetch)).await? {
                    Some(turn) => return Ok(Some(turn)),
                    None => blocked += 1,
                }
                if blocked == BLOCKED_IN_A_ROW && !is_crowded {
                    is_crowded = true;
                    self.leave_out_blocked(&mut candidates, asked.filter)
                        .await
                        .map_err(|failure| failure.tell(OPERATION, "candidates"))?;
                }
            }
        }
        Ok(None)
    }

    /// Takes out of a page of candidates those that cannot be fetched now.
    async fn leave_out_blocked(
        &self,
        candidates: &mut Vec<String>,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<(), Failure> {
        let ids: Vec<&str> = candidates.iter().map(String::as_str).collect();
        let states = self.states(&ids, |pinned| is_supported(filter, pinned)).await?;
        let blocked = states.blocked.into_iter();
        let blocked: HashSet<String> = blocked.map(|(instance, _)| instance).collect();
        candidates.retain(|candidate| !blocked.contains(candidate));
        Ok(())
    }
}
