//! Slots among the processes of a container.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sidereal::prelude::*;

use super::in_memory::InMemoryLeaseProvider;
use super::roster::{ID, Member, PARTITION, Role, Roles, RosterDocument, RosterView};
use super::witness::Witness;
use super::{ALL_SLOTS, LeaseProvider, Slots};
use crate::clock::millis;
use crate::failure::{Cause, Failure};
use crate::store::Store;

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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The name of this process. Another name is drawn after the lease has ended: others may take over what is locked
    /// by the former.
    member: String,
    view: RosterView,
    witness: Witness,
    /// When the lease was last extended, or tried to be.
    last_beat: Option<i64>,
    /// When it was extended.
    last_success: Option<i64>,
    /// The kinds of work that it does.
    roles: Roles,
    is_member: bool,
}

impl CosmosDBLeaseProvider {
    pub(crate) fn new(store: Store, settings: LeaseSettings) -> Self {
        let state = State { member: store.clock().new_id(), ..State::default() };
        let process = Process { store, duration: settings.duration, state: Mutex::new(state) };
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

    async fn release_process_slots(&self) {
        self.process.state().roles = Roles::default();
        self.process.extend().await;
    }

    async fn extend_lease(&self) {
        self.process.extend().await;
    }

    async fn process_name(&self) -> Option<String> {
        // Known before the lease: what is locked until then is free with it too.
        Some(self.process.state().member.clone())
    }

    async fn has_others(&self) -> bool {
        let (state, now) = (self.process.state(), self.process.store.now());
        state.is_member && state.view.has_others(&state.member, now)
    }

    async fn gone_processes(&self) -> Vec<String> {
        self.process.state().witness.gone()
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
        if let Some(roles) = self.due(Some(role), now) {
            self.beat(roles, now).await;
        }
        let (mut state, interval) = (self.state(), self.heartbeat_interval());
        let State { member, view, is_member, .. } = &mut *state;
        match is_member {
            // Half as long again as it takes the others to hear of a change.
            true => view.slots(member, role, now, interval * 3 / 2),
            false => ALL_SLOTS,
        }
    }

    /// Extends the lease if it is time.
    async fn extend(&self) {
        let now = self.store.now();
        if let Some(roles) = self.due(None, now) {
            self.beat(roles, now).await;
        }
    }

    /// If the lease is to be extended now, for which roles. One caller at a time does it.
    fn due(&self, role: Option<Role>, now: i64) -> Option<Roles> {
        let mut state = self.state();
        let interval = self.heartbeat_interval();
        let is_time = state.last_beat.is_none_or(|last| now >= last.saturating_add(interval));
        if !is_time && role.is_none_or(|role| state.roles.has(role)) {
            return None;
        }
        if let Some(role) = role {
            state.roles = state.roles.with(role);
        }
        state.last_beat = Some(now);
        Some(state.roles)
    }

    /// Extends the lease once, and learns of the others.
    async fn beat(&self, roles: Roles, now: i64) {
        let (member, former) = self.member(now);
        match self.heartbeat(&member, roles, now).await {
            Ok(roster) => {
                let seen = self.store.now();
                let mut state = self.state();
                (state.is_member, state.last_success) = (true, Some(seen));
                let lease = millis(self.duration);
                state.witness.saw(&member, &roster.members, seen, lease);
                state.view.learn(roster.members);
            }
            Err(failure) => {
                let mut state = self.state();
                state.witness.missed();
                // A process that is not in the roster yet cannot be seen to be gone: its next poll tries again, before it finds work.
                if !state.is_member {
                    state.last_beat = Some(now.saturating_sub(self.heartbeat_interval()));
                }
                drop(state);
                tracing::debug!(error = %failure.error(), "the lease is extended later");
            }
        }
        self.forget(former, now).await;
    }

    /// The name of this process, and the former one if another was drawn: the lease had ended, so what it has locked may be
    /// another's.
    fn member(&self, now: i64) -> (String, Option<String>) {
        let mut state = self.state();
        let lease = millis(self.duration);
        let has_ended = state.last_success.is_some_and(|last| now > last.saturating_add(lease));
        if !has_ended {
            return (state.member.clone(), None);
        }
        let former = std::mem::replace(&mut state.member, self.store.clock().new_id());
        state.last_success = None;
        (state.member.clone(), Some(former))
    }

    /// Extends the lease of this process. Returns the roster.
    async fn heartbeat(
        &self,
        member: &str,
        roles: Roles,
        now: i64,
    ) -> Result<RosterDocument, Failure> {
        let entry = Member { until: now.saturating_add(millis(self.duration)), roles };
        let patch = Patch::new().set(format!("/members/{member}"), entry);
        let store = self.store.brief();
        match store.patch::<RosterDocument>(PARTITION, ID, patch.clone()).await {
            Err(failure) if failure.cause == Cause::NotFound => {}
            patched => return patched,
        }
        let first = RosterDocument::of(member, entry);
        match store.create(PARTITION, &first).await {
            Ok(()) => Ok(first),
            // Another process was first.
            Err(failure) if matches!(failure.cause, Cause::Conflict | Cause::Ambiguous) => {
                store.patch(PARTITION, ID, patch).await
            }
            Err(failure) => Err(failure),
        }
    }

    /// Leaves out processes that ended without saying so, once all others know it. Best effort.
    async fn forget(&self, former: Option<String>, now: i64) {
        let gone = {
            let state = self.state();
            let long_ago = LEASES_UNTIL_FORGOTTEN * millis(self.duration);
            let gone = state.view.gone(now, long_ago).map(str::to_owned);
            let gone = former.into_iter().chain(gone).take(MAX_FORGOTTEN);
            gone.map(|member| format!("/members/{member}"))
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
        let new = State { member: self.store.clock().new_id(), ..State::default() };
        let state = std::mem::replace(&mut *self.state(), new);
        // Whether the answer to its heartbeat came or not: the process may stop before.
        if state.last_beat.is_none() {
            return;
        }
        let patch = Patch::new().remove(format!("/members/{}", state.member));
        if let Err(failure) = self.store.patch::<RosterDocument>(PARTITION, ID, patch).await {
            tracing::debug!(error = %failure.error(), "the lease ends by itself");
        }
    }
}

/// After so many leases a process that is gone is left out. Until then every other one, also one that has just started, could
/// see for a whole lease that it is gone, and takes its locks over.
const LEASES_UNTIL_FORGOTTEN: i64 = 4;

/// The service takes ten operations of a patch.
const MAX_FORGOTTEN: usize = 10;
