//! The batches of a commit: those that stage its documents, and the one that makes them count.
//!
//! Each has the instance as its first change, on the condition of its etag: a dispatcher that has lost the lock writes
//! nothing. A batch is repeated for a minute, with the lock renewed in between; then the token is dead, and the turn runs
//! again.

use std::collections::HashMap;
use std::sync::Arc;

use duroxide::providers::ProviderError;
use sidereal::BatchOperationResult;
use sidereal_protocol::Etag;

use super::TurnCommitter;
use super::next_turn::{LockedNext, NextTurn};
use super::plan::AckPlan;
use crate::PATIENCE_MS;
use crate::documents::InstanceDocument;
use crate::failure::{Cause, Failure};
use crate::held::HeldTurn;
use crate::write::Write;

pub(super) const ACK: &str = "ack_orchestration_item";

/// The versions of documents that were written, by their ids.
pub(super) type Etags = HashMap<String, Etag>;

/// A batch of a commit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// Removes documents of a turn that was not committed.
    Sweep,
    /// Writes documents that count once the turn is committed.
    Stage {
        /// The turn.
        turn: u64,
        /// The number of the batch, from 1.
        number: u32,
    },
    /// Commits.
    Commit {
        /// The instance after it.
        instance: &'a InstanceDocument,
        /// Whether an earlier attempt may have been written.
        may_be_written: bool,
    },
}

impl Step<'_> {
    /// The instance as the batch writes it. All but the last batch extend the lock.
    fn instance(self, held: &HeldTurn, now: i64) -> InstanceDocument {
        let mut instance = match self {
            Self::Commit { instance, .. } => instance.clone(),
            Self::Sweep | Self::Stage { .. } => held.extended(now),
        };
        match self {
            Self::Stage { turn, number } => {
                (instance.staging_turn, instance.staged_batches) = (Some(turn), number);
            }
            Self::Sweep => instance.staged_batches = 0,
            Self::Commit { .. } => {}
        }
        instance.etag.clone_from(&held.instance.etag);
        instance
    }

    /// Whether an instance says that the batch was written by a token. A removal is repeated, which changes nothing.
    fn is_written(self, there: &InstanceDocument, token: &str) -> bool {
        match self {
            Self::Sweep => false,
            Self::Stage { turn, number } => {
                there.is_held_by(token)
                    && (there.staging_turn, there.staged_batches) == (Some(turn), number)
            }
            Self::Commit { .. } => there.recent_acks.iter().any(|ack| ack == token),
        }
    }
}

/// The versions of the documents of a batch.
fn etags(batch: &[Write], results: &[BatchOperationResult]) -> Etags {
    let written = batch.iter().zip(results);
    written.filter_map(|(write, it)| Some((write.id.clone(), it.etag()?.clone()))).collect()
}

impl TurnCommitter {
    /// Sends a plan, with the locks of the next turn if there are any. What keeps those from being written does not keep
    /// the turn from being committed.
    pub(super) async fn commit_with_next(
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
            // No dispatcher works with the lock, if it was granted.
            self.turns.spawn_release(next_token);
        }
        Ok((committed?, None))
    }

    /// Sends a plan: what is staged, then what commits. Returns the versions of the documents of the last batch.
    async fn commit(
        &self,
        token: &str,
        held: &mut HeldTurn,
        plan: &AckPlan,
        may_be_written: bool,
    ) -> Result<Etags, ProviderError> {
        let turn = plan.instance.turn;
        for (number, chunk) in (1..).zip(&plan.staged) {
            let step = Step::Stage { turn, number };
            self.write_fenced(token, held, step, chunk.clone()).await?;
        }
        let step = Step::Commit { instance: &plan.instance, may_be_written };
        self.write_fenced(token, held, step, plan.commit.clone()).await
    }

    /// Writes one batch of a commit, with the instance as its first change.
    pub(super) async fn write_fenced(
        &self,
        token: &str,
        held: &mut HeldTurn,
        step: Step<'_>,
        mut writes: Vec<Write>,
    ) -> Result<Etags, ProviderError> {
        let partition = held.instance.instance_id.clone();
        let give_up = self.store.now().saturating_add(PATIENCE_MS);
        let mut may_be_written = matches!(step, Step::Commit { may_be_written: true, .. });
        let mut pauses = self.store.pauses();
        loop {
            let mut instance = step.instance(held, self.store.now());
            let batch: Vec<Write> = std::iter::once(Write::replace_instance(&instance))
                .chain(writes.iter().cloned())
                .collect();
            let failure = match self.store.write_once(&partition, &batch).await {
                Ok(results) => {
                    instance.etag = results.first().and_then(|it| it.etag().cloned());
                    self.locks.renewed(token, held, instance);
                    return Ok(etags(&batch, &results));
                }
                Err(failure) => failure,
            };
            if let (Step::Sweep, Cause::NotFound, Some(gone @ 1..)) =
                (step, failure.cause, failure.position)
            {
                writes.remove(gone - 1);
                continue;
            }
            may_be_written |= failure.cause == Cause::Ambiguous;
            let is_over = self.store.now() >= give_up;
            if may_be_written && failure.cause != Cause::Refused {
                if self.find_batch(token, held, step, give_up).await? {
                    return Ok(Etags::new());
                }
                // If the instance has not changed, another document is in the way, or one is missing.
                let is_refused = matches!(failure.cause, Cause::Conflict | Cause::NotFound);
                // The condition of the etag lets only one of the attempts be written.
                if !is_refused && !is_over {
                    pauses.pause().await;
                    continue;
                }
            }
            match failure.cause {
                Cause::Transient if !is_over => {
                    self.locks.keep_lock(ACK, token, held).await?;
                    pauses.pause().await;
                }
                _ => return Err(self.uncommitted(token, &partition, &failure)),
            }
        }
    }

    /// The error of a commit that cannot be repeated.
    fn uncommitted(&self, token: &str, partition: &str, failure: &Failure) -> ProviderError {
        match failure.cause {
            // The runtime would record a failure of the orchestration by the same token.
            Cause::Transient | Cause::Ambiguous => {
                self.locks.held.kill(token);
                failure.tell(ACK, partition)
            }
            Cause::Conflict if failure.position != Some(0) => {
                let sentence = format!("{partition}: {}", failure.error());
                ProviderError::permanent(ACK, sentence)
            }
            Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                self.locks.lost(ACK, partition)
            }
            Cause::Refused => failure.tell(ACK, partition),
        }
    }

    /// After an answer that was lost: whether a batch was written all the same. An error if the lock is gone.
    async fn find_batch(
        &self,
        token: &str,
        held: &mut HeldTurn,
        step: Step<'_>,
        give_up: i64,
    ) -> Result<bool, ProviderError> {
        let partition = held.instance.instance_id.clone();
        let there = self.store.read_instance_patiently(&partition, give_up).await;
        let there = there.map_err(|failure| self.uncommitted(token, &partition, &failure))?;
        let there = there.ok_or_else(|| self.locks.lost(ACK, &partition))?;
        let is_written = step.is_written(&there, token);
        // A removal that was written has changed the version, and nothing else that counts.
        let is_same = there.etag == held.instance.etag
            || (matches!(step, Step::Sweep) && there.is_held_by(token));
        if is_written || is_same {
            held.instance = there;
            return Ok(is_written);
        }
        Err(self.locks.lost(ACK, &partition))
    }
}
