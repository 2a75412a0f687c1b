//! The requests of a commit, and of the other ends a turn can have: abandoned, renewed.

use std::sync::Arc;
use std::time::Duration;

use duroxide::Event;
use duroxide::providers::{
    ExecutionMetadata, ProviderError, ScheduledActivityIdentifier, WorkItem,
};
use serde_json::{Value, json};
use sidereal::BatchOperationResult;
use tokio::sync::Mutex;

use super::hand_offs::{Etags, HandOffs};
use super::next_turn::{LockedNext, NextTurn};
use super::{AckPlan, Turn, plan, replaced};
use crate::cache::Replay;
use crate::call::about_turn;
use crate::core::Core;
use crate::documents::{Cleanup, InstanceDocument, KeyValueDocument, MessageDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::fetch::clean_up;
use crate::held::HeldTurn;
use crate::lock_token::LockToken;
use crate::store::{Scope, millis};
use crate::write::{self, Change, Write};
use crate::{PATIENCE_MS, ids};

const ACK: &str = "ack_orchestration_item";
const ABANDON: &str = "abandon_orchestration_item";
const RENEW: &str = "renew_orchestration_item_lock";

/// What a token has locked.
const LOCKED: &str =
    "SELECT * FROM c WHERE (c.type = 'orch_queue' AND c.lockToken = @token) OR c.type = 'kv'";

/// What a turn that was not committed has left: documents that nobody sees.
const STAGED: &str = "SELECT * FROM c WHERE c.stagedTurn = @turn OR c.staged.turn = @turn";

/// How long a commit waits after an attempt that may have been written, and was not.
const FOLLOW_UP_PAUSE: Duration = Duration::from_millis(50);

/// What a turn did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) execution_id: u64,
    pub(crate) history: Vec<Event>,
    pub(crate) worker_items: Vec<WorkItem>,
    pub(crate) orchestrator_items: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

/// What a batch of a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fence {
    /// One that stages documents.
    Staging,
    /// The last one. An attempt before may have been written.
    Commit { may_be_written: bool },
}

/// The versions of the documents of a batch.
fn etags(batch: &[Write], results: &[BatchOperationResult]) -> Etags {
    let written = batch.iter().zip(results);
    written.filter_map(|(write, it)| Some((write.id.clone(), it.etag()?.clone()))).collect()
}

impl Core {
    /// Commits a turn, all or nothing.
    pub(crate) async fn ack_turn(
        self: &Arc<Self>,
        token: &str,
        outcome: Outcome,
    ) -> Result<(), ProviderError> {
        let held = self.held_turn(ACK, token).await?;
        let mut held = held.lock().await;
        let instance = held.instance.instance_id.clone();
        about_turn(&instance, held.instance.turn + 1);
        self.check_lock(ACK, token, &held)?;
        let next = held.terms.take().and_then(|terms| {
            let next = NextTurn::of(self, &held, &terms, &outcome);
            if next.is_none() {
                self.lock_ahead(&terms);
            }
            next
        });
        let tell = |failure: Failure| failure.tell(ACK, &instance);
        if held.instance.staging_turn.is_some() {
            self.sweep_staged(&mut held).await.map_err(tell)?;
        }
        let is_other =
            held.instance.turn > 0 && outcome.execution_id != held.instance.current_execution_id;
        let execution = match is_other {
            true => {
                let id = ids::execution(&instance, outcome.execution_id);
                self.store.read(&instance, &id).await.map_err(tell)?
            }
            false => None,
        };
        let enqueued = outcome.worker_items.len() + outcome.orchestrator_items.len();
        let hand_offs = HandOffs::reserve(self, &instance, &outcome);
        let plan = plan(&Turn {
            token,
            instance: &held.instance,
            messages: &held.messages,
            key_values: &held.key_values,
            execution,
            execution_id: outcome.execution_id,
            history: &outcome.history,
            worker_items: &outcome.worker_items,
            orchestrator_items: &outcome.orchestrator_items,
            metadata: &outcome.metadata,
            cancelled: &outcome.cancelled,
            handed: &hand_offs.handed,
            now: self.store.now(),
            first_seq: self.store.clock().next_sequences(enqueued),
        })?;
        let (etags, next) = self.commit_with_next(token, &mut held, &plan, next).await?;
        self.store.telemetry.turn_committed();
        self.clean_up_after(&mut held).await;
        self.turns.remove(token);
        self.remember(&mut held, &plan, &outcome);
        let now = self.store.now();
        for visible_at in &plan.own_messages {
            self.dispatch.message_enqueued(&instance, None, *visible_at, now);
        }
        match next {
            Some(next) => self.hand_next(next),
            None => self.dispatch.turn_released(&instance, now),
        }
        hand_offs.give(&held.instance, &plan.workers, outcome.worker_items, &etags);
        for message in &held.messages {
            self.remove_parts(&instance, &message.id, &message.work_item);
        }
        self.deliver_all(plan.intents).await;
        Ok(())
    }

