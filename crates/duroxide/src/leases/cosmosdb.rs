//! Slots among the processes of a container.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sidereal::prelude::*;

use super::in_memory::InMemoryLeaseProvider;
use super::roster::{ID, Member, PARTITION, Role, Roles, RosterDocument, RosterView};
use super::{ALL_SLOTS, LeaseProvider, Slots};
use crate::failure::{Cause, Failure};
use crate::store::{Store, millis};

/// How leases are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSettings {
    /// How long a process that is gone keeps its slots.
    pub(crate) duration: Duration,
    pub(crate) dispatchers: u32,
}

/// Divides the slots among all processes of a container, and each process's among its dispatchers.
///
/// The processes meet in one document. Each extends its lease there with one request at a third of the lease's time,
/// whose response names the others; who is there decides which slots are whose, so nothing has to be negotiated. A
/// process that dies is missed when its lease ends. Slots that change hands are looked after by both for a while: none
/// is ever unattended.
#[derive(Clone, Debug)]
pub struct CosmosDBLeaseProvider {
    process: Arc<Process>,
    role: Role,
    dispatchers: Arc<InMemoryLeaseProvider>,
}

/// The lease of this process.
#[derive(Debug)]
struct Process {
    store: Store,
    duration: Duration,
    /// What tells this process from others.
    member: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    view: RosterView,
    /// When the lease was last extended, or tried to be.
    last_beat: Option<i64>,
    /// What it works on.
    roles: Roles,
    is_member: bool,
}

impl CosmosDBLeaseProvider {
    pub(crate) fn new(store: Store, settings: LeaseSettings) -> Self {
        let (member, duration) = (store.clock().new_id(), settings.duration);
        let process = Process { store, duration, member, state: Mutex::default() };
        let dispatchers = InMemoryLeaseProvider::new(settings.dispatchers);
        let role = Role::Orchestrations;
        Self { process: Arc::new(process), role, dispatchers: Arc::new(dispatchers) }
    }

    /// The slots of the same process for its workers.
    pub(crate) fn for_workers(&self, total: u32) -> Self {
        let dispatchers = Arc::new(InMemoryLeaseProvider::new(total));
        Self { process: Arc::clone(&self.process), role: Role::Activities, dispatchers }
    }
}

#[async_trait]
impl LeaseProvider for CosmosDBLeaseProvider {
    async fn acquire_slots(&self, caller_id: u64) -> Vec<u8> {
        let slots = self.process.slots(self.role).await;
        self.dispatchers.share_of(caller_id, slots).to_vec()
    }

    async fn release_slots(&self, caller_id: u64) {
        self.dispatchers.release(caller_id);
    }

    async fn process_slots(&self) -> Vec<u8> {
        self.process.slots(self.role).await.to_vec()
    }

    async fn release_process(&self) {
        self.process.leave().await;
    }
}

impl Process {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn heartbeat_interval(&self) -> i64 {
        millis(self.duration) / 3
    }

    /// The slots of this process in a role. The lease is extended when it is time, and when the role is new.
    async fn slots(&self, role: Role) -> Slots {
        let now = self.store.now();
        if let Some(roles) = self.due(role, now) {
            match self.heartbeat(roles, now).await {
                Ok(roster) => {
                    let mut state = self.state();
                    state.is_member = true;
                    state.view.learn(roster.members);
                }
                Err(failure) => {
                    tracing::debug!(error = %failure.error(), "the lease is extended later");
                }
            }
            self.forget_gone(now).await;
        }
        let mut state = self.state();
        match state.is_member {
            // Half as long again as it takes the others to hear of a change.
            true => state.view.slots(&self.member, role, now, self.heartbeat_interval() * 3 / 2),
            false => ALL_SLOTS,
        }
    }

    /// If the lease is to be extended now, for which roles. Whoever asks meanwhile does not do it as well.
    fn due(&self, role: Role, now: i64) -> Option<Roles> {
        let mut state = self.state();
        let interval = self.heartbeat_interval();
        let is_time = state.last_beat.is_none_or(|last| now >= last.saturating_add(interval));
        if !is_time && state.roles.has(role) {
            return None;
        }
        state.roles = state.roles.with(role);
        state.last_beat = Some(now);
        Some(state.roles)
    }

    /// Extends the lease of this process. Says who there is.
    async fn heartbeat(&self, roles: Roles, now: i64) -> Result<RosterDocument, Failure> {
        let member = Member { until: now.saturating_add(millis(self.duration)), roles };
        let patch = Patch::new().set(format!("/members/{}", self.member), member);
        match self.store.patch::<RosterDocument>(PARTITION, ID, patch.clone()).await {
            Err(failure) if failure.cause == Cause::NotFound => {}
            patched => return patched,
        }
        let first = RosterDocument::of(&self.member, member);
        match self.store.create(PARTITION, &first).await {
            Ok(()) => Ok(first),
            // Another process was first.
            Err(failure) if matches!(failure.cause, Cause::Conflict | Cause::Ambiguous) => {
                self.store.patch(PARTITION, ID, patch).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Leaves out processes that ended without saying so. Best effort.
    async fn forget_gone(&self, now: i64) {
        let gone = {
            let state = self.state();
            let lease = millis(self.duration);
            let gone = state.view.gone(now, lease).map(|member| format!("/members/{member}"));
            gone.take(MAX_FORGOTTEN)
                .fold(None::<Patch>, |patch, path| Some(patch.unwrap_or_default().remove(path)))
        };
        if let Some(patch) = gone
            && let Err(failure) = self.store.patch::<RosterDocument>(PARTITION, ID, patch).await
        {
            tracing::debug!(error = %failure.error(), "another process has left them out");
        }
    }

    /// Gives the lease up. Best effort: it ends by itself.
    async fn leave(&self) {
        let state = std::mem::take(&mut *self.state());
        // Whether the answer to its heartbeat came or not: the process may stop before.
        if state.last_beat.is_none() {
            return;
        }
        let patch = Patch::new().remove(format!("/members/{}", self.member));
        if let Err(failure) = self.store.patch::<RosterDocument>(PARTITION, ID, patch).await {
            tracing::debug!(error = %failure.error(), "the lease ends by itself");
        }
    }
}

/// The service takes ten operations of a patch.
const MAX_FORGOTTEN: usize = 10;
