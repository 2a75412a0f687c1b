//! What the outcome of an attempt means for its operation. Pure.

use crate::transport::{HttpError, TransportOutcome, TransportResponse};
use crate::{CosmosOperation, Error, ErrorKind};

/// What the operation does after an attempt.
#[derive(Debug)]
pub(crate) enum OperationAction {
    /// The caller gets the response.
    Complete(TransportResponse),
    /// The caller gets an error, with the response where there was one.
    Abort(Error, Option<TransportResponse>),
}

/// Decides what an outcome means for its operation.
#[must_use]
pub(crate) fn evaluate_transport_result(
    operation: &CosmosOperation,
    outcome: TransportOutcome,
    was_ambiguous: bool,
) -> OperationAction {
    // Of any attempt: a 409 after a lost create may be about the operation's own item.
    let maybe_applied = was_ambiguous && !operation.operation_type().is_read_only();
    let (error, response) = match outcome {
        TransportOutcome::Success(response) => return OperationAction::Complete(response),
        TransportOutcome::HttpError(response) => (refusal(&response), Some(response)),
        TransportOutcome::TransportError { error, .. } => (lost(error), None),
        TransportOutcome::DeadlineExceeded { phase, .. } => {
            let sentence = format!("the deadline passed while {phase}");
            (Error::new(ErrorKind::DeadlineExceeded, sentence), None)
        }
    };
    OperationAction::Abort(error.maybe_applied(maybe_applied), response)
}

fn refusal(response: &TransportResponse) -> Error {
    let body: Option<sidereal_protocol::ErrorBody> = serde_json::from_slice(&response.body).ok();
    let said = body.map(|body| format!(": {}", body.message)).unwrap_or_default();
    let sentence = format!("the service answered {}{said}", response.status);
    Error::new(ErrorKind::of_status(response.status), sentence)
}

fn lost(error: HttpError) -> Error {
    let kind = match error.status().code() {
        400 => ErrorKind::InvalidRequest,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, "no answer came").caused_by(error)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use sidereal_protocol::{CosmosStatus, OperationType, RequestPath, ResourceLink};

    use super::*;
    use crate::diagnostics::Phase;
    use crate::transport::{HttpErrorKind, RequestSentStatus};

    fn operation(operation_type: OperationType) -> CosmosOperation {
        let link = ResourceLink::container("store", "orders").unwrap().item("1").unwrap();
        CosmosOperation::new(operation_type, RequestPath::of(link))
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
        let was_ambiguous = outcome.is_ambiguous();
        aborted_after(operation_type, outcome, was_ambiguous)
    }

    fn aborted_after(
        operation_type: OperationType,
        outcome: TransportOutcome,
        was_ambiguous: bool,
    ) -> Error {
        match evaluate_transport_result(&operation(operation_type), outcome, was_ambiguous) {
            OperationAction::Abort(error, _) => error,
            OperationAction::Complete(response) => panic!("completed with {}", response.status),
        }
    }

    fn lost_request(request_sent: RequestSentStatus) -> TransportOutcome {
        let error = HttpError::new(HttpErrorKind::ConnectionLost, request_sent, "gone");
        TransportOutcome::TransportError { error, request_sent }
    }

    #[test]
    fn a_response_of_success_completes_the_operation() {
        let outcome = TransportOutcome::Success(answer(200, "{}"));
        let action = evaluate_transport_result(&operation(OperationType::Read), outcome, false);
        assert!(matches!(action, OperationAction::Complete(response) if response.body == "{}"));
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

    /// A create that was lost, sent again and met its own item was reported as never applied.
    #[test]
    fn a_refusal_after_an_ambiguous_attempt_may_be_about_the_operation_s_own_effect() {
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