    /// Removes what a commit had no room for: nobody is to be given an activity that was cancelled. Best effort: the next
    /// turn, if there is one, begins with what is left.
    async fn clean_up_after(&self, held: &mut HeldTurn) {
        let partition = held.instance.instance_id.clone();
        let until = self.store.now().saturating_add(PATIENCE_MS);
        for chunk in write::chunks(clean_up(&held.instance), replaced(&held.instance).bytes()) {
            let mut instance = held.instance.clone();
            instance.cleanup = Cleanup::without_first(&instance.cleanup, chunk.len());
            // Fenced: an instance that was deleted and started again has activities of the same ids.
            let batch: Vec<Write> = std::iter::once(replaced(&instance)).chain(chunk).collect();
            match self.store.write(&partition, &batch, until).await {
                Ok(results) => instance.etag = results.first().and_then(|it| it.etag().cloned()),
                Err(failure) => {
                    tracing::debug!(instance = partition, error = %failure.error(), "what a turn left is removed by the next one");
                    return;
                }
            }
            held.instance = instance;
        }
    }

    /// Keeps what the next turn is replayed from.
    fn remember(&self, held: &mut HeldTurn, plan: &AckPlan, outcome: &Outcome) {
        let instance = &held.instance;
        let is_same = outcome.execution_id == held.execution_id;
        self.replays.forget(&instance.instance_id);
        let replay = match held.replay.take() {
            Some(replay) if is_same => replay.with_events(&outcome.history, plan.history_bytes),
            // Another execution begins with this turn.
            Some(_) if outcome.execution_id > held.execution_id => {
                Replay::new(outcome.history.clone(), plan.history_bytes, None)
            }
            _ => return,
        };
        self.replays.put(instance, replay.with_keys(plan.key_values.clone()));
    }

    /// Sends a plan, with the locks of the next turn if there are any. What keeps those from being written does not keep
    /// the turn from being committed.
    async fn commit_with_next(
        self: &Arc<Self>,
        token: &str,
        held: &mut HeldTurn,
        plan: &AckPlan,
        next: Option<NextTurn>,
    ) -> Result<(Etags, Option<LockedNext>), ProviderError> {
        let locking = next.as_ref().and_then(|next| next.lock(plan));
        let (Some(next), Some((mut lock, next_token))) = (next, locking) else {
            return Ok((self.commit(token, held, plan, false).await?, None));
        };
        let failure = match self.store.write_once(&lock.instance.instance_id, &lock.writes).await {
            Ok(results) => {
                let etags = etags(&lock.writes, &results);
                lock.instance.etag = results.first().and_then(|it| it.etag().cloned());
                held.instance = lock.instance.clone();
                return Ok((etags, next.locked(lock, next_token)));
            }
            Err(failure) => failure,
        };
        drop(next);
        let may_be_written = failure.cause == Cause::Ambiguous;
        let committed = self.commit(token, held, plan, may_be_written).await;
        if may_be_written {
            // Nobody works with the lock, if it was got.
            self.spawn_release(next_token);
        }
        Ok((committed?, None))
    }

