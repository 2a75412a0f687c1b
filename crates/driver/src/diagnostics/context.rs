//! The diagnostics of one operation: all its attempts, hedges included.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidereal_protocol::CosmosStatus;
use smallvec::SmallVec;
use uuid::Uuid;

use super::{Decision, RequestDiagnostics};
use crate::exchange::Endpoint;
use crate::retry::row_of_write;
use crate::system::MachineHistory;

/// The attempts that are kept, so that an operation that is throttled for minutes has a bounded history:
/// then the first ones and the last one stay.
pub(super) const ATTEMPTS_KEPT: usize = 32;

/// Attempts, inline while there is only one: most operations need no second.
type Attempts = SmallVec<[RequestDiagnostics; 1]>;

/// Collects the attempts of an operation while it runs.
#[derive(Clone, Debug)]
pub struct DiagnosticsContextBuilder {
    activity_id: Uuid,
    started: Instant,
    attempts: Attempts,
    left_out: DroppedAttempts,
    machine: Option<Arc<MachineHistory>>,
    warnings: Option<Arc<[String]>>,
}

/// A summary of the attempts that are no longer kept.
#[derive(Clone, Copy, Debug, Default)]
struct DroppedAttempts {
    attempts: usize,
    charge: f64,
    /// Whether one of them may have been carried out although no response of its own says so.
    is_ambiguous: bool,
}

impl DiagnosticsContextBuilder {
    /// An operation that started at a moment, under the id that its requests carry.
    #[must_use]
    pub fn new(activity_id: Uuid, started: Instant) -> Self {
        let (attempts, left_out) = (Attempts::new(), DroppedAttempts::default());
        Self { activity_id, started, attempts, left_out, machine: None, warnings: None }
    }

    /// The id of the operation.
    #[must_use]
    pub fn activity_id(&self) -> Uuid {
        self.activity_id
    }

    /// When the operation started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The attempts so far.
    #[must_use]
    pub fn attempts(&self) -> &[RequestDiagnostics] {
        &self.attempts
    }

    /// Adds an attempt.
    #[inline] // So that an attempt is made where it is kept: a call would copy it twice.
    pub fn push(&mut self, attempt: RequestDiagnostics) {
        if self.attempts.len() < ATTEMPTS_KEPT {
            self.attempts.push(attempt);
        } else if let Some(last) = self.attempts.last_mut() {
            // The last one goes: the newest attempt takes its slot, and its charge was still paid.
            self.left_out.attempts += 1;
            self.left_out.charge += last.charge.unwrap_or(0.0);
            self.left_out.is_ambiguous |= is_ambiguous(last);
            *last = attempt;
        }
    }

    /// Adds an attempt that is about to be made, to be filled in while it runs.
    #[inline] // As `push`.
    pub fn begin(&mut self, attempt: RequestDiagnostics) -> &mut RequestDiagnostics {
        self.push(attempt);
        self.attempts.last_mut().expect("one was just added")
    }

    /// Records the decision after the last attempt at an endpoint.
    pub fn decided(&mut self, endpoint: &Endpoint, decision: Decision) {
        // Not simply the last attempt: that may be the other leg of a race.
        if let Some(last) = self.attempts.iter_mut().rfind(|it| it.endpoint == *endpoint) {
            last.decision = Some(decision);
        }
    }

    /// The last attempt at an endpoint.
    #[must_use]
    pub fn last_at(&self, endpoint: &Endpoint) -> Option<&RequestDiagnostics> {
        self.attempts.iter().rfind(|it| it.endpoint == *endpoint)
    }

    /// Records why an attempt that is still under way was cancelled.
    pub fn left(&mut self, reason: &'static str) {
        if let Some(last) = self.attempts.last_mut().filter(|last| last.elapsed().is_none()) {
            last.decision = Some(Decision::Finish { reason });
        }
    }

    /// Adds the attempts of a hedge that won or lost, in the order in which all of them started. What the
    /// loser cost was charged too.
    pub fn absorb(&mut self, other: Self) {
        self.left_out.attempts += other.left_out.attempts;
        self.left_out.charge += other.left_out.charge;
        self.left_out.is_ambiguous |= other.left_out.is_ambiguous;
        for attempt in other.attempts {
            self.push(attempt);
        }
        // Stable: attempts that started in the same instant keep the order of their operation.
        self.attempts.sort_by_key(|attempt| attempt.started);
        self.machine = self.machine.take().or(other.machine);
        self.warnings = self.warnings.take().or(other.warnings);
    }

