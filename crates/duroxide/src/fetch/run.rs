//! The requests of a fetch: candidates, one look at an instance, its lock, its history.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, KvEntry, OrchestrationItem, ProviderError, WorkItem,
};
use duroxide::{Event, EventKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::ahead::give_back;
use super::terms::{Asked, LockedTurn, TurnTerms};
use super::{
    Blocked, FetchPlan, FetchTerms, InstanceView, LockPlan, MAX_MESSAGES, ReadMessage,
    is_supported, plan,
};
use crate::cache::Replay;
use crate::call::about_turn;
use crate::core::Core;
use crate::dispatch::Claim;
use crate::documents::{InstanceDocument, KeyValueDocument, MessageDocument, kinds};
use crate::failure::{Cause, Failure};
use crate::held::HeldTurn;
use crate::leases::{ALL_SLOTS, Slots, caller_id};
use crate::lock_token::LockToken;
use crate::store::{Scope, millis};
use crate::telemetry::{Occurrence, Queue, Retried};
use crate::write;

const OPERATION: &str = "fetch_orchestration_item";

/// What a dispatcher is given: the turn, its token, how often it was tried.
type FetchedTurn = (OrchestrationItem, String, u32);

/// Instances with messages that are due.
const CANDIDATES: &str = "SELECT c.instanceId FROM c WHERE c.type = 'orch_queue' AND c.visibleAt <= @now \
     AND (NOT IS_DEFINED(c.retryAt) OR c.retryAt <= @now) AND ";

/// An instance and its messages that are due, the instance first.
const VIEW: &str = "SELECT TOP @limit * FROM c WHERE c.type = 'instance' \
     OR (c.type = 'orch_queue' AND c.visibleAt <= @now) ORDER BY c.enqueuedAt";

/// The events of an execution, and the keys of the instance.
const HISTORY: &str = "SELECT * FROM c WHERE (c.type = 'history' AND c.executionId = @execution) \
     OR (c.type = 'kv' AND @keys)";

/// How many candidates are read at once.
const CANDIDATE_PAGE: u32 = 100;

/// After so many candidates that cannot be fetched, the others are asked for their states at once, page by page: a
/// crowd of locked instances must not cost a request each.
const BLOCKED_IN_A_ROW: usize = 3;

/// More messages than make a turn, so that those which cannot be read do not hide the others.
const VIEW_LIMIT: usize = MAX_MESSAGES + 21;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    instance_id: String,
}

impl Core {
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
        let (locks, owner) = (self.lock_view(), self.processes.name());
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

