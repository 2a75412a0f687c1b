//! Executing a bulk: take, group, send, judge, until nothing is left.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

use futures_core::Stream;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_driver::options::AmbiguousWriteRetry;
use sidereal_driver::{ContainerMetadata, CosmosOperation};
use sidereal_protocol::{BatchResult, PartitionKeyRangeId, ResourceLink};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::builder::{Limits, ProgressCallback};
use super::completed_batch::{CompletedBatch, Judged, judge, refusal, results_of};
use super::next_step::{Again, NextStep};
use super::operation::{Name, batch_body};
use super::range_queue::{Pending, RangeQueue};
use super::results::Results;
use super::source::Source;
use super::window::Window;
use super::{Bulk, BulkOperation, BulkProgress, BulkReport, BulkResult};
use crate::error::OperationFailure;
use crate::long_call::Call;
use crate::telemetry::in_current_context;
use crate::{BatchOperationResult, ContainerClient, Error, Result};

/// Operations that are taken in one go, between two looks at what has come back.
const TAKEN_AT_ONCE: usize = 1_000;
/// Operations that were taken and are not over, whatever their size: queues of many ranges need room to fill.
const MAX_HELD_OPERATIONS: usize = 50_000;

/// The activity named in the error when the deadline passes or the caller cancels.
const WAITED: &str = "operations waited to be sent";

/// A bulk under way.
pub(super) struct Engine<S> {
    container: ContainerClient,
    link: ResourceLink,
    metadata: Arc<ContainerMetadata>,
    call: Arc<Call>,
    ambiguous_writes: AmbiguousWriteRetry,
    /// Writes are answered with their items.
    wants_items: bool,
    limits: Limits,
    callback: Option<ProgressCallback>,
    source: Source<S>,
    lanes: BTreeMap<PartitionKeyRangeId, RangeQueue>,
    in_flight: JoinSet<CompletedBatch>,
    /// The operations that were taken and are not over, by their position.
    open: HashMap<usize, Name>,
    results: Results,
    /// Why no more was taken of an input that had not ended.
    interruption: Option<Error>,
    held_bytes: usize,
    progress: BulkProgress,
}

/// An event that the engine waits for.
enum Event<T> {
    Completed(Box<CompletedBatch>),
    Taken(Option<T>),
    PauseEnded,
}

impl<S: Stream<Item = BulkOperation>> Engine<S> {
    pub(super) async fn new(bulk: Bulk, source: Source<S>) -> Result<Self> {
        let Bulk { container, call, limits, progress: callback, results } = bulk;
        let (link, call) = (container.link()?.clone(), call.started());
        let metadata = container.driver().container(&link);
        let metadata = call.bounded("the container was being read", metadata).await??;
        let ambiguous_writes =
            container.driver().ambiguous_write_retry(&call.options().availability);
        let wants_items = container.driver().content_response_on_write(&call.options().write);
        Ok(Self {
            container,
            link,
            metadata,
            ambiguous_writes,
            wants_items,
            call: Arc::new(call),
            limits,
            callback,
            source,
            lanes: BTreeMap::new(),
            in_flight: JoinSet::new(),
            open: HashMap::new(),
            results: Results::new(results),
            interruption: None,
            held_bytes: 0,
            progress: BulkProgress::default(),
        })
    }

    /// Executes it to its end.
    pub(super) async fn run(mut self) -> Result<BulkReport> {
        loop {
            let may_take_more = self.take().await;
            // Also where there is nothing to wait for: an input that always has more would be taken for ever, to fail.
            // After it was looked at, so that what it had is among the results and says why it ended.
            if !self.source.has_ended()
                && let Err(error) = self.call.check(WAITED)
            {
                self.give_up(&error).await;
            }
            self.send(may_take_more);
            if self.is_over() {
                break;
            }
            if may_take_more {
                while let Some(completed) = self.in_flight.try_join_next() {
                    self.settle(completed_of(completed)).await;
                }
                // For batches that were sent on a runtime with one thread.
                tokio::task::yield_now().await;
                continue;
            }
            if let ControlFlow::Break(error) = self.wait().await {
                self.give_up(&error).await;
            }
        }
        let Self { results, progress, interruption, .. } = self;
        Ok(BulkReport { results: results.into_kept(), progress, interruption })
    }