    /// Sends a plan: what is staged, then what commits. Says which versions the documents of the last batch have.
    async fn commit(
        &self,
        token: &str,
        held: &mut HeldTurn,
        plan: &AckPlan,
        may_be_written: bool,
    ) -> Result<Etags, ProviderError> {
        for (number, chunk) in (1..).zip(&plan.staged) {
            let mut staging = held.instance.clone();
            staging.staging_turn = Some(plan.instance.turn);
            staging.staged_batches = number;
            let extended = self.store.now().saturating_add(millis(held.lock_timeout));
            staging.locked_until = staging.locked_until.max(Some(extended));
            self.write_fenced(token, held, staging, chunk, Fence::Staging).await?;
        }
        let fence = Fence::Commit { may_be_written };
        self.write_fenced(token, held, plan.instance.clone(), &plan.commit, fence).await
    }

    /// One batch of a commit, with the instance as its first change.
    async fn write_fenced(
        &self,
        token: &str,
        held: &mut HeldTurn,
        mut instance: InstanceDocument,
        writes: &[Write],
        fence: Fence,
    ) -> Result<Etags, ProviderError> {
        let is_commit = fence != Fence::Staging;
        let partition = instance.instance_id.clone();
        let give_up = self.store.now().saturating_add(PATIENCE_MS);
        let mut may_be_written = fence == Fence::Commit { may_be_written: true };
        loop {
            instance.etag.clone_from(&held.instance.etag);
            let batch: Vec<Write> =
                std::iter::once(replaced(&instance)).chain(writes.iter().cloned()).collect();
            let lock_end = held.instance.locked_until.unwrap_or_default();
            // Half of the lock is left for renewing it.
            let pause = lock_end - millis(held.lock_timeout) / 2;
            let until = pause.max(self.store.now() + 1).min(give_up);
            let failure = match self.store.write(&partition, &batch, until).await {
                Ok(results) => {
                    instance.etag = results.first().and_then(|it| it.etag().cloned());
                    held.instance = instance;
                    return Ok(etags(&batch, &results));
                }
                Err(failure) => failure,
            };
            may_be_written |= failure.cause == Cause::Ambiguous;
            if may_be_written && failure.cause != Cause::Refused {
                // Nothing has changed, so another document is in the way, or one is missing.
                let is_refused = matches!(failure.cause, Cause::Conflict | Cause::NotFound);
                match self.find_commit(token, held, &instance, is_commit).await? {
                    true => return Ok(Etags::new()),
                    // The condition of the etag lets only one of the two be written.
                    false if !is_refused && self.store.now() < give_up => {
                        tokio::time::sleep(FOLLOW_UP_PAUSE).await;
                        continue;
                    }
                    false => {}
                }
            }
            match failure.cause {
                Cause::Transient if self.store.now() < give_up => {
                    self.keep_lock(token, held).await?;
                }
                Cause::Transient | Cause::Ambiguous => {
                    held.is_dead = true;
                    return Err(failure.tell(ACK, &partition));
                }
                Cause::Conflict if failure.position != Some(0) => {
                    let sentence = format!("{partition}: {}", failure.error());
                    return Err(ProviderError::permanent(ACK, sentence));
                }
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                    return Err(self.lost(ACK, &partition));
                }
                Cause::Refused => return Err(failure.tell(ACK, &partition)),
            }
        }
    }

    /// After an answer that was lost: whether a batch was written all the same. An error if the lock is gone.
    async fn find_commit(
        &self,
        token: &str,
        held: &mut HeldTurn,
        wanted: &InstanceDocument,
        is_commit: bool,
    ) -> Result<bool, ProviderError> {
        let there = match self.read_instance(&wanted.instance_id).await {
            Ok(there) => there.ok_or_else(|| self.lost(ACK, &wanted.instance_id))?,
            Err(failure) => {
                held.is_dead = true;
                return Err(failure.tell(ACK, &wanted.instance_id));
            }
        };
        let is_written = match is_commit {
            true => there.recent_acks.iter().any(|ack| ack == token),
            false => {
                there.is_held_by(token)
                    && (there.staging_turn, there.staged_batches)
                        == (wanted.staging_turn, wanted.staged_batches)
            }
        };
        if is_written {
            held.instance = there;
            return Ok(true);
        }
        match there.etag == wanted.etag && there.is_locked(self.store.now()) {
            true => Ok(false),
            false => Err(self.lost(ACK, &wanted.instance_id)),
        }
    }

    /// Extends the lock of a commit that has to wait.
    async fn keep_lock(&self, token: &str, held: &mut HeldTurn) -> Result<(), ProviderError> {
        let until = self.store.now().saturating_add(millis(held.lock_timeout));
        match self.extend(token, held, until).await {
            Err(failure) if failure.cause == Cause::Transient => Ok(()),
            Err(_) => Err(self.lost(ACK, &held.instance.instance_id)),
            Ok(()) => Ok(()),
        }
    }

    async fn extend(&self, token: &str, held: &mut HeldTurn, until: i64) -> Result<(), Failure> {
        let mut instance = held.instance.clone();
        // A renewal never shortens.
        instance.locked_until = instance.locked_until.max(Some(until));
        let partition = instance.instance_id.clone();
        match self.store.write_once(&partition, &[replaced(&instance)]).await {
            Ok(results) => instance.etag = results.first().and_then(|it| it.etag().cloned()),
            Err(failure) if failure.cause == Cause::Ambiguous => {
                let wanted = instance.locked_until;
                match self.read_instance(&partition).await? {
                    Some(there) if there.is_held_by(token) && there.locked_until >= wanted => {
                        instance = there;
                    }
                    _ => return Err(failure),
                }
            }
            Err(failure) => return Err(failure),
        }
        let until = instance.locked_until.unwrap_or_default();
        self.turns.extend(token, until);
        self.dispatch.turn_extended(&partition, until);
        held.instance = instance;
        Ok(())
    }

    /// Removes what a turn that was not committed has left, so that it is not taken for this one's.
    async fn sweep_staged(&self, held: &mut HeldTurn) -> Result<(), Failure> {
        let instance = &held.instance;
        let Some(turn) = instance.staging_turn else { return Ok(()) };
        let rows: Vec<Value> = self
            .store
            .values(Scope::Partition(&instance.instance_id), STAGED, &[("@turn", json!(turn))])
            .await?;
        let committed = instance.turn;
        let remove = |row: Value| match row["type"].as_str() {
            Some(kinds::KEY_VALUE) => {
                let document: KeyValueDocument = self.store.readable(row)?;
                let document = document.committed_by(committed);
                Some(match document.is_empty() {
                    true => Write::delete(&document.id, None),
                    false => Write::upsert(&document.id, &document),
                })
            }
            _ => row["id"].as_str().map(|id| Write::delete(id, None)),
        };
        let writes: Vec<Write> = rows.into_iter().filter_map(remove).collect();
        let partition = instance.instance_id.clone();
        for chunk in write::chunks(writes, replaced(instance).bytes()) {
            let batch: Vec<Write> =
                std::iter::once(replaced(&held.instance)).chain(chunk).collect();
            let results = self.store.write_once(&partition, &batch).await?;
            held.instance.etag = results.first().and_then(|it| it.etag().cloned());
        }
        (held.instance.staging_turn, held.instance.staged_batches) = (None, 0);
        Ok(())
    }

    /// Gives a turn back: its messages are handled later, by whoever comes.
    pub(crate) async fn abandon_turn(
        &self,
        token: &str,
        delay: Option<Duration>,
        ignore_attempt: bool,
    ) -> Result<(), ProviderError> {
        let held = self.held_turn(ABANDON, token).await?;
        let held = held.lock().await;
        let mut instance = held.instance.clone();
        (instance.lock_token, instance.locked_until) = (None, None);
        let visible_at = delay.map(|delay| self.store.now().saturating_add(millis(delay)));
        let release = |message: &MessageDocument| Write {
            id: message.id.clone(),
            change: Change::Lock {
                token: None,
                until: None,
                attempts: if ignore_attempt { -1 } else { 0 },
                visible_at,
                if_match: None,
            },
        };
        let batch: Vec<Write> =
            std::iter::once(replaced(&instance)).chain(held.messages.iter().map(release)).collect();
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let written = self.store.write(&instance.instance_id, &batch, until).await;
        self.turns.remove(token);
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
                let there = self.read_instance(&instance.instance_id).await;
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

    /// Extends the lock of a turn.
    pub(crate) async fn renew_turn(
        &self,
        token: &str,
        extend_for: Duration,
    ) -> Result<(), ProviderError> {
        let held = self.held_turn(RENEW, token).await?;
        let mut held = held.lock().await;
        self.check_lock(RENEW, token, &held)?;
        let until = self.store.now().saturating_add(millis(extend_for));
        let instance = held.instance.instance_id.clone();
        self.extend(token, &mut held, until).await.map_err(|failure| match failure.cause {
            Cause::Transient | Cause::Ambiguous => failure.tell(RENEW, &instance),
            _ => self.lost(RENEW, &instance),
        })
    }

    /// The turn that a token has locked.
    async fn held_turn(
        &self,
        operation: &'static str,
        token: &str,
    ) -> Result<Arc<Mutex<HeldTurn>>, ProviderError> {
        if let Some(held) = self.turns.get(token) {
            return Ok(held);
        }
        let parsed: LockToken = token
            .parse()
            .ok()
            .filter(|token: &LockToken| token.worker_item.is_none())
            .ok_or_else(|| ProviderError::permanent(operation, "Invalid lock token"))?;
        let tell = |failure: Failure| failure.tell(operation, &parsed.instance);
        let instance = self.read_instance(&parsed.instance).await.map_err(tell)?;
        let instance = instance.filter(|instance| instance.is_held_by(token));
        let instance =
            instance.ok_or_else(|| ProviderError::permanent(operation, "Invalid lock token"))?;
        self.read_held(token, instance).await.map_err(tell)
    }

    /// What a token has locked, read anew: another process, or another life of this one, locked it.
    async fn read_held(
        &self,
        token: &str,
        instance: InstanceDocument,
    ) -> Result<Arc<Mutex<HeldTurn>>, Failure> {
        let rows: Vec<Value> = self
            .store
            .values(Scope::Partition(&instance.instance_id), LOCKED, &[("@token", json!(token))])
            .await?;
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
            is_dead: false,
        };
        Ok(self.turns.insert(token, held, expires, now))
    }

    fn check_lock(
        &self,
        operation: &'static str,
        token: &str,
        held: &HeldTurn,
    ) -> Result<(), ProviderError> {
        let instance = &held.instance;
        if held.is_dead {
            let sentence = format!(
                "{}: an earlier commit with this token may have happened; the turn runs again",
                instance.instance_id
            );
            return Err(ProviderError::permanent(operation, sentence));
        }
        if !instance.is_held_by(token) || !instance.is_locked(self.store.now()) {
            self.turns.remove(token);
            return Err(self.lost(operation, &instance.instance_id));
        }
        Ok(())
    }

    /// The lock is gone: expired, taken over, or removed with its instance. No dispatcher of this process has the instance
    /// then, whenever the lock would have ended.
    fn lost(&self, operation: &str, instance: &str) -> ProviderError {
        self.dispatch.turn_released(instance, self.store.now());
        ProviderError::permanent(operation, format!("{instance}: Lock token invalid or expired"))
    }
}
