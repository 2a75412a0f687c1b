//! Evaluates the outcome of an attempt: the next step of its operation, or the result for the caller. Pure.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use sidereal_protocol::CosmosStatus;

use super::RaceOutcome;
use crate::diagnostics::{Decision, RetryTarget};
use crate::exchange::{HttpError, HttpErrorKind};
use crate::retry::{
    AttemptOutcome, Budget, Budgets, Circumstances, OtherEndpoints, Question, RequestKind, Verdict,
    evaluate_operation_retry, row_of,
};
use crate::routing::{
    CosmosEndpoint, FailedEndpoints, LocationEffect, LocationEffects, OutcomeSite, Partition,
};
use crate::transport::{TransportOutcome, TransportResponse, TransportResult};
use crate::{Error, ErrorKind};

/// The state of an operation between two attempts: budgets, failed endpoints, its partition.
#[derive(Clone, Debug)]
pub(crate) struct OperationRetryState {
    /// The retry budgets that are left.
    pub(crate) budgets: Budgets,
    /// Whether an attempt may have been carried out without its response having come.
    pub(crate) was_ambiguous: bool,
    /// Endpoints that it has failed on: not tried again while another is left.
    pub(crate) failed_endpoints: FailedEndpoints,
    /// The region that may have applied it, if only that one may be asked again.
    pub(crate) pinned: Option<CosmosEndpoint>,
    /// The partition it is about, once that is known: from the container, or from a response.
    pub(crate) partition: Option<Arc<Partition>>,
    /// The target of the next attempt, by the last decision.
    pub(crate) target: RetryTarget,
    /// Whether there is another endpoint to try.
    pub(crate) elsewhere: OtherEndpoints,
    /// The end of a write's wait for its write region; `None` is for ever.
    pub(crate) wait_end: Option<Instant>,
    /// The transport pipeline's decision about the last attempt.
    pub(crate) at_endpoint: Decision,
    /// When the next attempt is made.
    pub(crate) now: Instant,
    /// Whether the next attempt takes the current session token. Else it repeats that of the attempt before: an
    /// operation sees the session as of its start, and a token that grew with every attempt could be ahead of
    /// each region in turn.
    pub(crate) refresh_session_token: bool,
    /// Whether a region did not have its session.
    pub(crate) missed_session: bool,
    /// How often it has waited for its session to be replicated, because the region that has it does not serve.
    pub(crate) session_waits: u32,
    /// Whether the attempt asks the only region that accepted writes when it began.
    pub(crate) asks_only_writer: bool,
    /// Whether that region was asked for another replica.
    pub(crate) asked_other_replica: bool,
    /// Whether the attempt asked its region to answer only as the hub of the partition.
    pub(crate) asks_hub: bool,
    /// Whether some region does not accept writes.
    was_write_refused: bool,
    retries: u32,
}

impl OperationRetryState {
    /// An operation that has not been attempted.
    pub(crate) fn new(budgets: Budgets, now: Instant) -> Self {
        Self {
            budgets,
            was_ambiguous: false,
            failed_endpoints: FailedEndpoints::new(),
            pinned: None,
            partition: None,
            target: RetryTarget::NextPreferred,
            elsewhere: OtherEndpoints { is_left: false, may_wait: false },
            wait_end: None,
            at_endpoint: Decision::Finish { reason: "nothing was attempted" },
            now,
            refresh_session_token: true,
            missed_session: false,
            session_waits: 0,
            asks_only_writer: false,
            asked_other_replica: false,
            asks_hub: false,
            was_write_refused: false,
            retries: 0,
        }
    }

    /// Whether nothing was retried yet.
    pub(crate) fn is_first_failure(&self) -> bool {
        self.retries == 0
    }

    /// Clears the failed endpoints of a write that has waited since: any region may accept it by now.
    pub(crate) fn try_all_again(&mut self, now: Instant) {
        self.now = now;
        self.failed_endpoints.clear();
        self.budgets = self.budgets.with_failovers_left();
    }

    /// Records the outcome of an attempt and the budgets it spent.
    pub(crate) fn observe(&mut self, result: &TransportResult) {
        if let Some(budgets) = &result.budgets {
            self.budgets = **budgets;
        }
        self.was_ambiguous |= result.was_ambiguous;
        self.at_endpoint = result.decision;
    }

    /// Makes every region a candidate for the session again: it is replicated sooner or later.
    pub(crate) fn look_for_session_again(&mut self) {
        self.session_waits += 1;
        self.failed_endpoints.clear();
        self.target = RetryTarget::NextPreferred;
    }