    /// Adds the load of the machine.
    pub fn observe_machine(&mut self, machine: Arc<MachineHistory>) {
        self.machine = Some(machine);
    }

    /// Adds warnings about the account and its settings.
    pub fn warn(&mut self, warnings: Arc<[String]>) {
        self.warnings = Some(warnings);
    }

    /// Completes the history. There is no status if the operation failed before anything was attempted.
    #[must_use]
    pub fn complete(
        self,
        status: impl Into<Option<CosmosStatus>>,
        now: Instant,
    ) -> DiagnosticsContext {
        let elapsed = now.saturating_duration_since(self.started);
        Box::new(self).complete_boxed(status.into(), elapsed)
    }

    /// Completes a history that is on the heap already.
    pub(crate) fn complete_boxed(
        self: Box<Self>,
        status: Option<CosmosStatus>,
        elapsed: Duration,
    ) -> DiagnosticsContext {
        DiagnosticsContext { status, elapsed, collected: self }
    }
}

/// The diagnostics of an operation that has ended.
///
/// `Display` tells it to people: a headline, then a line for each attempt. [`to_json`](Self::to_json)
/// tells it to machines.
#[derive(Clone, Debug)]
pub struct DiagnosticsContext {
    status: Option<CosmosStatus>,
    elapsed: Duration,
    /// On the heap, from the start of the operation on: a response is moved through every layer up to the
    /// application, and would be copied with all of its attempts each time.
    collected: Box<DiagnosticsContextBuilder>,
}

impl DiagnosticsContext {
    /// The id that the requests carried; the service's own records have it too.
    #[must_use]
    pub fn activity_id(&self) -> Uuid {
        self.collected.activity_id
    }

    /// When the operation started.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.collected.started
    }

    /// The duration, waits between attempts included.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The status of the outcome.
    #[must_use]
    pub fn status(&self) -> Option<CosmosStatus> {
        self.status
    }

    /// The attempts in the order in which they started. Of very many, the first and the last.
    #[must_use]
    pub fn attempts(&self) -> &[RequestDiagnostics] {
        &self.collected.attempts
    }

    /// How many attempts were made that are not among [`attempts`](Self::attempts).
    #[must_use]
    pub fn attempts_left_out(&self) -> usize {
        self.collected.left_out.attempts
    }

    /// The charge of all attempts, in request units: also of those that failed or came too late.
    #[must_use]
    pub fn charge(&self) -> f64 {
        let kept = self.attempts().iter().filter_map(|attempt| attempt.charge).sum::<f64>();
        self.collected.left_out.charge + kept
    }

    /// Whether an attempt may have been carried out although no response of its own says so: a write that is answered
    /// with 409 after such an attempt may have met what it wrote itself.
    #[must_use]
    pub fn has_ambiguous_attempt(&self) -> bool {
        self.collected.left_out.is_ambiguous || self.attempts().iter().any(is_ambiguous)
    }

    /// Warnings about the account and its settings, beside this operation.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.collected.warnings.as_deref().unwrap_or_default()
    }

    /// The load of the machine, if it was recorded.
    #[must_use]
    pub fn machine(&self) -> Option<&MachineHistory> {
        self.collected.machine.as_deref()
    }

    /// When it ended.
    pub(super) fn ended(&self) -> Instant {
        self.collected.started + self.elapsed
    }
}

/// Whether an attempt at a write may have been carried out although no response says so.
fn is_ambiguous(attempt: &RequestDiagnostics) -> bool {
    match (attempt.status, &attempt.failure) {
        (Some(status), None) => row_of_write(status).is_ambiguous,
        // Lost, or abandoned: what was never sent did nothing.
        (_, Some(_)) | (None, None) => !attempt.request_sent.is_safe_to_resend(),
    }
}

#[cfg(test)]
impl DiagnosticsContextBuilder {
    pub(super) fn attempts_are_inline(&self) -> bool {
        !self.attempts.spilled()
    }
}
