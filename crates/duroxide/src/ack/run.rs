//! Committing a turn: what it read before, its plan, the batches, and what follows the commit.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::ProviderError;
use tokio::time::timeout;

use super::commit::ACK;
use super::hand_offs::HandOffs;
use super::next_turn::{LockedNext, NextTurn};
use super::plan::{AckPlan, plan};
use super::turn::Turn;
use super::{Outcome, TurnCommitter};
use crate::cache::Replay;
use crate::call::about_turn;
use crate::documents::{Cleanup, ExecutionDocument, InstanceDocument};
use crate::failure::Cause;
use crate::held::HeldTurn;
use crate::telemetry::Occurrence;
use crate::turn::clean_up;
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

/// How long a dispatcher waits for what follows its commit: messages to others, and removals that did not fit into the
/// batch. A target that does not take its messages must not hold it up; the rest goes on beside it.
const FOLLOW_UP_WAIT: Duration = Duration::from_millis(250);

impl TurnCommitter {
    /// Commits a turn, all or nothing.
    pub(crate) async fn ack_turn(
        self: &Arc<Self>,
        token: &str,
        outcome: Outcome,
    ) -> Result<(), ProviderError> {
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let held = self.locks.held_turn(ACK, token, until).await.inspect_err(|error| {
            // Once the account answers again, the runtime would record a failure of the orchestration by the same token.
            if error.is_retryable() {
                self.locks.held.kill(token);
            }
        })?;
        let mut held = held.lock().await;
        let instance = held.instance.instance_id.clone();
        about_turn(&instance, held.instance.turn + 1);
        self.locks.check_lock(ACK, token, &held)?;
        let next = self.reserve_next(&mut held, &outcome);
        self.sweep_staged(token, &mut held).await?;
        let execution = self.earlier_execution(token, &held, outcome.execution_id).await?;
        let hand_offs = HandOffs::reserve(self, &instance, &outcome);
        let plan = self.plan(token, &held, &outcome, execution, &hand_offs)?;
        let (etags, next) = self.commit_with_next(token, &mut held, &plan, next).await?;
        self.store.telemetry.turn_committed();
        if !plan.staged.is_empty() {
            self.store.telemetry.occurred(Occurrence::TurnStaged);
        }
        let cleaned = Box::pin(Arc::clone(self).clean_up_after(held.instance.clone()));
        if let Some(cleaned) = self.follow_up("clean_up", cleaned).await {
            held.instance = cleaned;
        }
        self.locks.held.remove(token);
        self.remember(&mut held, &plan, &outcome);
        self.release(&instance, &plan, next);
        hand_offs.give(&held.instance, &plan.workers, outcome.worker_items, &etags);
        // The runtime is done with the turn: nothing below may keep its token.
        drop(held);
        if !plan.intents.is_empty() {
            let delivery = Box::pin(Arc::clone(&self.outbox).deliver_all(plan.intents));
            self.follow_up("outbox", delivery).await;
        }
        Ok(())
    }

    /// Reserves the next turn of the dispatcher: of the same instance, by the batch that commits, or prefetched from another.
    fn reserve_next(self: &Arc<Self>, held: &mut HeldTurn, outcome: &Outcome) -> Option<NextTurn> {
        let terms = held.terms.take()?;
        let next = NextTurn::of(self, held, &terms, outcome);
        if next.is_none() {
            self.turns.lock_ahead(&terms);
        }
        next
    }

    fn plan(
        &self,
        token: &str,
        held: &HeldTurn,
        outcome: &Outcome,
        execution: Option<ExecutionDocument>,
        hand_offs: &HandOffs<'_>,
    ) -> Result<AckPlan, ProviderError> {
        let enqueued = outcome.worker_items.len() + outcome.orchestrator_items.len();
        plan(&Turn {
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
        })
    }

    /// Releases the instance to the next turn, if that is locked already, or to any dispatcher.
    fn release(&self, instance: &str, plan: &AckPlan, next: Option<LockedNext>) {
        let now = self.store.now();
        for visible_at in &plan.own_messages {
            self.dispatch.message_enqueued(instance, None, *visible_at, now);
        }
        match next {
            Some(next) => self.hand_next(next),
            None => self.dispatch.turn_released(instance, now),
        }
    }

    /// Waits a little for something that follows a commit. If it takes longer, it goes on beside the calls.
    async fn follow_up<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        mut work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Option<T> {
        match timeout(FOLLOW_UP_WAIT, &mut work).await {
            Ok(done) => Some(done),
            Err(_) => {
                self.tasks.spawn_metered(operation, async move { drop(work.await) });
                None
            }
        }
    }

    /// The document of an execution that is not the current one any more, which a late turn writes to.
    async fn earlier_execution(
        &self,
        token: &str,
        held: &HeldTurn,
        execution: u64,
    ) -> Result<Option<ExecutionDocument>, ProviderError> {
        if held.instance.turn == 0 || execution >= held.instance.current_execution_id {
            return Ok(None);
        }
        let partition = held.instance.instance_id.as_str();
        let (store, id) = (self.store.brief(), ids::execution(partition, execution));
        let until = self.store.now().saturating_add(PATIENCE_MS);
        let read = store.patiently(until, || store.read(partition, &id)).await;
        read.map_err(|failure| self.unprepared(token, partition, &failure))
    }

    /// Removes what a commit had no room for: workers must not be given an activity that was cancelled. Best effort: the next
    /// turn, if there is one, begins with what is left. Returns the instance as it is then.
    async fn clean_up_after(self: Arc<Self>, mut instance: InstanceDocument) -> InstanceDocument {
        let partition = instance.instance_id.clone();
        for chunk in write::chunks(clean_up(&instance), Write::replace_instance(&instance).bytes())
        {
            let mut cleaned = instance.clone();
            cleaned.cleanup = Cleanup::without_first(&cleaned.cleanup, chunk.len());
            // Fenced: an instance that was deleted and started again has activities of the same ids.
            let batch: Vec<Write> =
                std::iter::once(Write::replace_instance(&cleaned)).chain(chunk).collect();
            let until = self.store.now().saturating_add(PATIENCE_MS);
            match self.store.write(&partition, &batch, until).await {
                Ok(results) => cleaned.etag = results.first().and_then(|it| it.etag().cloned()),
                Err(failure) => {
                    let is_taken = failure.cause == Cause::PreconditionFailed;
                    tracing::debug!(instance = partition, is_taken, error = %failure.error(), "the next turn removes what this one left");
                    break;
                }
            }
            instance = cleaned;
        }
        instance
    }

    /// Keeps what the next turn is replayed from.
    fn remember(&self, held: &mut HeldTurn, plan: &AckPlan, outcome: &Outcome) {
        let instance = &held.instance;
        let is_same = outcome.execution_id == held.execution_id;
        self.replays.forget(&instance.instance_id);
        // After an answer that was lost the instance was read, and others may have committed turns since: their events are
        // not known here.
        if instance.turn != plan.instance.turn {
            return;
        }
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
}