    /// Charges a retry after an attempt at an endpoint, and records its target.
    pub(crate) fn advance(&mut self, verdict: &Verdict, race: &RaceOutcome<'_>, now: Instant) {
        self.budgets = verdict.spend(self.budgets);
        self.now = now;
        self.retries += 1;
        // The token names the container and the range, and either may be another by now.
        self.refresh_session_token =
            matches!(verdict.charged, Some(Budget::RangeRefresh | Budget::ContainerRefresh));
        if verdict.charged == Some(Budget::ContainerRefresh) {
            // Of the container that is gone: should the new one not have been read, nothing is known.
            self.partition = None;
        }
        // A write that one region after another has failed until none was left, and that some refused: which of them
        // accepts writes is changing. By the time that it has waited any may, and all of them are tried again. Not
        // after the first: others may only become known by its response, which names the partition.
        self.was_write_refused |= matches!(race.result.outcome.attempt_outcome(), AttemptOutcome::Refusal { status, .. }
            if status == CosmosStatus::WRITE_FORBIDDEN);
        let is_in_place = matches!(verdict.decision, Decision::RetryHere { .. })
            && verdict.charged == Some(Budget::Failover);
        if self.was_write_refused && is_in_place && !self.failed_endpoints.is_empty() {
            self.failed_endpoints.clear();
            return;
        }
        // An endpoint that did not cause the failure can be tried again, and so can one that is asked for another replica.
        let is_elsewhere = matches!(verdict.decision, Decision::RetryElsewhere { .. });
        let is_to_blame = match verdict.charged {
            Some(Budget::Session) => is_elsewhere,
            charged => charged == Some(Budget::Failover),
        };
        let other = race.other.as_ref().filter(|it| it.result.is_some()).map(|it| &it.endpoint);
        // The one that counts last: with nowhere else to go, it is the one that is tried again.
        let failed = other.into_iter().chain([&*race.endpoint]).filter(|_| is_to_blame);
        for endpoint in failed.map(|it| &it.endpoint) {
            if !self.failed_endpoints.contains(endpoint) {
                self.failed_endpoints.push(endpoint.clone());
            }
        }
        if let Decision::RetryElsewhere { target, .. } = verdict.decision {
            self.target = target;
        }
    }
}

/// The next step after an attempt, and the effects of its outcome on the account's state.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) verdict: Verdict,
    pub(crate) effects: LocationEffects,
}

/// Decides what an operation does after an attempt.
#[must_use]
pub(crate) fn evaluate_transport_result(
    kind: RequestKind,
    attempted: &OutcomeSite<'_>,
    outcome: &TransportOutcome,
    state: &OperationRetryState,
    circumstances: &Circumstances,
) -> Evaluation {
    let question =
        Question { kind, outcome: outcome_as_asked(outcome.attempt_outcome(), state.asks_hub) };
    let verdict = evaluate_operation_retry(
        &question,
        &state.budgets,
        state.elsewhere,
        state.at_endpoint,
        circumstances,
    );
    let effects = row_of(&question).effects.iter();
    let effects = effects.map(|effect| LocationEffect::of(*effect, attempted)).collect();
    Evaluation { verdict, effects }
}

/// The outcome of an attempt. A region that is not the hub that a read has asked for says so by 403/3, which is about writes
/// otherwise: it does not have the session.
fn outcome_as_asked(outcome: AttemptOutcome, asks_hub: bool) -> AttemptOutcome {
    match outcome {
        AttemptOutcome::Refusal { status: CosmosStatus::WRITE_FORBIDDEN, retry_after }
            if asks_hub =>
        {
            AttemptOutcome::Refusal {
                status: CosmosStatus::READ_SESSION_NOT_AVAILABLE,
                retry_after,
            }
        }
        outcome => outcome,
    }
}

/// The result of an operation, before its diagnostics are added.
#[derive(Debug)]
pub(crate) enum OperationOutcome {
    /// A response of success.
    Answered(TransportResponse),
    /// An error, and the response that it is about.
    Failed(Error, Option<TransportResponse>),
}

/// The result for the caller, from the last outcome.
pub(crate) fn conclude(
    kind: RequestKind,
    outcome: TransportOutcome,
    state: &OperationRetryState,
) -> OperationOutcome {
    let (error, response) = match outcome {
        TransportOutcome::Success(response) => return OperationOutcome::Answered(response),
        TransportOutcome::HttpError(response) => (refusal(&response), Some(response)),
        TransportOutcome::TransportError { error, .. } => (loss_error(kind, error), None),
        TransportOutcome::DeadlineExceeded { phase, .. } => {
            let sentence = format!("the deadline passed while {phase}");
            (Error::new(ErrorKind::DeadlineExceeded, sentence), None)
        }
    };
    // Of any attempt: a 409 after a lost create may be about the operation's own item.
    let maybe_applied = state.was_ambiguous && kind.is_write();
    OperationOutcome::Failed(error.maybe_applied(maybe_applied), response)
}

fn refusal(response: &TransportResponse) -> Error {
    let body: Option<sidereal_protocol::ErrorBody> = serde_json::from_slice(&response.body).ok();
    let said = body.map(|body| format!(": {}", body.message)).unwrap_or_default();
    let sentence = format!("the service answered {}{said}", response.status);
    Error::new(ErrorKind::of_status(response.status), sentence)
}

