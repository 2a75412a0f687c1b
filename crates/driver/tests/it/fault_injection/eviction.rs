//! One failing shard among healthy ones: it is avoided, evicted and replaced, and the requests succeed.

use std::time::{Duration, Instant};

use sidereal_driver::fault_injection::FaultInjectionResult;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};

use super::fixture::{AFTER_A_HANG, AFTER_GRACE, FaultFixture, all_succeed};
use sidereal_testing::fixture::joined;

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_failing_shard_is_evicted_at_the_threshold_and_not_before() {
    for threshold in [1, 3, 5] {
        let fixture = FaultFixture::new(4, 20, |setup| {
            setup.sharding.consecutive_failure_threshold = threshold;
            setup.sharding.min_clients_per_endpoint = 2;
        });
        fixture.reads_succeed(1).await;
        fixture.sweep(Duration::ZERO, None);
        fixture.until_shards(&[0, 1]).await;
        let fault = fixture.inject_into_first(FaultInjectionResult::request_lost());
        fixture.reads_succeed(threshold as usize - 1).await;
        fixture.sweep(AFTER_GRACE, None);
        assert_eq!(fixture.shards(), [0, 1], "{threshold}");

        fixture.reads_succeed(1).await;
        fixture.sweep(AFTER_GRACE, None);
        fixture.until_shards(&[1, 2]).await;
        let seen = fixture.peer.until(|seen| seen.open_connections() == 2).await;
        assert!(!seen.connections[0].open);
        assert!(!fixture.reads_succeed(20).await.contains(&0));
        assert_eq!(fault.hits(), u64::from(threshold));
    }
}

#[tokio::test]
async fn a_success_in_between_starts_the_count_again() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    let fault = fixture.inject_into_first(FaultInjectionResult::request_lost());
    fixture.reads_succeed(4).await;
    fault.disable();
    assert_eq!(fixture.reads_succeed(1).await, [0]);
    fault.enable();
    fixture.reads_succeed(4).await;
    assert_eq!(fault.hits(), 8);
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards(), [0, 1]);
}

#[tokio::test]
async fn a_failing_shard_is_avoided_at_the_threshold_and_evicted_by_the_sweep() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    let fault = fixture.inject_into_first(FaultInjectionResult::connection_error());
    fixture.fail(5).await;
    assert_eq!(fixture.reads_succeed(10).await, [1; 10]);
    assert_eq!(fixture.shards(), [0, 1]);
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards(), [1]);
    assert_eq!((fault.hits(), fixture.clients_created()), (5, 2));
}

#[tokio::test]
async fn requests_of_an_evicted_shard_are_sent_over_another() {
    let fixture = FaultFixture::new(4, 2, |_| {});
    fixture.reads_succeed(1).await;
    let fault = fixture.inject_into_first(FaultInjectionResult::Hang);
    let hanging = fixture.begin_reads(2);
    fixture.until_hits(&fault, 2).await;
    assert_eq!(fixture.reads_succeed(5).await, [1; 5]);
    fixture.sweep(AFTER_A_HANG, None);
    assert_eq!(fixture.shards(), [1]);
    for read in hanging {
        let executed = joined(read).await;
        assert_eq!(executed.body(), "found");
        let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
        assert_eq!((first.shard, second.shard), (Some(0), Some(1)));
        assert_eq!(first.request_sent, RequestSentStatus::MaybeSent);
    }
}

#[tokio::test]
async fn a_write_on_a_shard_that_hangs_is_not_sent_twice() {
    let fixture = FaultFixture::new(4, 1, |_| {});
    fixture.reads_succeed(1).await;
    let fault = fixture.inject_into_first(FaultInjectionResult::Hang);
    let write = fixture.client.write(&fixture.url(), "/written", "{}");
    let write = tokio::spawn(fixture.client.execute(write));
    fixture.until_hits(&fault, 1).await;
    fixture.reads_succeed(1).await;
    fixture.sweep(AFTER_A_HANG, None);
    let executed = joined(write).await;
    let error = executed.error();
    assert_eq!(error.kind(), HttpErrorKind::Evicted);
    assert_eq!(error.request_sent(), RequestSentStatus::MaybeSent);
    assert_eq!(executed.diagnostics.attempts().len(), 1);
    assert!(!fixture.peer.seen().paths().contains(&"/written"));
}

#[tokio::test]
async fn a_write_that_a_slow_shard_has_not_sent_yet_is_sent_over_another_once() {
    let fixture = FaultFixture::new(4, 1, |_| {});
    fixture.reads_succeed(1).await;
    let fault = fixture.inject_into_first(FaultInjectionResult::Delay(FOREVER));
    let write = fixture.client.write(&fixture.url(), "/written", "{}");
    let write = tokio::spawn(fixture.client.execute(write));
    fixture.until_hits(&fault, 1).await;
    assert_eq!(fixture.reads_succeed(3).await, [1; 3]);
    fixture.sweep(AFTER_A_HANG, None);
    assert_eq!(fixture.shards(), [1]);
    let executed = joined(write).await;
    executed.body();
    assert_eq!(executed.diagnostics.attempts()[0].request_sent, RequestSentStatus::NotSent);
    let seen = fixture.peer.seen();
    assert_eq!(seen.paths().iter().filter(|&&path| path == "/written").count(), 1);
}

#[tokio::test]
async fn requests_that_time_out_count_against_their_shard() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    fixture.reads_succeed(1).await;
    let fault = fixture.inject_into_first(FaultInjectionResult::Hang);
    for _ in 0..5 {
        let mut read = fixture.client.read(&fixture.url(), "/");
        read.deadline = Some(Instant::now() + Duration::from_millis(5));
        let outcome = fixture.client.execute(read).await.outcome;
        assert!(matches!(outcome, TransportOutcome::DeadlineExceeded { .. }), "{outcome:?}");
    }
    assert_eq!(fault.hits(), 5);
    assert_eq!(fixture.reads_succeed(5).await, [1; 5]);
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards(), [1]);
}

#[tokio::test]
async fn nothing_is_evicted_while_the_processors_are_busier_than_the_limit() {
    let fixture = FaultFixture::new(4, 1, |_| {});
    fixture.inject_into_first(FaultInjectionResult::request_lost());
    fixture.fail(5).await;
    fixture.reads_succeed(1).await;
    for busy in [0.91, 1.0] {
        fixture.sweep(AFTER_GRACE, Some(busy));
        assert_eq!(fixture.shards(), [0, 1], "{busy}");
    }
    fixture.sweep(AFTER_GRACE, Some(0.9));
    assert_eq!(fixture.shards(), [1]);
}

#[tokio::test]
async fn a_shard_that_hangs_is_kept_as_long_as_the_processors_are_busy() {
    for (calm, stays) in [(Some(0.95), true), (Some(0.2), false), (None, false)] {
        let fixture = FaultFixture::new(4, 1, |_| {});
        fixture.reads_succeed(1).await;
        let fault = fixture.inject_into_first(FaultInjectionResult::Hang);
        let hanging = fixture.begin_reads(1);
        fixture.until_hits(&fault, 1).await;
        fixture.reads_succeed(1).await;
        fixture.sweep(AFTER_A_HANG, calm);
        assert_eq!(fixture.shards().contains(&0), stays, "{calm:?}");
        fault.disable();
        fixture.sweep(AFTER_A_HANG, None);
        all_succeed(hanging).await;
    }
}