    /// Looks once: with short polls in the slots of the dispatcher first, then everywhere. A runtime never gives
    /// slots back, so some may be nobody's.
    async fn look_for_turn_in_slots(
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
        let (is_free, [lock_time, gone]) = self.lock_view().is_free();
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
                let (core, kept) = (Arc::clone(self), asked.kept());
                let fetch = async move {
                    let fetched = core.fetch_from(&instance, kept.asked()).await;
                    fetched.map_err(|failure| failure.tell(OPERATION, &instance))
                };
                match self.claim_to_the_end(give_back, Box::pin(fetch)).await? {
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

    /// Fetches the next turn of one instance; none if it has none now.
    async fn fetch_from(
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
                self.finish_deletion(instance);
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
                    self.remove_all(instance, writes).await?;
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
            let text =
                self.text_of(&document.instance_id, &document.id, &document.work_item).await?;
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

    /// Removes documents that nobody needs, in as many batches as it takes. One that is gone already is as good.
    pub(crate) async fn remove_all(
        &self,
        instance: &str,
        writes: Vec<write::Write>,
    ) -> Result<(), Failure> {
        for chunk in write::chunks(writes, 0) {
            match self.store.write_once(instance, &chunk).await {
                Ok(_) => {}
                Err(failure) if failure.cause == Cause::NotFound => {
                    for write in &chunk {
                        match self.store.write_once(instance, std::slice::from_ref(write)).await {
                            Err(failure) if failure.cause != Cause::NotFound => {
                                return Err(failure);
                            }
                            _ => {}
                        }
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Removes documents that an earlier turn no longer needs. Conditional on the version that was read: a new instance with
    /// the same id has documents with the same ids.
    async fn clean_up(
        &self,
        instance: Option<InstanceDocument>,
        writes: Vec<write::Write>,
    ) -> Result<(), Failure> {
        let Some(mut instance) = instance else { return Ok(()) };
        let removed = async {
            self.remove_fenced(&mut instance, writes, None).await?;
            instance.cleanup.clear();
            let replace = crate::ack::replaced(&instance);
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
                    let there = self.read_instance(&partition).await;
                    // If it was locked, nobody works with the lock.
                    let there = there.inspect_err(|_| self.spawn_release(token.clone()))?;
                    let Some(there) = there.filter(|there| there.is_held_by(&token)) else {
                        return Ok(None);
                    };
                    plan.instance = there;
                }
                Cause::Transient | Cause::Refused => return Err(failure),
            },
        }
        let locked = self.locked(plan, token.clone(), asked).await;
        if let Err(failure) = &locked
            && failure.cause == Cause::Transient
        {
            // The turn was not tried. If its history can never be read, that counts as an attempt, until there are too many.
            self.spawn_release(token);
        }
        locked.map(Some)
    }

    /// Reads what a turn needs that was locked.
    pub(crate) async fn locked(
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
        self.turns.insert(&token, held, expires, now);
        Ok(LockedTurn { item, token, attempts, turn, locked_until: expires })
    }

    /// Reads an instance.
    pub(crate) async fn read_instance(
        &self,
        instance: &str,
    ) -> Result<Option<InstanceDocument>, Failure> {
        self.store.read(instance, &crate::ids::instance(instance)).await
    }

    async fn read_history_and_keys(&self, instance: &InstanceDocument) -> Result<Read, Failure> {
        let has_keys = instance.key_values > 0;
        if instance.turn == 0 && instance.revision == 0 && !has_keys {
            let replay = Ok(Replay::new(Vec::new(), 0, Some(Arc::default())));
            return Ok(Read { replay, key_values: Arc::default() });
        }
        if let Some(replay) = self.replays.get(instance)
            && let Some(key_values) = known_keys(&replay, has_keys)
        {
            self.store.telemetry.occurred(Occurrence::HistoryCached);
            return Ok(Read { key_values, replay: Ok(replay) });
        }
        self.store.telemetry.occurred(Occurrence::HistoryRead);
        let parameters =
            [("@execution", json!(instance.current_execution_id)), ("@keys", json!(has_keys))];
        let partition = Scope::Partition(&instance.instance_id);
        let rows: Vec<Value> = self.store.brief().values(partition, HISTORY, &parameters).await?;
        let (events, keys): (Vec<Value>, Vec<Value>) =
            rows.into_iter().partition(|row| row["type"] == kinds::HISTORY);
        let history = self.decode_history(instance, events).await?;
        let committed = |document: KeyValueDocument| document.committed_by(instance.turn);
        let key_values: Vec<KeyValueDocument> =
            keys.into_iter().filter_map(|row| self.store.readable(row)).map(committed).collect();
        let key_values = Arc::new(key_values);
        let replay = history.map(|(history, bytes)| {
            let replay = Replay::new(history, bytes, Some(Arc::clone(&key_values)));
            self.replays.put(instance, replay.clone());
            replay
        });
        Ok(Read { replay, key_values })
    }
}

/// The keys of an instance whose history is known, if they are known too.
fn known_keys(replay: &Replay, has_keys: bool) -> Option<Arc<Vec<KeyValueDocument>>> {
    match has_keys {
        false => Some(Arc::default()),
        true => replay.key_values.clone(),
    }
}

/// What a turn is replayed from. The history is an error if an event cannot be read.
struct Read {
    replay: Result<Replay, String>,
    key_values: Arc<Vec<KeyValueDocument>>,
}

/// What the runtime is given.
fn orchestration_item(
    instance: &InstanceDocument,
    messages: Vec<WorkItem>,
    history: Result<Vec<Event>, String>,
    key_values: &[KeyValueDocument],
) -> OrchestrationItem {
    let (history, history_error) = match history {
        Ok(history) => (history, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let (name, version) = named(instance, &messages, &history);
    let snapshot = |document: &KeyValueDocument| {
        let change = document.at_start()?;
        let (value, last_updated_at_ms) = (change.value.clone()?, change.last_updated_at);
        Some((document.key.clone(), KvEntry { value, last_updated_at_ms }))
    };
    let kv_snapshot = match history_error {
        Some(_) => HashMap::new(),
        None => key_values.iter().filter_map(snapshot).collect(),
    };
    OrchestrationItem {
        instance: instance.instance_id.clone(),
        orchestration_name: name,
        execution_id: instance.current_execution_id,
        version,
        history,
        messages,
        history_error,
        kv_snapshot,
    }
}

/// The orchestration that an instance runs: as a turn named it, as its history says, or as its start asks for.
fn named(
    instance: &InstanceDocument,
    messages: &[WorkItem],
    history: &[Event],
) -> (String, String) {
    const UNKNOWN: &str = "unknown";
    if let Some(name) = &instance.orchestration_name {
        let version = instance.orchestration_version.clone();
        return (name.clone(), version.unwrap_or_else(|| UNKNOWN.to_owned()));
    }
    let started = history.iter().find_map(|event| match &event.kind {
        EventKind::OrchestrationStarted { name, version, .. } => {
            Some((name.clone(), version.clone()))
        }
        _ => None,
    });
    let asked = || {
        messages.iter().find_map(|message| match message {
            WorkItem::StartOrchestration { orchestration, version, .. }
            | WorkItem::ContinueAsNew { orchestration, version, .. } => {
                let version = version.clone().unwrap_or_else(|| UNKNOWN.to_owned());
                Some((orchestration.clone(), version))
            }
            _ => None,
        })
    };
    started.or_else(asked).unwrap_or_else(|| (UNKNOWN.to_owned(), UNKNOWN.to_owned()))
}