fn loss_error(kind: RequestKind, error: HttpError) -> Error {
    let outcome = AttemptOutcome::Loss { kind: error.kind(), sent: error.request_sent() };
    let question = Question { kind, outcome };
    let sentence = match error.kind() {
        // What the caller can change, in the words of where it was found.
        HttpErrorKind::InvalidRequest | HttpErrorKind::QueueFull | HttpErrorKind::Tls => {
            error.to_string().into()
        }
        _ => Cow::Borrowed("no answer came"),
    };
    Error::new(row_of(&question).error, sentence).caused_by(error)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use sidereal_protocol::{CosmosStatus, OperationType, RequestPath, ResourceLink};

    use super::*;
    use crate::CosmosOperation;
    use crate::diagnostics::Phase;
    use crate::exchange::RequestSentStatus;
    use crate::options::{AmbiguousWriteRetry, AvailabilityOptions, OptionLayers};

    fn kind(operation_type: OperationType) -> RequestKind {
        let link = ResourceLink::container("store", "orders").unwrap().item("1").unwrap();
        let operation = CosmosOperation::new(operation_type, RequestPath::of(link));
        operation.request_kind(AmbiguousWriteRetry::Idempotent, false)
    }

    fn state() -> OperationRetryState {
        let unset = AvailabilityOptions::default();
        let budgets = Budgets::new(&OptionLayers::default().availability(&unset));
        OperationRetryState::new(budgets, Instant::now())
    }

    fn answer(code: u16, body: &'static str) -> TransportResponse {
        let status = CosmosStatus::new(code);
        TransportResponse {
            status,
            headers: HeaderMap::new(),
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    fn aborted(operation_type: OperationType, outcome: TransportOutcome) -> Error {
        let was_ambiguous = is_ambiguous(operation_type, &outcome);
        aborted_after(operation_type, outcome, was_ambiguous)
    }

    fn aborted_after(
        operation_type: OperationType,
        outcome: TransportOutcome,
        was_ambiguous: bool,
    ) -> Error {
        let state = OperationRetryState { was_ambiguous, ..state() };
        match conclude(kind(operation_type), outcome, &state) {
            OperationOutcome::Failed(error, _) => error,
            OperationOutcome::Answered(response) => panic!("completed with {}", response.status),
        }
    }

    /// Whether the outcome of one attempt leaves it open what was applied.
    fn is_ambiguous(operation_type: OperationType, outcome: &TransportOutcome) -> bool {
        let kind = kind(operation_type);
        row_of(&Question { kind, outcome: outcome.attempt_outcome() }).is_ambiguous
    }

    fn lost_request(request_sent: RequestSentStatus) -> TransportOutcome {
        let error = HttpError::new(HttpErrorKind::ConnectionLost, request_sent, "gone");
        TransportOutcome::TransportError { error, request_sent }
    }

    #[test]
    fn a_response_of_success_completes_the_operation() {
        let outcome = TransportOutcome::Success(answer(200, "{}"));
        let ended = conclude(kind(OperationType::Read), outcome, &state());
        assert!(matches!(ended, OperationOutcome::Answered(response) if response.body == "{}"));
    }

    #[test]
    fn a_refusal_is_told_in_the_service_s_own_words() {
        let body = r#"{"code":"NotFound","message":"no such item"}"#;
        let error = aborted(OperationType::Read, TransportOutcome::HttpError(answer(404, body)));
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "the service answered 404 NotFound: no such item");
    }

    #[test]
    fn a_write_that_was_sent_and_lost_may_have_been_applied_and_a_read_cannot() {
        let maybe = RequestSentStatus::MaybeSent;
        assert!(aborted(OperationType::Replace, lost_request(maybe)).may_have_been_applied());
        assert!(!aborted(OperationType::Read, lost_request(maybe)).may_have_been_applied());
        for safe in [RequestSentStatus::NotSent, RequestSentStatus::NotProcessed] {
            assert!(!aborted(OperationType::Replace, lost_request(safe)).may_have_been_applied());
        }
    }

    #[test]
    fn a_write_that_timed_out_in_the_service_may_have_been_applied() {
        let outcome = || TransportOutcome::HttpError(answer(408, ""));
        assert!(aborted(OperationType::Create, outcome()).may_have_been_applied());
        assert!(!aborted(OperationType::Query, outcome()).may_have_been_applied());
    }

    /// Regression: a lost create that was sent again and met its own item was reported as never applied.
    #[test]
    fn a_refusal_after_an_ambiguous_attempt_may_have_been_applied() {
        let conflict = || TransportOutcome::HttpError(answer(409, ""));
        let lost_before = aborted_after(OperationType::Create, conflict(), true);
        assert_eq!(lost_before.kind(), ErrorKind::Conflict);
        assert!(lost_before.may_have_been_applied());
        assert!(!aborted_after(OperationType::Create, conflict(), false).may_have_been_applied());
    }

    #[test]
    fn a_passed_deadline_says_what_it_was_spent_on() {
        let outcome = TransportOutcome::DeadlineExceeded {
            phase: Phase::Queueing,
            request_sent: RequestSentStatus::NotSent,
        };
        let error = aborted(OperationType::Create, outcome);
        assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
        assert!(error.to_string().contains("waited for a free stream"), "{error}");
        assert!(!error.may_have_been_applied());
    }
}
