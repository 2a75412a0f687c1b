//! The diagnostics of one request on the wire.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use sidereal_protocol::headers::ResponseAccounting;
use sidereal_protocol::{CosmosStatus, PartitionKeyRangeId, RegionName};
use smallvec::SmallVec;

use super::failure::failure_text;
use crate::exchange::{Endpoint, HttpError, HttpProtocol, RequestSentStatus};
use crate::retry::Decision;
use crate::session::SessionState;
use crate::system::Clock;

/// The diagnostics of one attempt: endpoint, outcome, times, and the decision after it.
///
/// It is filled in while the attempt runs and outlives it, also when the attempt is cancelled. Nothing in
/// it is secret: headers and bodies are not kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestDiagnostics {
    /// Why the attempt was made.
    pub execution_context: ExecutionContext,
    /// The region, where it is known.
    pub region: Option<RegionName>,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The partition range, for requests to one: as resolved, or as named by the response.
    pub partition_range: Option<PartitionKeyRangeId>,
    /// When it started.
    pub started: Instant,
    /// The number of the shard (connection) among those of the endpoint.
    pub shard: Option<u64>,
    /// The version of HTTP of the connection.
    pub protocol: Option<HttpProtocol>,
    /// How far the request got.
    pub request_sent: RequestSentStatus,
    /// The status of the response, or the client-side status that stands for its absence.
    pub status: Option<CosmosStatus>,
    /// The charge, in request units.
    pub charge: Option<f64>,
    /// The duration by the service's own measure.
    pub server_duration: Option<Duration>,
    /// The position of the replica that answered.
    pub session: SessionState,
    /// The events, in order.
    pub events: SmallVec<[RequestEvent; 4]>,
    /// Why there is no response.
    pub failure: Option<Cow<'static, str>>,
    /// The decision after it.
    pub decision: Option<Decision>,
}

impl RequestDiagnostics {
    /// An attempt that starts now.
    #[inline] // So that it is made where it is kept.
    #[must_use]
    pub fn new(
        execution_context: ExecutionContext,
        region: Option<RegionName>,
        endpoint: Endpoint,
        started: Instant,
    ) -> Self {
        Self {
            execution_context,
            region,
            endpoint,
            partition_range: None,
            started,
            shard: None,
            protocol: None,
            request_sent: RequestSentStatus::NotSent,
            status: None,
            charge: None,
            server_duration: None,
            session: SessionState::default(),
            events: SmallVec::new(),
            failure: None,
            decision: None,
        }
    }

    /// Records an event now.
    pub fn record(&mut self, kind: RequestEventKind) {
        self.record_at(kind, Clock::now());
    }

    /// Records an event at a moment.
    pub fn record_at(&mut self, kind: RequestEventKind, now: Instant) {
        // Saturating: a caller may pass a moment that it read before the attempt began.
        self.record_after(kind, now.saturating_duration_since(self.started));
    }

    /// Records an event by its distance from the attempt's start.
    pub(crate) fn record_after(&mut self, kind: RequestEventKind, at: Duration) {
        self.events.push(RequestEvent { kind, at });
    }

    /// Records that the request was handed to a connection: from now on it may be carried out.
    pub fn sent(&mut self) {
        self.request_sent = RequestSentStatus::MaybeSent;
        self.record(RequestEventKind::RequestSent);
    }

    /// Records that nothing of the request was handed to a connection so far: it waits for one.
    ///
    /// The transport assumes otherwise when it gives a request to a client, so only a client that will call
    /// [`sent`](Self::sent) may say this.
    pub fn not_sent_yet(&mut self) {
        self.request_sent = RequestSentStatus::NotSent;
    }

    /// Records status, charge and progress from the head of the response.
    pub fn answered(&mut self, told: &ResponseAccounting<'_>, status: CosmosStatus) {
        self.status = Some(status);
        self.charge = told.request_charge;
        self.server_duration = told.request_duration;
        self.session = SessionState::of(told);
        // The service's word on the range counts: ours may be from before a split. Where they agree, as they
        // usually do, nothing is copied.
        if let Some(told) = told.partition_key_range_id
            && self.partition_range.as_ref().is_none_or(|known| known.as_str() != told)
        {
            self.partition_range = told.parse().ok();
        }
    }

    /// Records that it ended without a response, why, and whether it may have been carried out.
    ///
    /// Of the error, its own sentence is kept and what is known to be harmless among its causes: a
    /// cause from elsewhere may quote what it was given.
    pub fn failed(&mut self, error: &HttpError) {
        self.request_sent = error.request_sent();
        self.failure = Some(failure_text(error));
        self.record(RequestEventKind::TransportFailed);
    }

    /// The current phase of the attempt, or the one in which it ended.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.events.last().map_or(Phase::Preparing, |event| event.kind.begins())
    }

    /// The time from the start to the first event of a kind.
    #[must_use]
    pub fn time_of(&self, kind: RequestEventKind) -> Option<Duration> {
        self.events.iter().find(|event| event.kind == kind).map(|event| event.at)
    }

    /// The time it waited for a free stream; zero if it did not wait.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.time_after(RequestEventKind::Queued)
    }

    /// The time it waited for its connection; zero if one was ready.
    #[must_use]
    pub fn connecting(&self) -> Duration {
        self.time_after(RequestEventKind::Connecting)
    }

    /// The time from sending the request to the head of the response.
    #[must_use]
    pub fn time_to_headers(&self) -> Option<Duration> {
        let headers = self.time_of(RequestEventKind::ResponseHeadersReceived)?;
        // A request whose first connection turned out to be closed is sent a second time.
        let sent = |event: &&RequestEvent| event.kind == RequestEventKind::RequestSent;
        // The latest one before the headers is the one that they answer.
        let sent = self.events.iter().rev().filter(sent).find(|event| event.at <= headers)?;
        Some(headers - sent.at)
    }

    /// The duration, once it has ended.
    #[must_use]
    pub fn elapsed(&self) -> Option<Duration> {
        let ended = |event: &&RequestEvent| event.kind.begins() == Phase::Ended;
        self.events.iter().rfind(ended).map(|event| event.at)
    }

    /// When it ended, once it has.
    #[must_use]
    pub fn ended(&self) -> Option<Instant> {
        self.elapsed().map(|elapsed| self.started + elapsed)
    }

    /// The time between events of a kind and whatever followed them.
    fn time_after(&self, kind: RequestEventKind) -> Duration {
        let neighbours = self.events.iter().zip(self.events.iter().skip(1));
        let waits = neighbours.filter(|(event, _)| event.kind == kind);
        waits.map(|(event, next)| next.at.saturating_sub(event.at)).sum()
    }
}

