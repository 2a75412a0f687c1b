//! The whole transport under faults: what is repeated, what is passed on, and what is written down of it.

use std::time::Duration;

use sidereal_driver::diagnostics::Decision;
use sidereal_driver::fault_injection::{
    Delivery, FaultInjectionResult, FaultInjectionRule, InjectedAnswer,
};
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};
use sidereal_protocol::CosmosStatus;

use super::fixture::FaultFixture;
use sidereal_testing::fixture::Executed;

/// The decision after each attempt, with its wait.
type Next = (&'static str, Option<Duration>);

const AT_ONCE: Next = retry_after(0);
const FINISH: Next = ("finish", None);

const fn retry_after(milliseconds: u64) -> Next {
    ("retry_here", Some(Duration::from_millis(milliseconds)))
}

fn next(decision: Decision) -> Next {
    (decision.as_str(), decision.after())
}

fn fixture() -> FaultFixture {
    let backoff = Duration::from_millis(1);
    FaultFixture::new(4, 20, |setup| setup.budgets.backoff.initial = backoff)
}

/// Does this to the next requests, and leaves those after them alone.
fn inject(fixture: &FaultFixture, times: u64, fault: FaultInjectionResult) {
    fixture.faults.add(FaultInjectionRule::new("next", fault).with_hit_limit(times));
}

fn broken(kind: HttpErrorKind, delivery: Delivery) -> FaultInjectionResult {
    FaultInjectionResult::Error { kind, delivery }
}

/// The status, the decision and its reason of each attempt.
fn attempt_history(executed: &Executed) -> Vec<(u16, Next, &'static str)> {
    let attempts = executed.diagnostics.attempts().iter();
    let told = attempts.map(|attempt| (attempt.status.unwrap(), attempt.decision.unwrap()));
    told.map(|(status, decision)| (status.code(), next(decision), decision.reason())).collect()
}

fn arrivals(fixture: &FaultFixture) -> usize {
    fixture.peer.seen().arrivals.len()
}

#[tokio::test]
async fn throttling_is_waited_out_for_as_long_as_the_service_says() {
    let fixture = fixture();
    let wait = Duration::from_millis(3);
    let throttled = InjectedAnswer::new(CosmosStatus::REQUEST_UNITS_EXCEEDED).retry_after(wait);
    inject(&fixture, 2, FaultInjectionResult::Answer(throttled));
    let executed = fixture.write().await;
    let again = retry_after(3);
    let why = "throttled: the service says how long to wait";
    let end = (200, FINISH, "the service answered");
    assert_eq!(attempt_history(&executed), [(429, again, why), (429, again, why), end]);
    assert_eq!((arrivals(&fixture), fixture.clients_created()), (1, 1));
}

#[tokio::test]
async fn throttling_without_an_end_is_final_when_the_retries_are_used_up() {
    let fixture = FaultFixture::new(4, 20, |setup| {
        setup.budgets.throttle.retries.most = 2;
        setup.budgets.backoff.initial = Duration::from_millis(1);
    });
    fixture.inject(FaultInjectionResult::status(CosmosStatus::new(429)));
    let executed = fixture.read().await;
    assert!(matches!(executed.outcome, TransportOutcome::HttpError(_)));
    let wait = retry_after;
    let end = (429, FINISH, "throttled, and the retries are used up");
    let throttled = "throttled";
    assert_eq!(
        attempt_history(&executed),
        [(429, wait(1), throttled), (429, wait(2), throttled), end]
    );
    let pool = fixture.client.snapshot(&fixture.url());
    assert_eq!(pool.shards[0].stats.total_failures, 0, "an answer is no fault of the connection");
}

#[tokio::test]
async fn other_refusals_are_passed_on_with_their_sub_status() {
    let statuses = [
        CosmosStatus::new(503),
        CosmosStatus::new(449),
        CosmosStatus::GONE,
        CosmosStatus::PARTITION_KEY_RANGE_GONE,
        CosmosStatus::WRITE_FORBIDDEN,
        CosmosStatus::READ_SESSION_NOT_AVAILABLE,
        CosmosStatus::REQUEST_TIMEOUT,
        CosmosStatus::new(500),
    ];
    for status in statuses {
        let fixture = fixture();
        fixture.inject(FaultInjectionResult::status(status));
        let executed = fixture.read().await;
        assert!(matches!(executed.outcome, TransportOutcome::HttpError(_)), "{status:?}");
        assert_eq!(executed.outcome.status(), status);
        assert_eq!(attempt_history(&executed), [(status.code(), FINISH, "the service refused")]);
        assert_eq!(executed.diagnostics.status(), Some(status));
        assert_eq!(arrivals(&fixture), 0);
    }
}

#[tokio::test]
async fn a_write_that_was_not_sent_is_sent_over_another_connection_once() {
    let fixture = fixture();
    inject(&fixture, 1, FaultInjectionResult::connection_error());
    let executed = fixture.write().await;
    executed.body();
    let failed = (503, AT_ONCE, "the connection failed: another one is tried");
    assert_eq!(attempt_history(&executed), [failed, (200, FINISH, "the service answered")]);
    let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
    assert_eq!(first.request_sent, RequestSentStatus::NotSent);
    assert_ne!(first.shard, second.shard);
    assert_eq!(arrivals(&fixture), 1);
}

#[tokio::test]
async fn a_write_that_the_peer_refused_is_sent_again_until_it_is_taken() {
    let fixture = fixture();
    inject(&fixture, 3, broken(HttpErrorKind::StreamRefused, Delivery::Refused));
    let executed = fixture.write().await;
    executed.body();
    let wait = retry_after;
    let refused = |after| (503, after, "the request was not processed");
    let end = (200, FINISH, "the service answered");
    let expected = [refused(AT_ONCE), refused(wait(1)), refused(wait(2)), end];
    assert_eq!(attempt_history(&executed), expected);
    assert_eq!(arrivals(&fixture), 1);
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_not_sent_twice() {
    let fixture = fixture();
    inject(&fixture, 1, FaultInjectionResult::answer_lost());
    let executed = fixture.write().await;
    assert_eq!(executed.error().kind(), HttpErrorKind::ConnectionLost);
    assert_eq!(executed.outcome.request_sent(), RequestSentStatus::MaybeSent);
    let why = "the request may have been carried out, and must not be twice";
    assert_eq!(attempt_history(&executed), [(503, FINISH, why)]);
    assert_eq!(arrivals(&fixture), 1);
}

#[tokio::test]
async fn a_write_that_may_have_been_sent_is_not_sent_again_for_any_kind_of_loss() {
    let kinds = [
        HttpErrorKind::ConnectionLost,
        HttpErrorKind::StreamReset,
        HttpErrorKind::Protocol,
        HttpErrorKind::Timeout,
        HttpErrorKind::Evicted,
        HttpErrorKind::GoneAway,
        HttpErrorKind::StreamRefused,
        HttpErrorKind::Closed,
    ];
    for kind in kinds {
        let fixture = fixture();
        inject(&fixture, 1, broken(kind, Delivery::LostOnTheWay));
        let executed = fixture.write().await;
        assert_eq!(executed.error().kind(), kind);
        assert_eq!(executed.outcome.request_sent(), RequestSentStatus::MaybeSent);
        assert_eq!(executed.diagnostics.attempts().len(), 1, "{kind:?}");
        assert_eq!(arrivals(&fixture), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn a_read_whose_answer_is_lost_is_read_again_over_another_connection() {
    let fixture = fixture();
    inject(&fixture, 1, FaultInjectionResult::answer_lost());
    let executed = fixture.read().await;
    assert_eq!(executed.body(), "found");
    let failed = (503, AT_ONCE, "the connection failed: another one is tried");
    assert_eq!(attempt_history(&executed), [failed, (200, FINISH, "the service answered")]);
    let seen = fixture.peer.seen();
    let connections: Vec<usize> = seen.arrivals.iter().map(|it| it.connection).collect();
    assert_eq!(connections, [0, 1]);
}

#[tokio::test]
async fn a_second_loss_is_passed_on() {
    let fixture = fixture();
    fixture.inject(FaultInjectionResult::answer_lost());
    let executed = fixture.read().await;
    assert_eq!(executed.error().kind(), HttpErrorKind::ConnectionLost);
    let failed = (503, AT_ONCE, "the connection failed: another one is tried");
    assert_eq!(
        attempt_history(&executed),
        [failed, (503, FINISH, "another connection failed too")]
    );
    assert_eq!(arrivals(&fixture), 2);
}

#[tokio::test]
async fn a_failure_that_another_connection_would_not_fix_is_final() {
    for kind in [HttpErrorKind::Tls, HttpErrorKind::Proxy, HttpErrorKind::InvalidRequest] {
        let fixture = fixture();
        inject(&fixture, 1, broken(kind, Delivery::NotSent));
        let executed = fixture.read().await;
        assert_eq!(executed.error().kind(), kind);
        let [(_, FINISH, why)] = attempt_history(&executed)[..] else {
            panic!("one attempt: {kind:?}")
        };
        assert!(why.ends_with("another connection would not help"), "{why}");
        assert_eq!(why.starts_with("the certificate was refused"), kind == HttpErrorKind::Tls);
    }
}

#[tokio::test]
async fn throttling_and_losses_have_budgets_of_their_own() {
    let fixture = fixture();
    let throttled = InjectedAnswer::new(CosmosStatus::new(429)).retry_after(Duration::ZERO);
    inject(&fixture, 1, FaultInjectionResult::connection_error());
    fixture.faults.add(
        FaultInjectionRule::new("then", FaultInjectionResult::Answer(throttled)).with_hit_limit(3),
    );
    let refused = broken(HttpErrorKind::StreamRefused, Delivery::Refused);
    fixture.faults.add(FaultInjectionRule::new("at last", refused).with_hit_limit(2));
    let executed = fixture.write().await;
    executed.body();
    let codes: Vec<u16> = attempt_history(&executed).iter().map(|(code, ..)| *code).collect();
    assert_eq!(codes, [503, 429, 429, 429, 503, 503, 200]);
    assert_eq!(arrivals(&fixture), 1);
}
