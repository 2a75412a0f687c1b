use sidereal_protocol::CosmosStatus;

use super::super::{RequestKind, Retries, RetryTarget, ThrottleBudget};
use super::*;
use crate::exchange::{HttpErrorKind, RequestSentStatus};
use crate::options::{AvailabilityOptions, OptionLayers};

fn budgets() -> Budgets {
    let unset = AvailabilityOptions::default();
    Budgets::new(&OptionLayers::default().availability(&unset))
}

fn circumstances() -> Circumstances {
    Circumstances { deadline: None, now: Instant::now(), jitter: 0.0 }
}

fn refused(code: u16, sub_status: u32, retry_after: Option<u64>) -> Question {
    let status = CosmosStatus::with_sub_status(code, sub_status);
    let retry_after = retry_after.map(Duration::from_millis);
    Question { kind: RequestKind::Write, outcome: AttemptOutcome::Refusal { status, retry_after } }
}

fn lost(kind: HttpErrorKind, sent: RequestSentStatus) -> Question {
    Question { kind: RequestKind::Write, outcome: AttemptOutcome::Loss { kind, sent } }
}

fn evaluated(question: &Question, budgets: &Budgets) -> Verdict {
    evaluate_transport_retry(question, budgets, false, &circumstances())
}

/// The wait before a retry, and the budgets after it.
fn retry(verdict: Verdict, budgets: &Budgets) -> (Duration, Budgets) {
    match verdict.decision {
        Decision::RetryHere { after, .. } => (after, verdict.spend(*budgets)),
        other => panic!("expected a retry, got: {other}"),
    }
}

fn is_final(verdict: Verdict) -> bool {
    matches!(verdict.decision, Decision::Finish { .. })
}

#[test]
fn a_throttled_request_waits_as_long_as_the_service_says() {
    let question = refused(429, 3200, Some(120));
    let (delay, next) = retry(evaluated(&question, &budgets()), &budgets());
    assert_eq!(delay, Duration::from_millis(120));
    assert_eq!((next.throttle.retries.spent, next.throttle.waited), (1, delay));
}

/// The waits of a question that is asked again and again.
fn waits(question: &Question, times: usize) -> Vec<u128> {
    let mut budgets = budgets();
    let mut waits = Vec::new();
    while waits.len() < times {
        let verdict = evaluated(question, &budgets);
        if is_final(verdict) {
            break;
        }
        let (delay, next) = retry(verdict, &budgets);
        waits.push(delay.as_millis());
        budgets = next;
    }
    waits
}

/// All nine retries were spent within 0.2 ms.
#[test]
fn a_wait_of_zero_from_the_service_is_no_shorter_than_the_back_off() {
    assert_eq!(waits(&refused(429, 3200, Some(0)), 4), [100, 200, 400, 800]);
}

#[test]
fn jitter_only_adds_to_what_the_service_says() {
    let unlucky = Circumstances { jitter: 1.0, ..circumstances() };
    let question = refused(429, 3200, Some(1_000));
    let verdict = evaluate_transport_retry(&question, &budgets(), false, &unlucky);
    assert_eq!(verdict.decision.after(), Some(Duration::from_millis(1_025)));
}

#[test]
fn without_a_word_from_the_service_the_wait_doubles_up_to_the_most() {
    let question = refused(429, 0, None);
    assert_eq!(waits(&question, 7), [100, 200, 400, 800, 1_600, 3_200, 5_000]);
    let lucky = Circumstances { jitter: 1.0, ..circumstances() };
    let verdict = evaluate_transport_retry(&question, &budgets(), false, &lucky);
    assert_eq!(verdict.decision.after(), Some(Duration::from_millis(75)));
}

#[test]
fn throttling_ends_when_the_attempts_or_the_time_for_waiting_are_used_up() {
    let fresh = budgets();
    let spent = Retries { spent: 9, ..fresh.throttle.retries };
    let tired = Budgets { throttle: ThrottleBudget { retries: spent, ..fresh.throttle }, ..fresh };
    assert!(is_final(evaluated(&refused(429, 3200, None), &tired)));
    let waited = Duration::from_secs(29);
    let waited = Budgets { throttle: ThrottleBudget { waited, ..fresh.throttle }, ..fresh };
    assert!(is_final(evaluated(&refused(429, 3200, Some(1_001)), &waited)));
}

