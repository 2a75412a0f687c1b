use bytes::Bytes;
use http::HeaderMap;

use super::*;
use crate::diagnostics::Phase;
use crate::options::{AvailabilityOptions, OptionLayers};

fn state() -> ThrottleRetryState {
    let unset = AvailabilityOptions::default();
    ThrottleRetryState::new(&OptionLayers::default().availability(&unset))
}

fn context() -> RetryContext {
    RetryContext {
        is_repeatable: false,
        has_renewable_credential: false,
        deadline: None,
        now: Instant::now(),
        jitter: 0.0,
    }
}

fn refused(code: u16, sub_status: u32, retry_after: Option<&'static str>) -> TransportOutcome {
    let mut headers = HeaderMap::new();
    if let Some(milliseconds) = retry_after {
        headers.insert("x-ms-retry-after-ms", milliseconds.parse().unwrap());
    }
    let status = CosmosStatus::with_sub_status(code, sub_status);
    TransportOutcome::HttpError(TransportResponse { status, headers, body: Bytes::new() })
}

fn lost(kind: HttpErrorKind, request_sent: RequestSentStatus) -> TransportOutcome {
    TransportOutcome::TransportError {
        error: HttpError::new(kind, request_sent, "lost"),
        request_sent,
    }
}

fn retry(action: ThrottleAction) -> (Duration, ThrottleRetryState) {
    match action {
        ThrottleAction::Retry { delay, new_state, .. } => (delay, new_state),
        ThrottleAction::Propagate { why } => panic!("expected a retry, got: {why}"),
    }
}

fn is_final(action: ThrottleAction) -> bool {
    matches!(action, ThrottleAction::Propagate { .. })
}

#[test]
fn a_throttled_request_waits_as_long_as_the_service_says() {
    let outcome = refused(429, 3200, Some("120"));
    let (delay, next) = retry(evaluate_transport_retry(&outcome, &state(), &context()));
    assert_eq!(delay, Duration::from_millis(120));
    assert_eq!((next.attempt_count, next.cumulative_delay), (1, delay));
}

/// All nine retries were spent within 0.2 ms.
#[test]
fn a_wait_of_zero_from_the_service_is_no_shorter_than_the_back_off() {
    let mut now = state();
    let mut waits = Vec::new();
    for _ in 0..4 {
        let outcome = refused(429, 3200, Some("0"));
        let (delay, next) = retry(evaluate_transport_retry(&outcome, &now, &context()));
        waits.push(delay.as_millis());
        now = next;
    }
    assert_eq!(waits, [100, 200, 400, 800]);
}

#[test]
fn jitter_only_adds_to_what_the_service_says() {
    let unlucky = RetryContext { jitter: 1.0, ..context() };
    let outcome = refused(429, 3200, Some("1000"));
    let (delay, _) = retry(evaluate_transport_retry(&outcome, &state(), &unlucky));
    assert_eq!(delay, Duration::from_millis(1_025));
}

#[test]
fn without_a_word_from_the_service_the_wait_doubles_up_to_the_most() {
    let mut now = state();
    let mut waits = Vec::new();
    for _ in 0..7 {
        let (delay, next) =
            retry(evaluate_transport_retry(&refused(429, 0, None), &now, &context()));
        waits.push(delay.as_millis());
        now = next;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000]);
    let lucky = RetryContext { jitter: 1.0, ..context() };
    let (delay, _) = retry(evaluate_transport_retry(&refused(429, 0, None), &state(), &lucky));
    assert_eq!(delay, Duration::from_millis(75));
}

#[test]
fn throttling_ends_when_the_attempts_or_the_time_for_waiting_are_used_up() {
    let tired = ThrottleRetryState { attempt_count: 9, ..state() };
    assert!(is_final(evaluate_transport_retry(&refused(429, 3200, None), &tired, &context())));
    let waited = ThrottleRetryState { cumulative_delay: Duration::from_secs(29), ..state() };
    let outcome = refused(429, 3200, Some("1001"));
    assert!(is_final(evaluate_transport_retry(&outcome, &waited, &context())));
}

#[test]
fn nothing_is_waited_for_beyond_the_deadline() {
    let context = context();
    let soon = RetryContext { deadline: Some(context.now + Duration::from_millis(120)), ..context };
    assert!(is_final(evaluate_transport_retry(&refused(429, 3200, Some("120")), &state(), &soon)));
    assert!(!is_final(evaluate_transport_retry(&refused(429, 3200, Some("119")), &state(), &soon)));
}

#[test]
fn a_node_out_of_resources_and_other_refusals_are_for_the_operation_to_judge() {
    for (code, sub_status) in [(429, 3092), (503, 0), (404, 1002), (449, 0), (410, 1002), (401, 0)]
    {
        let outcome = refused(code, sub_status, Some("1"));
        assert!(is_final(evaluate_transport_retry(&outcome, &state(), &context())), "{code}");
    }
}

