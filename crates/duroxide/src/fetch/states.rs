//! Which of many instances cannot be fetched now: one question instead of one each.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::json;

use super::TurnFetcher;
use crate::documents::PinnedVersion;
use crate::failure::Failure;
use crate::locks::{Lock, LockView};
use crate::store::Scope;
use crate::turn::Blocked;

/// Of instances, what decides whether they can be fetched.
const STATES: &str = "SELECT c.instanceId, c.lockToken, c.lockedUntil, c.lockOwner, c.isDeleting, c.pinnedDuroxideVersion \
     FROM c WHERE c.type = 'instance' AND ARRAY_CONTAINS(@ids, c.instanceId)";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    instance_id: String,
    lock_token: Option<String>,
    locked_until: Option<i64>,
    lock_owner: Option<String>,
    #[serde(default)]
    is_deleting: bool,
    pinned_duroxide_version: Option<PinnedVersion>,
}

impl State {
    /// Why the instance cannot be fetched; none if it can be.
    fn blocked(
        &self,
        now: i64,
        locks: &LockView,
        supports: impl Fn(Option<PinnedVersion>) -> bool,
    ) -> Option<Blocked> {
        let until = self.lock_token.as_ref().and(self.locked_until);
        let lock = Lock { until, owner: self.lock_owner.as_deref() };
        match until {
            Some(until) if lock.holds(locks) => Some(Blocked::Locked { until }),
            _ if self.is_deleting => Some(Blocked::left_alone(now)),
            _ => (!supports(self.pinned_duroxide_version)).then_some(Blocked::Incompatible),
        }
    }
}

/// The states of instances.
#[derive(Debug, Default)]
pub(crate) struct States {
    /// Those that are locked, being deleted, or of a version that is not supported.
    pub(crate) blocked: Vec<(String, Blocked)>,
    /// Those that there are.
    pub(crate) found: HashSet<String>,
    /// How many requests that took.
    pub(crate) requests: usize,
}

impl TurnFetcher {
    /// Asks for the states of instances.
    pub(crate) async fn states(
        &self,
        ids: &[&str],
        supports: impl Fn(Option<PinnedVersion>) -> bool,
    ) -> Result<States, Failure> {
        let (now, locks) = (self.store.now(), self.processes.lock_view(self.store.lock_time()));
        let parameters = [("@ids", json!(ids))];
        let mut pages =
            self.store.brief().pages::<State>(Scope::Everything, STATES, &parameters, None);
        let mut states = States::default();
        while let Some(page) = pages.next().await {
            let page = page?;
            states.requests += page.requests();
            for state in page.into_items() {
                let why = state.blocked(now, &locks, &supports);
                states.found.insert(state.instance_id.clone());
                states.blocked.extend(why.map(|why| (state.instance_id, why)));
            }
        }
        Ok(states)
    }
}