    fn is_over(&self) -> bool {
        self.source.has_ended() && self.in_flight.is_empty() && self.open.is_empty()
    }

    /// One operation is taken whatever the bound: a smaller one would never come to an end.
    fn has_room(&self) -> bool {
        self.open.is_empty()
            || self.held_bytes < self.limits.held_bytes && self.open.len() < MAX_HELD_OPERATIONS
    }

    /// Takes what the source has ready. Says whether it may have more and there is room for it.
    async fn take(&mut self) -> bool {
        for _ in 0..TAKEN_AT_ONCE {
            if self.source.has_ended() || !self.has_room() {
                return false;
            }
            let polled = std::future::poll_fn(|context| {
                Poll::Ready(match self.source.poll_next(context) {
                    Poll::Ready(taken) => Some(taken),
                    Poll::Pending => None,
                })
            });
            match polled.await {
                Some(Some(operation)) => self.accept(operation),
                Some(None) | None => return false,
            }
        }
        true
    }

    /// Puts an operation into the queue of its partition range; fails it if it has none.
    fn accept(&mut self, operation: BulkOperation) {
        let (name, encoded) = operation.encoded(self.wants_items);
        let index = self.progress.taken;
        self.progress.taken += 1;
        let definition = self.metadata.partition_key_definition();
        let placed = encoded.and_then(|mut encoded| {
            encoded.is_repeatable =
                self.ambiguous_writes.permits(encoded.is_repeatable, encoded.is_conditional);
            if name.key.components().len() != definition.paths().len()
                && !name.key.components().is_empty()
            {
                return Err(Error::invalid(format!(
                    "the key has {} components and the container is partitioned by {}, {definition}: give a \
                     component for each",
                    name.key.components().len(),
                    definition.paths().len()
                )));
            }
            let effective_key = definition.effective_key(&name.key)?;
            Ok(Pending::new(index, encoded, effective_key))
        });
        self.open.insert(index, name);
        match placed {
            Ok(pending) => {
                self.held_bytes += pending.encoded.len();
                self.lane(&pending).push(pending);
            }
            Err(error) => self.fail(index, &error, false, None),
        }
    }

    /// The queue of an operation, by the partition ranges that are known now.
    fn lane(&mut self, operation: &Pending) -> &mut RangeQueue {
        let range = self.metadata.ranges().at(&operation.effective_key).id().clone();
        let per_range = self.limits.per_range;
        self.lanes.entry(range).or_insert_with(|| RangeQueue::new(Window::new(per_range)))
    }

    /// Sends what can be sent: one batch of each range in turn, so that none waits for another's.
    fn send(&mut self, may_take_more: bool) {
        let now = Instant::now();
        loop {
            let mut batches = Vec::new();
            for (range, lane) in &mut self.lanes {
                // A batch that is not full waits for more, unless there is no more or nothing of the range is
                // under way.
                let is_due = lane.has_full_batch()
                    || !may_take_more && (self.source.has_ended() || lane.window.is_idle());
                let has_slot = self.in_flight.len() + batches.len() < self.limits.concurrency;
                if has_slot && is_due && !lane.is_empty() && lane.window.admits(now) {
                    lane.window.sent();
                    batches.push((range.clone(), lane.cut()));
                }
            }
            if batches.is_empty() {
                return;
            }
            for (range, batch) in batches {
                self.launch(range, batch);
            }
        }
    }

    fn launch(&mut self, range: PartitionKeyRangeId, batch: Vec<Pending>) {
        let (driver, call) = (Arc::clone(self.container.driver()), Arc::clone(&self.call));
        let link = self.link.clone();
        self.in_flight.spawn(in_current_context(async move {
            let body = batch_body(batch.iter().map(|it| &it.encoded));
            let is_repeatable = batch.iter().all(|it| it.encoded.is_repeatable);
            // Each is applied by itself, so the condition of one guards none of the others.
            let is_conditional = batch.iter().all(|it| it.encoded.is_conditional);
            // A link of a container makes a path.
            let operation = CosmosOperation::execute_bulk(&link, range.clone(), body)
                .expect("the link is a container's: it was resolved");
            let operation = if is_repeatable { operation.repeatable() } else { operation };
            let operation = if is_conditional { operation.conditional() } else { operation };
            let outcome = driver.execute_operation(&operation, &call.options()).await;
            CompletedBatch { range, batch, outcome: outcome.map_err(Arc::new) }
        }));
    }