#[test]
fn nothing_is_waited_for_beyond_the_deadline() {
    let now = circumstances();
    let soon = Circumstances { deadline: Some(now.now + Duration::from_millis(120)), ..now };
    let ends = |wait| {
        let question = refused(429, 3200, Some(wait));
        is_final(evaluate_transport_retry(&question, &budgets(), false, &soon))
    };
    assert!(ends(120));
    assert!(!ends(119));
    assert!(ends(u64::MAX), "a wait that no clock can hold is too long, and no panic");
}

#[test]
fn the_transport_leaves_other_refusals_to_the_operation() {
    for (code, sub_status) in [(429, 3092), (503, 0), (404, 1002), (449, 0), (410, 1002), (401, 0)]
    {
        // The credential here is a key, which cannot be renewed.
        let verdict = evaluated(&refused(code, sub_status, Some(1)), &budgets());
        assert_eq!(verdict, Verdict::finish("the service refused"), "{code}");
    }
}

#[test]
fn a_stale_token_is_renewed_once_and_a_key_cannot_be() {
    for (code, sub_status) in [(401, 5006), (401, 0)] {
        let question = refused(code, sub_status, None);
        let ask = |budgets: Budgets| {
            evaluate_transport_retry(&question, &budgets, true, &circumstances())
        };
        let verdict = ask(budgets());
        let renews = Decision::RetryHere {
            after: Duration::ZERO,
            manner: Manner::NewCredential,
            reason: "the credential was refused: a new one is fetched",
        };
        assert_eq!(verdict.decision, renews);
        assert!(is_final(ask(verdict.spend(budgets()))));
        assert!(is_final(evaluated(&question, &budgets())));
    }
}

/// Each operation that does not exist for Entra took the token from all other requests.
#[test]
fn no_token_is_renewed_for_what_the_identity_may_not_do() {
    for sub_status in [0, 5300, 5302] {
        let question = refused(403, sub_status, None);
        let verdict = evaluate_transport_retry(&question, &budgets(), true, &circumstances());
        assert!(is_final(verdict), "403/{sub_status}");
    }
}

