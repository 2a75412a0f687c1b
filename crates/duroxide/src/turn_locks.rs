//! The locks of turns: looked up by their tokens, renewed, kept during a commit, and given back.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::PATIENCE_MS;
use crate::cache::ReplayCache;
use crate::clock::millis;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::documents::{InstanceDocument, KeyValueDocument, MessageDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::held::{HeldTurn, HeldTurns};
use crate::lock_token::LockToken;
use crate::store::{Scope, Store};
use crate::telemetry::Occurrence;
use crate::write::{Change, Write};

const ABANDON: &str = "abandon_orchestration_item";
const RENEW: &str = "renew_orchestration_item_lock";

/// The documents that a token has locked, and the keys of the instance.
const LOCKED: &str =
    "SELECT * FROM c WHERE (c.type = 'orch_queue' AND c.lockToken = @token) OR c.type = 'kv'";

/// The turns that this process has locked.
#[derive(Debug)]
pub(crate) struct TurnLocks {
    store: Store,
    dispatch: Arc<Dispatch>,
    replays: Arc<ReplayCache>,
    pub(crate) held: HeldTurns,
}

impl TurnLocks {
    pub(crate) fn new(context: &Context) -> Self {
        let Context { store, dispatch, replays, .. } = context.clone();
        Self { store, dispatch, replays, held: HeldTurns::default() }
    }

    /// Gives a turn back: another dispatcher handles its messages later.
    pub(crate) async fn abandon_turn(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let held = self.held_turn(ABANDON, token, until).await?;
        let held = held.lock().await;
        let mut instance = held.instance.clone();
        instance.unlock();
        let visible_at = delay.map(|delay| self.store.now().saturating_add(millis(delay)));
        let release = |message: &MessageDocument| Write {
            id: message.id.clone(),
            change: Change::Lock {
                token: None,
                until: None,
                owner: None,
                attempts: if ignore_attempt { -1 } else { 0 },
                visible_at,
                if_match: None,
            },
        };
        let batch: Vec<Write> = std::iter::once(Write::replace_instance(&instance))
            .chain(held.messages.iter().map(release))
            .collect();
        let written = self.store.write(&instance.instance_id, &batch, until).await;
        self.held.remove(token);
        self.replays.forget(&instance.instance_id);
        let now = self.store.now();
        match visible_at {
            Some(visible_at) => {
                self.dispatch.message_enqueued(&instance.instance_id, None, visible_at, now);
                self.dispatch.turn_released(&instance.instance_id, now);
            }
            None => {
                self.dispatch.turn_released(&instance.instance_id, now);
                self.dispatch.message_enqueued(&instance.instance_id, None, now, now);
            }
        }
        match written {
            Ok(_) => {}
            Err(failure) if failure.cause == Cause::Ambiguous => {
                let there = self.store.read_instance(&instance.instance_id).await;
                let there = there.map_err(|it| it.tell(ABANDON, &instance.instance_id))?;
                if there.is_some_and(|there| there.is_held_by(token)) {
                    return Err(failure.tell(ABANDON, &instance.instance_id));
                }
            }
            Err(failure) => match failure.cause {
                Cause::Transient => return Err(failure.tell(ABANDON, &instance.instance_id)),
                _ => return Err(self.lost(ABANDON, &instance.instance_id)),
            },
        }
        Ok(())
    }

    /// Extends the lock of a turn. The runtime renews no more after an error, so an outage is waited for; a commit that is
    /// under way extends the lock itself.
    pub(crate) async fn renew_turn(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let give_up = self.store.now().saturating_add(PATIENCE_MS);
        let turn = self.held_turn(RENEW, token, give_up).await?;
        let mut pauses = self.store.pauses();
        let mut is_first = true;
        loop {
            let failure = {
                let Ok(mut held) = turn.try_lock() else { return Ok(()) };
                let instance = held.instance.instance_id.clone();
                // The etag fences what comes after an outage that was longer than the lock.
                let is_held = !self.held.is_dead(token) && held.instance.is_held_by(token);
                match is_first {
                    true => self.check_lock(RENEW, token, &held)?,
                    false if !is_held => return Err(self.lost(RENEW, &instance)),
                    false => {}
                }
                is_first = false;
                let until = self.store.now().saturating_add(millis(extend_for));
                match self.extend(token, &mut held, until).await {
                    Ok(()) => return Ok(()),
                    Err(failure) => failure,
                }
            };
            let is_transient = matches!(failure.cause, Cause::Transient | Cause::Ambiguous);
            let instance = token.parse().map_or(String::new(), |it: LockToken| it.instance);
            match is_transient {
                true if self.store.now() < give_up => pauses.pause().await,
                true => return Err(failure.tell(RENEW, &instance)),
                false => return Err(self.lost(RENEW, &instance)),
            }
        }
    }

    /// The turn that a token has locked.
    pub(crate) async fn held_turn(
        &self,
        operation: &'static str,
        token: &str,
        until: i64,
    ) -> Result<Arc<Mutex<HeldTurn>>, ProviderError> {
        if let Some(held) = self.held.get(token) {
            return Ok(held);
        }
        let parsed: LockToken = token
            .parse()
            .ok()
            .filter(|token: &LockToken| token.worker_item.is_none())
            .ok_or_else(|| ProviderError::permanent(operation, "Invalid lock token"))?;
        let tell = |failure: Failure| failure.tell(operation, &parsed.instance);
        let instance =
            self.store.read_instance_patiently(&parsed.instance, until).await.map_err(tell)?;
        let instance = instance.filter(|instance| instance.is_held_by(token));
        let instance =
            instance.ok_or_else(|| ProviderError::permanent(operation, "Invalid lock token"))?;
        self.read_held(token, instance, until).await.map_err(tell)
    }

    /// Reads what a token has locked: another process, or an earlier life of this one, locked it.
    async fn read_held(
        &self,
        token: &str,
        instance: InstanceDocument,
        until: i64,
    ) -> Result<Arc<Mutex<HeldTurn>>, Failure> {
        let (store, parameters) = (self.store.brief(), [("@token", json!(token))]);
        let partition = Scope::Partition(&instance.instance_id);
        let read = || store.values(partition, LOCKED, &parameters);
        let rows: Vec<Value> = store.patiently(until, read).await?;
        let (mut messages, mut key_values) = (Vec::new(), Vec::new());
        for row in rows {
            match row["type"].as_str() {
                Some(kinds::KEY_VALUE) => {
                    let document = self.store.readable::<KeyValueDocument>(row);
                    key_values.extend(document.map(|it| it.committed_by(instance.turn)));
                }
                _ => messages.extend(self.store.readable::<MessageDocument>(row)),
            }
        }
        let (now, expires) = (self.store.now(), instance.locked_until.unwrap_or_default());
        let lock_timeout =
            Duration::from_millis(expires.saturating_sub(now).max(1_000).unsigned_abs());
        let held = HeldTurn {
            execution_id: instance.current_execution_id,
            instance,
            messages,
            key_values: Arc::new(key_values),
            replay: None,
            lock_timeout,
            terms: None,
        };
        Ok(self.held.insert(token, held, expires, now))
    }

    pub(crate) fn check_lock(
        &self,
        operation: &'static str,
        token: &str,
        held: &HeldTurn,
    ) -> Result<(), ProviderError> {
        let instance = &held.instance;
        if self.held.is_dead(token) {
            let sentence = format!(
                "{}: an earlier commit with this token may have happened; the turn runs again",
                instance.instance_id
            );
            return Err(ProviderError::permanent(operation, sentence));
        }
        if !instance.is_held_by(token) || !instance.lock().is_live(self.store.now()) {
            self.held.remove(token);
            return Err(self.lost(operation, &instance.instance_id));
        }
        Ok(())
    }

    /// The lock is gone: expired, taken over, or removed with its instance. No dispatcher of this process has the instance
    /// then, whenever the lock would have ended.
    pub(crate) fn lost(&self, operation: &str, instance: &str) -> ProviderError {
        self.store.telemetry.occurred(Occurrence::LockLost);
        self.dispatch.turn_released(instance, self.store.now());
        ProviderError::permanent(operation, format!("{instance}: Lock token invalid or expired"))
    }

    /// Extends the lock of a commit that has to wait, if less than half of it is left.
    pub(crate) async fn keep_lock(
        &self,
        operation: &'static str,
        token: &str,
        held: &mut HeldTurn,
    ) -> Result<(), ProviderError> {
        let now = self.store.now();
        let left = held.instance.locked_until.unwrap_or_default().saturating_sub(now);
        if left > millis(held.lock_timeout) / 2 {
            return Ok(());
        }
        let until = now.saturating_add(millis(held.lock_timeout));
        match self.extend(token, held, until).await {
            Ok(()) => Ok(()),
            Err(failure) if matches!(failure.cause, Cause::Transient | Cause::Ambiguous) => Ok(()),
            Err(_) => Err(self.lost(operation, &held.instance.instance_id)),
        }
    }

    /// Extends the lock of a turn once.
    pub(crate) async fn extend(
        &self,
        token: &str,
        held: &mut HeldTurn,
        until: i64,
    ) -> Result<(), Failure> {
        let mut instance = held.instance.clone();
        // A renewal never shortens.
        instance.locked_until = instance.locked_until.max(Some(until));
        let partition = instance.instance_id.clone();
        match self.store.renew_once(&partition, &[Write::replace_instance(&instance)]).await {
            Ok(results) => instance.etag = results.first().and_then(|it| it.etag().cloned()),
            Err(failure) if failure.cause == Cause::Ambiguous => {
                let wanted = instance.locked_until;
                match self.store.brief().read(&partition, &instance.id).await? {
                    Some(there) if InstanceDocument::is_held_by(&there, token) => {
                        let is_extended = there.locked_until >= wanted;
                        held.instance = there;
                        return if is_extended { Ok(()) } else { Err(failure) };
                    }
                    _ => return Err(failure),
                }
            }
            Err(failure) => return Err(failure),
        }
        self.renewed(token, held, instance);
        Ok(())
    }

    /// Notes an instance that was written, and the end of its lock.
    pub(crate) fn renewed(&self, token: &str, held: &mut HeldTurn, instance: InstanceDocument) {
        if instance.is_held_by(token) {
            let until = instance.locked_until.unwrap_or_default();
            self.held.extend(token, until);
            self.dispatch.turn_extended(&instance.instance_id, until);
        }
        held.instance = instance;
    }
}