    /// Waits until something can be done. Breaks if the call is over before that.
    async fn wait(&mut self) -> ControlFlow<Error> {
        let now = Instant::now();
        let waiting = self.lanes.values().filter(|lane| !lane.is_empty());
        let resumed = waiting.filter_map(|lane| lane.window.paused_until(now)).min();
        let takes = !self.source.has_ended() && self.has_room();
        let (in_flight, source) = (&mut self.in_flight, &mut self.source);
        let event = async {
            tokio::select! {
                biased;
                Some(completed) = in_flight.join_next() => {
                    Event::Completed(Box::new(completed_of(completed)))
                }
                taken = std::future::poll_fn(|context| source.poll_next(context)), if takes => {
                    Event::Taken(taken)
                }
                () = sleep_until(resumed), if resumed.is_some() => Event::PauseEnded,
            }
        };
        match self.call.bounded(WAITED, event).await {
            Ok(Event::Completed(batch)) => self.settle(*batch).await,
            Ok(Event::Taken(Some(operation))) => self.accept(operation),
            Ok(Event::Taken(None) | Event::PauseEnded) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    /// Ends what was not sent, and waits for what was: its requests have the same deadline.
    async fn give_up(&mut self, error: &Error) {
        if !self.source.has_ended() {
            self.interruption = Some(error.clone());
        }
        self.source.end();
        while !self.in_flight.is_empty() || !self.open.is_empty() {
            let lanes = std::mem::take(&mut self.lanes).into_values();
            for pending in lanes.flat_map(|mut lane| lane.drain()) {
                self.fail(pending.index, error, pending.may_have_been_applied, None);
                self.held_bytes -= pending.encoded.len();
            }
            if let Some(completed) = self.in_flight.join_next().await {
                self.settle(completed_of(completed)).await;
            }
        }
    }

    /// Takes in what came of a batch.
    async fn settle(&mut self, completed: CompletedBatch) {
        let CompletedBatch { range, batch, outcome } = completed;
        let now = Instant::now();
        let diagnostics = match &outcome {
            Ok(response) => Some(Arc::new(response.diagnostics().clone())),
            Err(error) => error.diagnostics().cloned().map(Arc::new),
        };
        if let Some(diagnostics) = &diagnostics {
            self.progress.requests +=
                diagnostics.attempts().len() + diagnostics.attempts_left_out();
            self.progress.request_charge += diagnostics.charge();
        }
        let results = match outcome {
            Ok(response) => results_of(&response, batch.len()),
            Err(error) => Err(Error::from(error)),
        };
        let judged = judge(batch, results, diagnostics.as_deref());
        let is_moved = judged.iter().any(|it| matches!(it.again(), Some(Again::Moved)));
        self.adjust(&range, &judged, diagnostics.as_deref(), now);
        if is_moved {
            self.refresh(&range).await;
        }
        // From the last to the first, each to the front: their order stays.
        for judged in judged.into_iter().rev() {
            self.apply(judged, diagnostics.as_ref());
        }
        if let Some(callback) = &mut self.callback {
            callback(self.progress);
        }
    }

    /// The feedback of a batch for its range's congestion window.
    fn adjust(
        &mut self,
        range: &PartitionKeyRangeId,
        judged: &[Judged],
        diagnostics: Option<&DiagnosticsContext>,
        now: Instant,
    ) {
        let throttles = judged.iter().filter_map(|it| match it.again() {
            Some(Again::Throttled { retry_after }) => Some(retry_after),
            _ => None,
        });
        let throttles: Vec<_> = throttles.collect();
        self.progress.throttled += throttles.len();
        // Moved: a split that is under way. One that is over leaves nothing in this queue.
        let has_failed =
            judged.iter().any(|it| matches!(it.again(), Some(Again::Failed | Again::Moved)));
        // Throttled and waited out by the driver: the range has had enough all the same.
        let was_throttled = diagnostics.is_some_and(|it| {
            it.attempts().iter().any(|attempt| attempt.status.is_some_and(|it| it.code() == 429))
        });
        let Some(lane) = self.lanes.get_mut(range) else { return };
        lane.window.completed();
        match throttles.iter().max() {
            Some(longest) => lane.window.throttled(now, *longest),
            None if was_throttled => lane.window.throttled(now, Some(Default::default())),
            None if has_failed => lane.window.pause(now, None),
            None => lane.window.succeeded(),
        }
    }

    /// Learns what took the place of a partition range, and moves what waits for ranges that are gone.
    async fn refresh(&mut self, gone: &PartitionKeyRangeId) {
        let driver = Arc::clone(self.container.driver());
        // The driver has refreshed it if it was told that the range is gone; a result within a batch tells the
        // driver nothing.
        let known = driver.known_container(&self.link);
        let known = known.filter(|it| it.ranges().by_id(gone.as_str()).is_none());
        let metadata = match known {
            Some(metadata) => Ok(metadata),
            None => {
                let refreshed = driver.refresh_container(&self.link);
                match self.call.bounded("partition ranges were being read", refreshed).await {
                    Ok(Ok(metadata)) => Ok(metadata),
                    Ok(Err(_)) | Err(_) => Err(()),
                }
            }
        };
        // With what is known the next attempt fails as this one did, and its retries are bounded.
        let Ok(metadata) = metadata else { return };
        self.metadata = metadata;
        let mut moved: VecDeque<Pending> = VecDeque::new();
        let ranges = self.metadata.ranges();
        for (range, lane) in &mut self.lanes {
            if ranges.by_id(range.as_str()).is_none() {
                moved.append(&mut lane.drain());
            }
        }
        self.lanes.retain(|range, lane| {
            self.metadata.ranges().by_id(range.as_str()).is_some() || !lane.window.is_idle()
        });
        for pending in moved {
            self.lane(&pending).push(pending);
        }
    }

    fn apply(&mut self, judged: Judged, diagnostics: Option<&Arc<DiagnosticsContext>>) {
        let Judged { mut pending, next_step, outcome, together } = judged;
        match next_step {
            NextStep::Done => {
                self.held_bytes -= pending.encoded.len();
                if let Ok(result) = outcome {
                    self.succeed(pending.index, result);
                }
            }
            NextStep::Failed { may_have_been_applied } => {
                self.held_bytes -= pending.encoded.len();
                let error = outcome.map_or_else(|error| error, |result| refusal(&result));
                self.fail(pending.index, &error, may_have_been_applied, diagnostics);
            }
            NextStep::Again { why, may_have_been_applied } => {
                pending.may_have_been_applied = may_have_been_applied;
                match why {
                    Again::Throttled { .. } => pending.throttled += 1,
                    Again::Smaller => pending.most_together = (together / 2).max(1),
                    Again::Moved | Again::Failed => pending.resent += 1,
                }
                self.lane(&pending).push_front(pending);
            }
        }
    }

    fn succeed(&mut self, index: usize, result: BatchResult) {
        self.progress.succeeded += 1;
        self.end(index, |_| Ok(BatchOperationResult(result)));
    }

    fn fail(
        &mut self,
        index: usize,
        error: &Error,
        may_have_been_applied: bool,
        diagnostics: Option<&Arc<DiagnosticsContext>>,
    ) {
        self.progress.failed += 1;
        let failure = OperationFailure {
            status: error.status(),
            may_have_been_applied,
            diagnostics: diagnostics.cloned(),
        };
        self.end(index, |name| {
            let id = name.id.as_deref().map(|id| format!(" {id}")).unwrap_or_default();
            let maybe = if may_have_been_applied { " (it may have been applied)" } else { "" };
            let message =
                format!("operation {index} ({}{id} of {}): {error}{maybe}", name.kind, name.key);
            Err(Error::of_operation(error.kind(), message, failure, Some(error)))
        });
    }

    fn end(&mut self, index: usize, outcome: impl FnOnce(&Name) -> Result<BatchOperationResult>) {
        if let Some(name) = self.open.remove(&index) {
            let outcome = outcome(&name);
            self.results.take(BulkResult::new(index, name, outcome));
        }
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// The tasks only wait for the driver: one that panics is a defect, and is passed on.
fn completed_of(joined: Result<CompletedBatch, tokio::task::JoinError>) -> CompletedBatch {
    match joined {
        Ok(completed) => completed,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
