//! A fetch: one look at an instance, its plan, its lock.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem, ProviderError, WorkItem};
use serde_json::{Value, json};

use super::TurnFetcher;
use super::item::orchestration_item;
use crate::call::about_turn;
use crate::clock::millis;
use crate::dispatch::Claim;
use crate::documents::{InstanceDocument, MessageDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::held::HeldTurn;
use crate::lock_token::LockToken;
use crate::store::Scope;
use crate::telemetry::{Queue, Retried};
use crate::turn::{
    Asked, Blocked, FetchPlan, FetchTerms, InstanceView, LockPlan, LockedTurn, MAX_MESSAGES,
    ReadMessage, TurnTerms, plan,
};
use crate::write::Write;

pub(super) const OPERATION: &str = "fetch_orchestration_item";

/// A fetched turn: the item, the lock token, the number of attempts.
type FetchedTurn = (OrchestrationItem, String, u32);

/// An instance and its messages that are due, the instance first.
const VIEW: &str = "SELECT TOP @limit * FROM c WHERE c.type = 'instance' \
     OR (c.type = 'orch_queue' AND c.visibleAt <= @now) ORDER BY c.enqueuedAt";

/// More messages than make a turn, so that those which cannot be read do not hide the others.
const VIEW_LIMIT: usize = MAX_MESSAGES + 21;

impl TurnFetcher {
    /// Fetches the next turn of an instance.
    pub(crate) async fn fetch_turn(
        self: &Arc<Self>,
        lock_timeout: Duration,
        poll_timeout: Duration,
        filter: Option<&DispatcherCapabilityFilter>,
    ) -> Result<Option<FetchedTurn>, ProviderError> {
        if filter.is_some_and(|filter| filter.supported_duroxide_versions.is_empty()) {
            return Ok(None);
        }
        self.processes.warn_of_short_lock(lock_timeout);
        let fetched = if poll_timeout.is_zero() || self.is_short_poll {
            let asked = Asked { lock_timeout, filter, terms: None };
            self.look_for_turn_in_slots(asked).await?
        } else {
            let shared = self.dispatch.saw_filter(filter);
            let terms = shared.map(|filter| TurnTerms { lock_timeout, filter });
            let asked = Asked { lock_timeout, filter, terms: terms.as_ref() };
            self.wait_for_turn(asked, poll_timeout).await?
        };
        Ok(fetched.map(|LockedTurn { item, token, attempts, turn, .. }| {
            about_turn(&item.instance, turn);
            (item, token, attempts)
        }))
    }

    /// Fetches from an instance that a hint was about.
    pub(super) async fn fetch_claimed(
        self: &Arc<Self>,
        mut claim: Claim,
        asked: Asked<'_>,
    ) -> Result<Option<LockedTurn>, ProviderError> {
        let messages = claim.take_messages();
        let instance = claim.instance();
        let fetched = async {
            if let Some(messages) = messages
                && let Some(turn) = self.fetch_known(instance, messages, asked).await?
            {
                return Ok(Some(turn));
            }
            self.fetch_from(instance, asked).await
        };
        let fetched =
            fetched.await.map_err(|failure: Failure| failure.tell(OPERATION, instance))?;
        if fetched.is_some() {
            claim.locked();
        }
        Ok(fetched)
    }

    /// Fetches the next turn of an instance without reading it: this process wrote its last turn, or its start, and
    /// all messages that came since. The etags are conditions, so it fails where that is not all there is; but a
    /// message of another process may be left for the next turn.
    async fn fetch_known(
        self: &Arc<Self>,
        instance: &str,
        messages: Vec<ReadMessage>,
        asked: Asked<'_>,
    ) -> Result<Option<LockedTurn>, Failure> {
        let known = self.replays.instance(instance);
        let has_start = messages.iter().any(|message| crate::work_items::is_start(&message.item));
        if known.is_none() && !has_start {
            return Ok(None);
        }
        let view = InstanceView { instance: known, messages, has_unreadable: false };
        let (planned, token) = self.plan_turn(instance, view, asked);
        match planned {
            FetchPlan::Lock(plan) => self.lock(*plan, token, asked).await,
            FetchPlan::Skip(_) | FetchPlan::CleanUp(_) | FetchPlan::Drop(_) => Ok(None),
        }
    }

    /// Plans the next turn of an instance as of now, with a token of its own.
    pub(super) fn plan_turn(
        &self,
        instance: &str,
        view: InstanceView,
        asked: Asked<'_>,
    ) -> (FetchPlan, String) {
        self.with_new_token(instance, asked, |terms| plan(view, terms))
    }

    /// Plans something as of now, with a token of its own.
    pub(crate) fn with_new_token<T>(
        &self,
        instance: &str,
        asked: Asked<'_>,
        plan: impl FnOnce(FetchTerms<'_>) -> T,
    ) -> (T, String) {
        let (clock, now) = (self.store.clock(), self.store.now());
        let nonce = clock.new_id();
        let token = LockToken { instance: instance.to_owned(), worker_item: None, nonce };
        let (token, incarnation) = (token.to_string(), clock.new_id());
        let (locks, owner) =
            (self.processes.lock_view(self.store.lock_time()), self.processes.name());
        let terms = FetchTerms {
            now,
            locks: &locks,
            owner: owner.as_deref(),
            locked_until: now.saturating_add(millis(asked.lock_timeout)),
            token: &token,
            incarnation: &incarnation,
            filter: asked.filter,
        };
        (plan(terms), token)
    }

    /// Fetches the next turn of one instance; none if it has none now.
    pub(super) async fn fetch_from(
        self: &Arc<Self>,
        instance: &str,
        asked: Asked<'_>,
    ) -> Result<Option<LockedTurn>, Failure> {
        // What an earlier turn left is removed at most once; if it comes back, the next fetch sees to it.
        for _ in 0..2 {
            let view = self.view(instance).await?;
            let cleaned = view.instance.clone();
            let messages: Vec<MessageDocument> =
                view.messages.iter().map(|message| message.document.clone()).collect();
            if cleaned.as_ref().is_some_and(|it| it.is_abandoned(self.store.now())) {
                self.deletions.report(instance);
            }
            let (planned, token) = self.plan_turn(instance, view, asked);
            match planned {
                FetchPlan::Skip(why) => {
                    if let Some(why) = why {
                        self.dispatch.turn_blocked(instance, why, self.store.now());
                    }
                    if why == Some(Blocked::Unready) {
                        self.spawn_postpone(instance, messages);
                    }
                    return Ok(None);
                }
                FetchPlan::Drop(writes) => {
                    tracing::warn!(
                        instance,
                        messages = writes.len(),
                        "messages to an orchestration that was never started are dropped"
                    );
                    self.store.remove_all(instance, writes).await?;
                    return Ok(None);
                }
                FetchPlan::CleanUp(writes) => self.clean_up(cleaned, writes).await?,
                FetchPlan::Lock(plan) => return self.lock(*plan, token, asked).await,
            }
        }
        Ok(None)
    }

    /// Reads an instance and its messages that are due.
    pub(super) async fn view(&self, instance: &str) -> Result<InstanceView, Failure> {
        let view = self.view_of(instance, VIEW_LIMIT).await?;
        let is_new = view.instance.as_ref().is_none_or(|it| it.is_provisional && it.turn == 0);
        let has_start = view.messages.iter().any(|it| crate::work_items::is_start(&it.item));
        // The start may be behind more messages than make a turn.
        if is_new && !has_start && view.messages.len() >= MAX_MESSAGES {
            return self.view_of(instance, usize::from(u16::MAX)).await;
        }
        Ok(view)
    }

    async fn view_of(&self, instance: &str, limit: usize) -> Result<InstanceView, Failure> {
        let parameters = [("@now", json!(self.store.now())), ("@limit", json!(limit))];
        let rows: Vec<Value> =
            self.store.brief().values(Scope::Partition(instance), VIEW, &parameters).await?;
        let (mut view, mut messages) = (InstanceView::default(), Vec::new());
        for row in rows {
            match row.get("type").and_then(Value::as_str) {
                Some(kinds::INSTANCE) => view.instance = self.store.readable(row),
                _ => match self.store.readable::<MessageDocument>(row) {
                    Some(message) => messages.push(message),
                    None => view.has_unreadable = true,
                },
            }
        }
        for document in messages {
            let text = self
                .store
                .text_of(&document.instance_id, &document.id, &document.work_item)
                .await?;
            match serde_json::from_str::<WorkItem>(&text) {
                Ok(item) => view.messages.push(ReadMessage { document, item }),
                Err(error) => {
                    tracing::error!(instance, id = document.id, %error, "a message cannot be read and is left out");
                    view.has_unreadable = true;
                }
            }
        }
        Ok(view)
    }

    /// Removes documents that an earlier turn no longer needs. Conditional on the version that was read: a new instance with
    /// the same id has documents with the same ids.
    async fn clean_up(
        &self,
        instance: Option<InstanceDocument>,
        writes: Vec<Write>,
    ) -> Result<(), Failure> {
        let Some(mut instance) = instance else { return Ok(()) };
        let removed = async {
            self.store.remove_fenced(&mut instance, writes, None).await?;
            instance.cleanup.clear();
            let replace = Write::replace_instance(&instance);
            self.store.write_once(&instance.instance_id, &[replace]).await.map(drop)
        };
        match removed.await {
            // The instance has changed: the caller reads it again.
            Err(failure)
                if matches!(failure.cause, Cause::PreconditionFailed | Cause::NotFound) =>
            {
                Ok(())
            }
            removed => removed,
        }
    }

    /// Locks a turn, and reads what it needs.
    async fn lock(
        self: &Arc<Self>,
        plan: LockPlan,
        token: String,
        asked: Asked<'_>,
    ) -> Result<Option<LockedTurn>, Failure> {
        let mut plan = plan;
        let partition = plan.instance.instance_id.clone();
        match self.store.write_once(&partition, &plan.writes).await {
            Ok(results) => plan.instance.etag = results.first().and_then(|it| it.etag().cloned()),
            Err(failure) => match failure.cause {
                // Another dispatcher was faster.
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => return Ok(None),
                Cause::Ambiguous => {
                    let there = self.store.read_instance(&partition).await;
                    // If it was locked, the lock is unused.
                    let there = there.inspect_err(|_| self.spawn_release(token.clone()))?;
                    let Some(there) = there.filter(|there| there.is_held_by(&token)) else {
                        return Ok(None);
                    };
                    plan.instance = there;
                }
                Cause::Transient | Cause::Refused => return Err(failure),
            },
        }
        let locked = self.read_locked_turn(plan, token.clone(), asked).await;
        if let Err(failure) = &locked
            && failure.cause == Cause::Transient
        {
            // The turn was not tried. If its history can never be read, that counts as an attempt, until there are too many.
            self.spawn_release(token);
        }
        locked.map(Some)
    }

    /// Reads what a turn needs that was locked.
    pub(crate) async fn read_locked_turn(
        &self,
        plan: LockPlan,
        token: String,
        asked: Asked<'_>,
    ) -> Result<LockedTurn, Failure> {
        let LockPlan { instance, messages, attempts, has_more, .. } = plan;
        let partition = instance.instance_id.clone();
        let read = self.read_history_and_keys(&instance).await?;
        let (documents, items) = messages.into_iter().map(|it| (it.document, it.item)).unzip();
        let history = read.replay.as_ref().map(|replay| replay.history.as_ref().clone());
        let item =
            orchestration_item(&instance, items, history.map_err(Clone::clone), &read.key_values);
        let held = HeldTurn {
            execution_id: instance.current_execution_id,
            messages: documents,
            key_values: read.key_values,
            replay: read.replay.ok(),
            lock_timeout: asked.lock_timeout,
            terms: asked.terms.cloned(),
            instance,
        };
        let (expires, now) = (held.instance.locked_until.unwrap_or_default(), self.store.now());
        let ready = held.messages.iter().map(|it| it.visible_at.max(it.enqueued_at)).min();
        let waited = ready.map_or(0, |ready| now.saturating_sub(ready));
        self.store.telemetry.claimed(Queue::Orchestrator, waited);
        if attempts > 1 {
            self.store.telemetry.retried(Retried::Turn);
        }
        let turn = held.instance.turn + 1;
        self.dispatch.turn_locked(&partition, expires, has_more, now);
        self.locks.held.insert(&token, held, expires, now);
        Ok(LockedTurn { item, token, attempts, turn, locked_until: expires })
    }
}