#[test]
fn a_stale_token_is_renewed_once_and_a_key_cannot_be() {
    let renewable = RetryContext { has_renewable_credential: true, ..context() };
    for (code, sub_status) in [(401, 5006), (403, 5300)] {
        let outcome = refused(code, sub_status, None);
        let action = evaluate_transport_retry(&outcome, &state(), &renewable);
        assert!(matches!(action, ThrottleAction::Retry { with_new_credential: true, .. }));
        let (_, renewed) = retry(action);
        assert!(is_final(evaluate_transport_retry(&outcome, &renewed, &renewable)));
        assert!(is_final(evaluate_transport_retry(&outcome, &state(), &context())));
    }
}

#[test]
fn a_request_that_was_not_sent_is_tried_once_over_another_connection() {
    let outcome = lost(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    let action = evaluate_transport_retry(&outcome, &state(), &context());
    assert!(matches!(action, ThrottleAction::Retry { on_another_shard: true, .. }));
    let (delay, next) = retry(action);
    assert_eq!(delay, Duration::ZERO);
    assert!(is_final(evaluate_transport_retry(&outcome, &next, &context())));
}

#[test]
fn a_request_that_may_have_been_carried_out_is_repeated_only_where_that_is_harmless() {
    for kind in [
        HttpErrorKind::ConnectionLost,
        HttpErrorKind::StreamReset,
        HttpErrorKind::Timeout,
        HttpErrorKind::Evicted,
        HttpErrorKind::Protocol,
    ] {
        let outcome = lost(kind, RequestSentStatus::MaybeSent);
        assert!(is_final(evaluate_transport_retry(&outcome, &state(), &context())), "{kind:?}");
        let harmless = RetryContext { is_repeatable: true, ..context() };
        assert!(!is_final(evaluate_transport_retry(&outcome, &state(), &harmless)), "{kind:?}");
    }
}

#[test]
fn a_request_that_was_not_taken_is_sent_again_a_few_times() {
    let outcome = lost(HttpErrorKind::GoneAway, RequestSentStatus::NotProcessed);
    let mut now = state();
    let mut waits = Vec::new();
    while let ThrottleAction::Retry { delay, new_state, .. } =
        evaluate_transport_retry(&outcome, &now, &context())
    {
        waits.push(delay.as_millis());
        now = new_state;
    }
    assert_eq!(waits, [0, 100, 200, 400, 800]);
}

/// A gateway that closed all its connections at once failed every second request.
#[test]
fn a_connection_that_had_ended_does_not_use_up_the_one_retry() {
    for kind in [HttpErrorKind::ConnectionLost, HttpErrorKind::Evicted] {
        let outcome = lost(kind, RequestSentStatus::NotSent);
        let (_, next) = retry(evaluate_transport_retry(&outcome, &state(), &context()));
        assert_eq!((next.connectivity_retries, next.resends), (0, 1), "{kind:?}");
    }
}

#[test]
fn what_another_connection_would_not_help_is_final() {
    for kind in [
        HttpErrorKind::InvalidRequest,
        HttpErrorKind::Tls,
        HttpErrorKind::Proxy,
        HttpErrorKind::QueueFull,
        HttpErrorKind::ResponseTooLarge,
        HttpErrorKind::Closed,
    ] {
        let outcome = lost(kind, RequestSentStatus::NotSent);
        assert!(is_final(evaluate_transport_retry(&outcome, &state(), &context())), "{kind:?}");
    }
}

#[test]
fn an_answer_and_a_passed_deadline_are_final() {
    let status = CosmosStatus::new(200);
    let answer = TransportResponse { status, headers: HeaderMap::new(), body: Bytes::new() };
    let answer = TransportOutcome::Success(answer);
    assert!(is_final(evaluate_transport_retry(&answer, &state(), &context())));
    let late = TransportOutcome::DeadlineExceeded {
        phase: Phase::Queueing,
        request_sent: RequestSentStatus::NotSent,
    };
    assert!(is_final(evaluate_transport_retry(&late, &state(), &context())));
}

#[test]
fn the_retries_over_other_connections_are_those_of_the_settings() {
    let lost = lost(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    let count = |most: u32| {
        let mut state = ThrottleRetryState { max_connectivity_retries: most, ..state() };
        let mut retries = 0;
        while let ThrottleAction::Retry { new_state, .. } =
            evaluate_transport_retry(&lost, &state, &context())
        {
            (state, retries) = (new_state, retries + 1);
        }
        retries
    };
    assert_eq!([0, 1, 3].map(count), [0, 1, 3]);
}