/// An event of a request, with its distance from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestEvent {
    /// The kind of the event.
    pub kind: RequestEventKind,
    /// The time since the attempt's start.
    pub at: Duration,
}

/// The kind of an event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestEventKind {
    /// The transport took it.
    TransportStart,
    /// All streams were taken, so it began to wait for one.
    Queued,
    /// It has a stream of a connection that is still being made.
    Connecting,
    /// It was handed to a connection.
    RequestSent,
    /// The head of the response arrived.
    ResponseHeadersReceived,
    /// The response is complete.
    ResponseBodyReceived,
    /// It ended without a response.
    TransportFailed,
}

impl RequestEventKind {
    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TransportStart => "transport_start",
            Self::Queued => "queued",
            Self::Connecting => "connecting",
            Self::RequestSent => "request_sent",
            Self::ResponseHeadersReceived => "response_headers_received",
            Self::ResponseBodyReceived => "response_body_received",
            Self::TransportFailed => "transport_failed",
        }
    }

    const fn begins(self) -> Phase {
        match self {
            Self::TransportStart => Phase::Preparing,
            Self::Queued => Phase::Queueing,
            Self::Connecting => Phase::Connecting,
            Self::RequestSent => Phase::AwaitingAnswer,
            Self::ResponseHeadersReceived => Phase::ReadingBody,
            Self::ResponseBodyReceived | Self::TransportFailed => Phase::Ended,
        }
    }
}

/// The phases of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is being prepared.
    Preparing,
    /// It waits for a free stream.
    Queueing,
    /// It waits for its connection.
    Connecting,
    /// It was sent.
    AwaitingAnswer,
    /// Its response is arriving.
    ReadingBody,
    /// It is over.
    Ended,
}

/// As it ends a sentence: "the deadline passed while … ".
impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Preparing => "the request was being prepared",
            Self::Queueing => "the request waited for a free stream",
            Self::Connecting => "the connection was being made",
            Self::AwaitingAnswer => "the answer was awaited",
            Self::ReadingBody => "the answer was arriving",
            Self::Ended => "the request was over",
        })
    }
}

/// Why an attempt is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ExecutionContext {
    /// The first of its operation.
    #[default]
    Initial,
    /// The one before failed, or was asked to come again.
    Retry,
    /// The one before is slow.
    Hedging,
    /// The region before failed.
    RegionFailover,
    /// The partition is being tried in the region it had left.
    CircuitBreakerProbe,
}

impl ExecutionContext {
    /// The name in diagnostics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Retry => "retry",
            Self::Hedging => "hedging",
            Self::RegionFailover => "region_failover",
            Self::CircuitBreakerProbe => "circuit_breaker_probe",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(events: &[(RequestEventKind, u64)]) -> RequestDiagnostics {
        let started = Instant::now();
        let endpoint = "http://127.0.0.1:8081".parse().unwrap();
        let mut attempt =
            RequestDiagnostics::new(ExecutionContext::Initial, None, endpoint, started);
        for (kind, at) in events {
            attempt.record_at(*kind, started + Duration::from_millis(*at));
        }
        attempt
    }

    #[test]
    fn each_wait_lasts_until_the_next_event() {
        let attempt = attempt(&[
            (RequestEventKind::TransportStart, 1),
            (RequestEventKind::Queued, 1),
            (RequestEventKind::Connecting, 5),
            (RequestEventKind::RequestSent, 12),
            (RequestEventKind::ResponseHeadersReceived, 20),
            (RequestEventKind::ResponseBodyReceived, 21),
        ]);
        assert_eq!(attempt.queued(), Duration::from_millis(4));
        assert_eq!(attempt.connecting(), Duration::from_millis(7));
        assert_eq!(attempt.time_to_headers(), Some(Duration::from_millis(8)));
        assert_eq!(attempt.elapsed(), Some(Duration::from_millis(21)));
    }

    #[test]
    fn an_attempt_that_was_left_has_no_end() {
        let attempt =
            attempt(&[(RequestEventKind::TransportStart, 0), (RequestEventKind::RequestSent, 1)]);
        assert_eq!((attempt.elapsed(), attempt.time_to_headers()), (None, None));
        assert_eq!((attempt.queued(), attempt.connecting()), (Duration::ZERO, Duration::ZERO));
        assert_eq!(attempt.phase(), Phase::AwaitingAnswer);
    }

    #[test]
    fn headers_are_timed_from_the_connection_they_came_over() {
        let attempt = attempt(&[
            (RequestEventKind::RequestSent, 1),
            (RequestEventKind::RequestSent, 5),
            (RequestEventKind::ResponseHeadersReceived, 8),
        ]);
        assert_eq!(attempt.time_to_headers(), Some(Duration::from_millis(3)));
    }
}