#[test]
fn a_request_that_was_not_sent_is_tried_once_over_another_connection() {
    let question = lost(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    let verdict = evaluated(&question, &budgets());
    let Decision::RetryHere { after, manner, .. } = verdict.decision else { panic!("{verdict:?}") };
    assert_eq!((after, manner), (Duration::ZERO, Manner::AnotherConnection));
    assert!(is_final(evaluated(&question, &verdict.spend(budgets()))));
}

#[test]
fn an_ambiguous_request_is_repeated_only_if_idempotent() {
    for kind in [
        HttpErrorKind::ConnectionLost,
        HttpErrorKind::StreamReset,
        HttpErrorKind::Timeout,
        HttpErrorKind::Evicted,
        HttpErrorKind::Protocol,
    ] {
        let question = lost(kind, RequestSentStatus::MaybeSent);
        assert!(is_final(evaluated(&question, &budgets())), "{kind:?}");
        for harmless in [RequestKind::Read, RequestKind::IdempotentWrite] {
            let question = Question { kind: harmless, ..question };
            assert!(!is_final(evaluated(&question, &budgets())), "{kind:?}");
        }
    }
}

#[test]
fn a_request_that_was_not_taken_is_sent_again_a_few_times() {
    let question = lost(HttpErrorKind::GoneAway, RequestSentStatus::NotProcessed);
    assert_eq!(waits(&question, 100), [0, 100, 200, 400, 800]);
}

/// A gateway that closed all its connections at once failed every second request.
#[test]
fn a_connection_that_had_ended_does_not_use_up_the_one_retry() {
    for kind in [HttpErrorKind::ConnectionLost, HttpErrorKind::Evicted] {
        let question = lost(kind, RequestSentStatus::NotSent);
        let (_, next) = retry(evaluated(&question, &budgets()), &budgets());
        assert_eq!((next.connection.spent, next.resend.spent), (0, 1), "{kind:?}");
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
        let question = lost(kind, RequestSentStatus::NotSent);
        assert!(is_final(evaluated(&question, &budgets())), "{kind:?}");
    }
}

#[test]
fn an_answer_and_a_passed_deadline_are_final() {
    for outcome in [
        AttemptOutcome::Success,
        AttemptOutcome::DeadlinePassed { sent: RequestSentStatus::NotSent },
    ] {
        let question = Question { kind: RequestKind::Read, outcome };
        assert!(is_final(evaluated(&question, &budgets())));
    }
}

#[test]
fn the_retries_over_other_connections_are_those_of_the_settings() {
    let question = lost(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    let count = |most: u32| {
        let mut budgets = Budgets { connection: Retries::of(most), ..budgets() };
        let mut retries = 0;
        while !is_final(evaluated(&question, &budgets)) {
            (_, budgets) = retry(evaluated(&question, &budgets), &budgets);
            retries += 1;
        }
        retries
    };
    assert_eq!([0, 1, 3].map(count), [0, 1, 3]);
}

const ENDED: Decision = Decision::Finish { reason: "what the transport said" };

fn of_operation(question: &Question, budgets: &Budgets, is_left: bool) -> Verdict {
    evaluate_operation_retry(
        question,
        budgets,
        OtherEndpoints { is_left, may_wait: false },
        ENDED,
        &circumstances(),
    )
}

#[test]
fn an_operation_goes_elsewhere_at_once_while_there_is_an_elsewhere() {
    let verdict = of_operation(&refused(503, 0, None), &budgets(), true);
    let reason = "the partition does not serve in the region";
    let target = RetryTarget::NextPreferred;
    assert_eq!(verdict.decision, Decision::RetryElsewhere { target, reason });
    let forbidden = of_operation(&refused(403, 3, None), &budgets(), true);
    assert_eq!(forbidden.decision.target(), Some(RetryTarget::WriteRegion));
}

#[test]
fn without_another_region_it_retries_here_until_the_budget_is_spent() {
    let question = refused(503, 0, None);
    let (mut budgets, mut waits) = (budgets(), Vec::new());
    while let verdict = of_operation(&question, &budgets, false)
        && let Some(after) = verdict.decision.after()
    {
        waits.push(after.as_millis());
        budgets = verdict.spend(budgets);
    }
    assert_eq!(waits, [100, 200, 400]);
    let reason = "the retries in other regions are used up";
    let end = of_operation(&question, &budgets, true).decision;
    assert_eq!(end, Decision::Finish { reason });
}

#[test]
fn what_only_the_transport_can_retry_ends_for_the_reason_that_it_gave() {
    for question in [refused(429, 3200, None), refused(401, 5006, None), refused(409, 0, None)] {
        let verdict = of_operation(&question, &budgets(), true);
        assert_eq!((verdict.decision, verdict.charged), (ENDED, None));
    }
}

/// Every region gave the operation a new throttle budget, so that it waited once for each of them.
#[test]
fn another_endpoint_gives_new_connections_and_no_new_throttle_budget() {
    let question = lost(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    let spent = budgets().after(Budget::Throttle, Duration::from_secs(5));
    let spent = spent.after(Budget::Connection, Duration::ZERO);
    let next = of_operation(&question, &spent, true).spend(spent);
    assert_eq!(next.throttle, spent.throttle);
    assert_eq!((next.connection.spent, next.failover.spent), (0, 1));
}

#[test]
fn a_session_is_waited_for_in_its_region_before_other_regions() {
    let question = refused(404, 1002, None);
    let single = of_operation(&question, &budgets(), true).decision;
    assert_eq!(single.target(), Some(RetryTarget::WriteRegion), "the write region first");

    let mut multi = budgets().with_session_retry(2, Duration::from_millis(500));
    let mut decided = Vec::new();
    for _ in 0..6 {
        let verdict = of_operation(&question, &multi, true);
        decided
            .push((verdict.decision.as_str(), verdict.decision.after().map(|it| it.as_millis())));
        multi = verdict.spend(multi);
    }
    let (here, elsewhere) = (("retry_here", Some(250)), ("retry_elsewhere", None));
    assert_eq!(decided, [here, here, elsewhere, here, here, elsewhere]);
    assert_eq!(multi.session.spent, 2);
}

#[test]
fn the_first_range_refresh_does_not_wait_and_later_ones_back_off() {
    let (mut budgets, mut waits) = (budgets(), Vec::new());
    for _ in 0..4 {
        let verdict = of_operation(&refused(410, 1007, None), &budgets, true);
        waits.push(verdict.decision.after().unwrap().as_millis());
        budgets = verdict.spend(budgets);
    }
    assert_eq!(waits, [0, 100, 200, 400]);
    let recreated = refused(410, 1000, None);
    let once = of_operation(&recreated, &budgets, true);
    assert_eq!(once.decision.after(), Some(Duration::ZERO));
    assert!(is_final(of_operation(&recreated, &once.spend(budgets), true)));
}
