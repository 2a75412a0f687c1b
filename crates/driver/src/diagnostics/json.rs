//! Diagnostics for machines: the same facts under names that stay.

use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use sidereal_protocol::{CosmosStatus, PartitionKeyRangeId, RegionName};

use super::{Decision, DiagnosticsContext, RequestDiagnostics, RetryTarget};
use crate::exchange::{HttpProtocol, RequestSentStatus};
use crate::session::LogSequenceNumber;
use crate::system::MachineReading;

impl DiagnosticsContext {
    /// The diagnostics as one line of JSON. Durations are in milliseconds, names in snake case, and what
    /// is not known is null.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers, text and lists can always be written")
    }
}

impl Serialize for DiagnosticsContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attempts = self.attempts().iter();
        let readings = self.machine().map(|machine| machine.readings().iter());
        let document = ContextDocument {
            activity_id: self.activity_id().to_string(),
            status: self.status().map(StatusDocument::from),
            elapsed_ms: milliseconds(self.elapsed()),
            charge: self.charge(),
            attempts: attempts
                .map(|attempt| AttemptDocument::of(attempt, self.started()))
                .collect(),
            attempts_left_out: self.attempts_left_out(),
            warnings: self.warnings(),
            machine: readings
                .map(|all| all.map(|one| ReadingDocument::of(one, self.ended())).collect()),
        };
        document.serialize(serializer)
    }
}

/// Milliseconds with three decimals: what a microsecond clock can tell.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

#[derive(Serialize)]
struct ContextDocument<'a> {
    activity_id: String,
    status: Option<StatusDocument>,
    elapsed_ms: f64,
    charge: f64,
    attempts: Vec<AttemptDocument<'a>>,
    attempts_left_out: usize,
    warnings: &'a [String],
    machine: Option<Vec<ReadingDocument>>,
}

#[derive(Serialize)]
struct StatusDocument {
    code: u16,
    sub_status: u32,
    name: Option<&'static str>,
}

impl From<CosmosStatus> for StatusDocument {
    fn from(status: CosmosStatus) -> Self {
        Self { code: status.code(), sub_status: status.sub_status(), name: status.name() }
    }
}

#[derive(Serialize)]
struct AttemptDocument<'a> {
    execution_context: &'static str,
    region: Option<&'a str>,
    endpoint: &'a str,
    partition_range: Option<&'a str>,
    shard: Option<u64>,
    protocol: Option<&'static str>,
    request_sent: &'static str,
    status: Option<StatusDocument>,
    charge: Option<f64>,
    lsn: Option<i64>,
    global_committed_lsn: Option<i64>,
    started_after_ms: f64,
    queued_ms: f64,
    connecting_ms: f64,
    time_to_headers_ms: Option<f64>,
    server_duration_ms: Option<f64>,
    elapsed_ms: Option<f64>,
    events: Vec<EventDocument>,
    failure: Option<&'a str>,
    decision: Option<DecisionDocument>,
}

impl<'a> AttemptDocument<'a> {
    fn of(attempt: &'a RequestDiagnostics, operation_started: Instant) -> Self {
        let started_after = attempt.started.saturating_duration_since(operation_started);
        let events = attempt.events.iter();
        Self {
            execution_context: attempt.execution_context.as_str(),
            region: attempt.region.as_ref().map(RegionName::as_str),
            endpoint: attempt.endpoint.as_str(),
            partition_range: attempt.partition_range.as_ref().map(PartitionKeyRangeId::as_str),
            shard: attempt.shard,
            protocol: attempt.protocol.map(HttpProtocol::as_str),
            request_sent: name_of(attempt.request_sent),
            status: attempt.status.map(StatusDocument::from),
            charge: attempt.charge,
            lsn: attempt.session.lsn.map(LogSequenceNumber::value),
            global_committed_lsn: attempt
                .session
                .global_committed_lsn
                .map(LogSequenceNumber::value),
            started_after_ms: milliseconds(started_after),
            queued_ms: milliseconds(attempt.queued()),
            connecting_ms: milliseconds(attempt.connecting()),
            time_to_headers_ms: attempt.time_to_headers().map(milliseconds),
            server_duration_ms: attempt.server_duration.map(milliseconds),
            elapsed_ms: attempt.elapsed().map(milliseconds),
            events: events
                .map(|event| EventDocument {
                    kind: event.kind.as_str(),
                    at_ms: milliseconds(event.at),
                })
                .collect(),
            failure: attempt.failure.as_deref(),
            decision: attempt.decision.map(DecisionDocument::from),
        }
    }
}

const fn name_of(request_sent: RequestSentStatus) -> &'static str {
    match request_sent {
        RequestSentStatus::NotSent => "not_sent",
        RequestSentStatus::NotProcessed => "not_processed",
        RequestSentStatus::MaybeSent => "maybe_sent",
    }
}

#[derive(Serialize)]
struct EventDocument {
    kind: &'static str,
    at_ms: f64,
}

#[derive(Serialize)]
struct DecisionDocument {
    next: &'static str,
    after_ms: Option<f64>,
    target: Option<&'static str>,
    why: &'static str,
}

impl From<Decision> for DecisionDocument {
    fn from(decision: Decision) -> Self {
        Self {
            next: decision.as_str(),
            after_ms: decision.after().map(milliseconds),
            target: decision.target().map(RetryTarget::as_str),
            why: decision.reason(),
        }
    }
}

#[derive(Serialize)]
struct ReadingDocument {
    age_ms: f64,
    cpu_load: Option<f64>,
    memory_used_bytes: u64,
    memory_total_bytes: u64,
    process_memory_bytes: Option<u64>,
}

impl ReadingDocument {
    fn of(reading: &MachineReading, operation_ended: Instant) -> Self {
        let age = operation_ended.saturating_duration_since(reading.at);
        Self {
            age_ms: milliseconds(age),
            cpu_load: reading.cpu_load,
            memory_used_bytes: reading.memory_used,
            memory_total_bytes: reading.memory_total,
            process_memory_bytes: reading.process_memory,
        }
    }
}
